//! The placement of a team's weights.

use crate::device::ROW_BYTES;
use crate::place::{Placement, Recurrent};

/// A product of a phase: units, columns of each unit, terms.
fn stack(phase: usize, units: u32, columns: u32, depth: u32) -> Recurrent {
    Recurrent { phase, step: 0, units, columns, depth }
}

/// Places stacks on blocks with `resident_bytes` of shared memory for weights.
fn placed(stacks: &[Recurrent], sms: u32, resident_bytes: usize) -> Placement {
    let phases = 1 + stacks.iter().map(|stack| stack.phase).max().unwrap_or(0);
    Placement::new(stacks, phases, sms, ROW_BYTES + resident_bytes)
}

#[test]
fn teams_are_as_small_as_shared_memory_allows() {
    // 1 MB: 64 units of four columns, 1024 terms.
    let weights = [stack(0, 64, 4, 1024)];
    for (resident_bytes, blocks) in
        [(256 << 10, 4), ((256 << 10) - 1, 8), (32 << 10, 32), (16 << 10, 64), (1, 132)]
    {
        let placement = placed(&weights, 132, resident_bytes);
        assert_eq!(placement.blocks, blocks, "{resident_bytes} bytes");
        let streamed = placement.resident == [None];
        assert_eq!(streamed, resident_bytes == 1);
        let resident = if streamed { 0 } else { (1 << 20) / blocks as usize };
        assert_eq!(placement.shared_bytes, ROW_BYTES + resident);
    }
    // The largest team has all SMs, whatever their number.
    assert_eq!(placed(&weights, 7, 256 << 10).blocks, 4);
    assert_eq!(placed(&weights, 7, 128 << 10).blocks, 7);
    assert_eq!(placed(&weights, 2, 1 << 20).blocks, 2);
    // Without recurrent weights, the smallest team.
    assert_eq!(placed(&[], 132, 0).blocks, 4);
}

#[test]
fn columns_are_divided_and_nothing_overlaps() {
    // Two products of a phase, a narrow phase, and one whose units do not divide evenly.
    let stacks = [
        stack(0, 8, 4, 16),
        stack(0, 8, 1, 5),
        stack(1, 3, 1, 8),
        stack(2, 21, 2, 13),
        stack(3, 2, 1, 4),
    ];
    let placement = placed(&stacks, 8, 2 << 10);
    assert_eq!(placement.blocks, 4);
    // Narrow phases have different blocks, if there are enough.
    assert_eq!(placement.divided, [0..4, 0..3, 0..4, 0..2]);
    let floats = |stack: &Recurrent, blocks: u32| {
        stack.units.div_ceil(blocks) * stack.columns * stack.depth.next_multiple_of(4)
    };
    for block in 0..placement.blocks {
        let mut spans: Vec<_> = stacks
            .iter()
            .zip(&placement.resident)
            .filter(|(stack, _)| placement.divided[stack.phase].contains(&block))
            .map(|(stack, at)| {
                let at = at.expect("all is resident");
                let blocks = placement.divided[stack.phase].len() as u32;
                (at, at + floats(stack, blocks))
            })
            .collect();
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
        assert!(spans.iter().all(|&(start, _)| start % 4 == 0), "fours are aligned");
        let end = spans.last().expect("every block has some").1 as usize;
        assert!(ROW_BYTES + 4 * end <= placement.shared_bytes);
    }
    assert_eq!(placement.table()[..4], [0, 4, 0, 3]);
}

/// A stack that does not fit is streamed; later, smaller stacks are still resident.
#[test]
fn weights_that_do_not_fit_are_streamed() {
    let stacks = [stack(0, 8, 1, 16), stack(1, 8, 64, 64), stack(2, 8, 1, 16)];
    let placement = placed(&stacks, 2, 512);
    assert_eq!(placement.blocks, 2);
    assert_eq!(placement.resident, [Some(0), None, Some(64)]);
    assert_eq!(placement.table().last_chunk(), Some(&[0, u32::MAX, 64]));
}

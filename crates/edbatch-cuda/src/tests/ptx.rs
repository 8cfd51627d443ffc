//! Counts of instructions in the PTX of tiles. They need NVRTC, but no device.

use std::collections::BTreeMap;

use edbatch_layout::{CellStyle, Program};
use edbatch_models::Model;
use edbatch_zoo::{TreeLstm, TreeSizes};

use super::compiled_or_skip;
use crate::binary::Binary;
use crate::loaded::Generated;
use crate::{CudaOptions, DevicePrecision, nvrtc};

/// The instructions of a basic block: multiply-adds, those of tensor cores, loads from shared
/// memory, conversions to TF32 and bf16, and all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Counts {
    multiply_adds: u32,
    products: u32,
    loads: u32,
    conversions: u32,
    others: u32,
}

/// Returns the compiled kernel of a TreeLSTM of 256 elements, which has all shapes of unit tiles.
pub(super) fn tree_lstm(precision: DevicePrecision) -> Option<Binary> {
    let (vocabulary, embed, hidden, classes) = (100, 256, 256, 5);
    let model = TreeLstm::new(TreeSizes { vocabulary, embed, hidden, classes }).unwrap();
    let program = Program::new(model.network().clone(), CellStyle::Hoisted).unwrap();
    let options = CudaOptions::new().precision(precision);
    let source = Generated::new(&program, &options, None, "sm_90").source;
    compiled_or_skip(nvrtc::compiler().and_then(|all| all.compile(&source, "sm_90", None)))
}

/// Counts the instructions of all basic blocks.
fn basic_blocks(ptx: &str) -> Vec<Counts> {
    let mut all = vec![Counts::default()];
    for line in ptx.lines().map(str::trim) {
        if line.ends_with(':') || line.contains("bra") {
            all.push(Counts::default());
        }
        let last = all.last_mut().expect("there is one");
        let instruction = line.split_whitespace().next().unwrap_or("");
        match instruction {
            _ if !line.ends_with(';') || instruction.starts_with('.') => {}
            "fma.rn.f32" => last.multiply_adds += 1,
            _ if instruction.starts_with("mma") => last.products += 1,
            _ if ["ld.shared", "ldmatrix"].iter().any(|it| instruction.starts_with(it)) => {
                last.loads += 1;
            }
            "cvt.rna.tf32.f32" | "cvt.rn.bf16x2.f32" => last.conversions += 1,
            _ => last.others += 1,
        }
    }
    all
}

/// For the largest inner loops, all unrolled over 32 terms: multiply-adds, and the most loads and
/// other instructions. They are large tiles of 16 rows, P2R1, P4R2, P2R2, P4R4 and large tiles of
/// 64 rows, S4R8, and S8R8 (one loop for both products). A thread of P2R1 has two columns of one
/// row of two products, so it loads four terms of a row, and four times two weights, for eight
/// multiply-adds.
const MOST: [[u32; 3]; 7] = [
    [128, 40, 30],
    [128, 80, 12],
    [256, 48, 12],
    [256, 96, 12],
    [512, 64, 30],
    [1024, 96, 31],
    [2048, 128, 31],
];

/// The number of these loops by multiply-adds: of a tile with two products, thin shapes have one
/// for both.
const LOOPS: [(u32, u32); 5] = [(128, 2), (256, 3), (512, 3), (1024, 2), (2048, 1)];

/// The block barriers of the kernel, outside functions that it calls. A wave in which each block
/// has one tile of whole rows passes two: after the rows are loaded, and at its end. The others are
/// of the ring, between tiles, at the barrier of a team, and before the first wave.
const BARRIERS: usize = 11;

#[test]
fn tiles_load_an_operand_once_for_several_multiply_adds() {
    let Some(binary) = tree_lstm(DevicePrecision::Exact) else { return };
    let mut loops = BTreeMap::new();
    for block in basic_blocks(&binary.ptx) {
        let Counts { multiply_adds, loads, others, .. } = block;
        if multiply_adds >= 128 {
            *loops.entry(multiply_adds).or_insert(0) += 1;
            let fits = |&[all, most_loads, most_others]: &[u32; 3]| {
                all == multiply_adds && loads <= most_loads && others <= most_others
            };
            assert!(MOST.iter().any(fits), "{block:?}");
        }
    }
    assert_eq!(loops.into_iter().collect::<Vec<_>>(), LOOPS);
    let (_, kernel) = binary.ptx.split_once(".entry plan_kernel").unwrap();
    assert_eq!(kernel.matches("bar.sync").count(), BARRIERS);
}

/// For the halves of a stage of large tiles of 16 and of 64 rows, and for the inner loops of unit
/// tiles, of four steps of both products, for 8 and for 16 rows: instructions of tensor cores,
/// loads from shared memory, and conversions. A lane loads its weights of 16 columns of a step at
/// once, and converts only rows, in large tiles.
const OF_TENSORS: [(DevicePrecision, [[u32; 3]; 6]); 2] = [
    (DevicePrecision::Tf32, [[2, 4, 4], [2, 4, 4], [8, 6, 8], [8, 6, 8], [16, 24, 0], [32, 24, 0]]),
    (DevicePrecision::Bf16, [[1, 3, 2], [1, 3, 2], [4, 6, 4], [4, 6, 4], [16, 24, 0], [32, 24, 0]]),
];

#[test]
fn tensor_tiles_load_a_fragment_at_once_and_convert_no_weights() {
    let mut all = Vec::new();
    for (precision, _) in OF_TENSORS {
        let Some(binary) = tree_lstm(precision) else { return };
        let mut blocks = basic_blocks(&binary.ptx);
        blocks.retain(|block| block.products > 0);
        blocks.sort_unstable();
        let counts = blocks.iter().map(|of| [of.products, of.loads, of.conversions]);
        all.push((precision, counts.collect::<Vec<_>>()));
    }
    assert_eq!(all, OF_TENSORS.map(|(precision, counts)| (precision, counts.to_vec())));
}

//! Losses of rows of scores, and their gradients.

use std::fmt::Write;
use std::sync::Arc;

use edbatch_graph::{Graph, Network, NodeId, Schedule, Shape, training_network};
use edbatch_layout::{Lifetimes, MiniBatch, Planner, Program, TrainingPlan, Want};
use edbatch_runtime::kernels::math;

use super::{Random, assert_same_bits, everywhere, levels};
use crate::command_list::{CommandList, Givens, Losses};
use crate::options::DevicePrecision;
use crate::phase_table::{PhaseTable, SMS, Way};

const LOSS: &str = "#include \"loss.h\"";

/// The command list: the number of rows, their width, the weight, whether a block computes a row,
/// and the terms.
const LOSSES: &str = "
    u32 count = a.commands[0], width = a.commands[1];
    float weight = from_bits(a.commands[2]);
    const Term* terms = (const Term*)(a.commands + 4);
    if (a.commands[3] == 0) {
        block.superstep([&](u32 t) {
            u32 i = block.index * THREADS + t;
            if (i < count) narrow_loss(a.arena, terms[i], width, weight);
        });
    } else {
        for (u32 i = block.index; i < count; i += block.slices)
            wide_loss(block, a.arena, terms[i], width, weight);
    }";

/// Returns rows of scores: usual ones, large ones, ones with special values, and ones of zeros and
/// infinities alone.
fn rows(count: usize, width: usize, random: &mut Random) -> Vec<f32> {
    let mut row = |row: usize| {
        let mut row = (random.floats(width, row % 4 == 2), row % 4);
        match row.1 {
            1 => row.0.iter_mut().for_each(|x| *x *= 100.0),
            3 => {
                let infinite =
                    [f32::NEG_INFINITY, f32::INFINITY][usize::from(random.below(8) == 0)];
                let few = [0.0, -0.0, infinite, f32::NEG_INFINITY, -f32::MAX];
                row.0.iter_mut().for_each(|x| *x = few[random.below(few.len())]);
            }
            _ => {}
        }
        row.0
    };
    (0..count).flat_map(&mut row).collect()
}

#[test]
fn losses_and_their_gradients_have_the_bits_of_the_cpu() {
    let Some(run) = everywhere(LOSS, LOSSES) else { return };
    let mut random = Random(3);
    let most = if edbatch_testing::all_cases() { 1 } else { 7 };
    let widths = (1..70).chain((70..=300).step_by(most)).chain([4095, 4096, 4097, 9001]);
    for width in widths {
        let count = if width > 300 { 4 } else { 12 };
        let arena = rows(count, width, &mut random);
        let weight = [1.0, 1.0 / 64.0, 0.3, -2.5][random.below(4)];
        // Gradients are in reverse order, and losses follow them.
        let losses = (2 * arena.len()).next_multiple_of(2);
        let term = |row: usize, class: usize| {
            let gradient = arena.len() + (count - 1 - row) * width;
            [row * width, class, gradient, losses + 2 * row].map(|word| word as u32)
        };
        let classes: Vec<usize> = (0..count).map(|_| random.below(width)).collect();
        let terms: Vec<_> = classes.iter().enumerate().map(|(row, &of)| term(row, of)).collect();
        for wide in (0..2).filter(|&wide| width <= 64 || wide == 1) {
            let head = [count as u32, width as u32, f32::to_bits(weight), wide];
            let commands = [&head[..], terms.as_flattened()].concat();
            let blocks = 1 + random.below(3) as u32;
            let lefts = run((blocks, &commands, &[], &arena, losses + 2 * count - arena.len()));
            for level in levels() {
                for (row, &class) in classes.iter().enumerate() {
                    let mut expected = arena[row * width..][..width].to_vec();
                    let loss = math::cross_entropy(level, &mut expected, class);
                    expected[class] -= 1.0;
                    expected.iter_mut().for_each(|element| *element *= weight);
                    let loss = f64::from(weight) * loss;
                    for (device, left) in &lefts {
                        let what = || format!("{device}: row {row} of {width}, {wide}, at {level}");
                        let gradient = terms[row][2] as usize;
                        assert_same_bits(&left.arena[gradient..][..width], &expected, what);
                        let got = double(&left.arena, losses + 2 * row);
                        let same =
                            got.to_bits() == loss.to_bits() || (got.is_nan() && loss.is_nan());
                        assert!(same, "{}: {got:e}, expected {loss:e}", what());
                    }
                }
            }
        }
    }
}

/// Returns the double at a place.
fn double(floats: &[f32], at: usize) -> f64 {
    f64::from_bits(u64::from(floats[at].to_bits()) | u64::from(floats[at + 1].to_bits()) << 32)
}

#[test]
fn the_logarithm_of_doubles_has_the_bits_of_the_cpu() {
    let wave = "u32 count = a.commands[0];
        double* x = (double*)a.arena;
        block.superstep([&](u32 t) {
            for (u32 i = block.index * THREADS + t; i < count; i += block.slices * THREADS)
                x[count + i] = ln_(x[i]);
        });";
    let Some(run) = everywhere(LOSS, wave) else { return };
    let mut random = Random(4);
    let mut from = vec![0.0, -0.0, 1.0, -1.0, 5e-324, 1e-310, f64::INFINITY, f64::NEG_INFINITY];
    from.extend([f64::NAN, f64::MAX, f64::MIN_POSITIVE, std::f64::consts::SQRT_2]);
    // Any bits, and sums of exponentials.
    from.extend((0..50_000).map(|_| {
        let bits = [(); 2].map(|()| random.below(1 << 31) as u64);
        f64::from_bits((bits[0] << 32 | bits[1] << 1) & !(1 << 63))
    }));
    from.extend((0..50_000).map(|_| f64::from(1.0 + random.float().abs() * 300.0)));
    let halves = |x: &f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32].map(f32::from_bits);
    let arena: Vec<f32> = from.iter().flat_map(halves).collect();
    for (device, left) in run((4, &[from.len() as u32], &[], &arena, arena.len())) {
        for (i, x) in from.iter().enumerate() {
            let (got, expected) = (double(&left.arena, arena.len() + 2 * i), math::ln(*x));
            let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
            assert!(same, "{device}: ln {x:e} is {got:e}, expected {expected:e}");
        }
    }
}

/// The arena begins with the state of the step.
#[test]
fn losses_are_summed_by_inputs_in_order() {
    let wave = "Arguments own = a;
        own.stage = (Stage*)a.arena;
        if (block.index == 0) sum_losses(block, own, a.commands);";
    let Some(run) = everywhere(LOSS, wave) else { return };
    let mut random = Random(6);
    let halves = |x: f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32];
    for inputs in [0, 1, 2, 255, 256, 257, 700] {
        for (first_input, bad) in [(0, false), (5, false), (0, true), (5, true)] {
            // Inputs have up to three values; the first one has none.
            let counts = (0..inputs).map(|input| if input == 0 { 0 } else { random.below(4) });
            let counts: Vec<usize> = counts.collect();
            let ends = counts.iter().scan(0, |end, count| {
                *end += count;
                Some(*end as u32)
            });
            let ends: Vec<u32> = ends.collect();
            let mut losses: Vec<f64> =
                (0..counts.iter().sum()).map(|_| f64::from(random.float()) / 3.0).collect();
            if bad {
                losses.iter_mut().skip(90).step_by(70).for_each(|x| *x = f64::INFINITY);
            }
            let mut rest = losses.iter();
            let mut sums = Vec::new();
            for &count in &counts {
                sums.push(rest.by_ref().take(count).sum::<f64>());
            }
            let first_bad = sums.iter().position(|sum| !sum.is_finite());
            let fine = u32::MAX;
            let stage = [&[0, 0, fine, fine][..], &halves(0.0), &halves(0.0)].concat();
            let words = stage.into_iter().chain(losses.iter().flat_map(|&x| halves(x)));
            let arena: Vec<f32> = words.map(f32::from_bits).collect();
            let head = [0, 4, inputs as u32, first_input, 8, arena.len() as u32];
            let lefts = run((2, &[&head[..], &ends].concat(), &[], &arena, 2 * inputs + 2));
            for (device, left) in lefts {
                let what = format!("{device}: {inputs} inputs from {first_input}, {bad}");
                for (input, sum) in sums.iter().enumerate() {
                    let got = double(&left.arena, arena.len() + 2 * input);
                    assert!(got.to_bits() == sum.to_bits(), "{what}: {got}, expected {sum}");
                }
                let expected = first_bad.map_or(fine, |input| first_input + input as u32);
                assert_eq!(left.arena[2].to_bits(), expected, "{what}");
            }
        }
    }
}

/// A chain of two states and a value of each, from an initial state. All values but the first have
/// losses.
fn chain() -> (Program, TrainingPlan) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
    let score = network.record("score", [("y", Shape::Vector(70))]).unwrap();
    let start = network.initial(state, &["start"]).unwrap();
    let next = network.cell("next", state, |cell| {
        let [h] = cell.one("before", state);
        vec![(h + cell.parameter("w", &[2, 2]).matmul(h)).tanh()]
    });
    let output = network.cell("output", score, |cell| {
        let [h] = cell.one("h", state);
        vec![cell.parameter("out", &[70, 2]).matmul(h)]
    });
    let [next, output] = [next, output].map(|cell| cell.unwrap());
    let mut graph = Graph::new(Arc::new(network));
    let first = graph.call(next, &[], &[start]).unwrap();
    let second = graph.call(next, &[], &[first]).unwrap();
    let scores = graph.call(output, &[], &[second]).unwrap();
    let training = training_network(graph.network(), |_| true, |_| true).unwrap();
    let program = Program::for_training(Arc::new(training)).unwrap();
    let mut schedule = Schedule::new();
    for (node, kind) in [next, next, output].into_iter().enumerate() {
        schedule.push(kind, &[NodeId::new(node)]);
    }
    let wanted = [first, scores, second].map(|value| (value, Want::Elements));
    let mini_batch =
        MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
    let mut plan = TrainingPlan::default();
    let mut planner = Planner::new(Lifetimes::Distinct);
    planner.plan_training(&mini_batch, &[false, true, true], &mut plan).unwrap();
    (program, plan)
}

#[test]
fn lists_of_a_step_of_training_are_readable() {
    let (program, plan) = chain();
    let (mut list, mut got) = (CommandList::default(), String::new());
    let losses = Losses {
        forward: &plan.forward,
        before: 0,
        gradient_of: &plan.gradient_of,
        targets: &[7, 69, 1],
        weight: 0.5,
        ends: &[1, 3],
        first_input: 4,
    };
    for (way, plan, given) in [
        (Way::Forward, &plan.forward, Givens::Trained(&[100, 200, 300], true)),
        (Way::Back, &plan.back, Givens::Losses(losses)),
    ] {
        let table = PhaseTable::with_products(&program, way, DevicePrecision::Exact, SMS);
        list.write_from(&program, &table, plan, given).unwrap();
        write!(got, "{way:?}, {} elements\n{list}", list.arena()).unwrap();
    }
    assert_eq!(got, LISTS);
}

const LISTS: &str = "\
Forward, 372 elements
wave 0: parameters 100+2 -> @0;
wave 1: phase 0, 1 calls -> @112, 1 slices, 0+16;
wave 2: phase 0, 1 calls -> @128, 1 slices, 112+16;
wave 3: phase 1, 1 calls -> @144, 1 slices, 128+16;
wave 4: @112+2 -> output 0; @144+70 -> output 2; @128+2 -> output 72;
Back, 450 elements
wave 0: losses of width 0 [[0, 7, 0, 440]]; losses of width 2 [[128, 1, 96, 444]]; \
losses of width 70 [[144, 69, 16, 442]];
wave 1: phase 2, 1 calls -> @224, 1 slices, 128+16, 144+80, 28+29; \
sums of losses [440, 446, 1, 3] of inputs from 4;
wave 2: phase 0, 1 calls -> @336, 1 slices, 112+16, 128+16, 30+31;
wave 3: phase 1, 1 calls -> @336, 1 slices, 112+16, 128+16, 30+31;
wave 4: phase 0, 1 calls -> @352, 1 slices, 0+16, 112+16, 33+34;
wave 5: phase 1, 1 calls -> @352, 1 slices, 0+16, 112+16, 33+34;
";

use edbatch_layout::aligned::{AlignedBatch, Fate, Layout, MAX_SEARCHED, Problem, Search, plan};
use edbatch_testing::cases;
use proptest::prelude::*;

use super::brute_force::brute_force;
use super::generate::{
    add_reversed, disguise, feasible_problem, replace_some, reverse_some, small_problem, stream,
};
use super::text::parse;

fn ones(variables: u32, batches: &[&[&[u32]]]) -> Problem {
    let batch = |operands: &&[&[u32]]| {
        AlignedBatch::uniform(operands.iter().map(|positions| positions.to_vec()), 1)
    };
    Problem { variables, batches: batches.iter().map(batch).collect() }
}

#[track_caller]
fn check(variables: u32, batches: &[&[&[u32]]], expected: &str) {
    let layout = plan(&ones(variables, batches), Search::default());
    let fates = layout.fates.iter().map(|batch| {
        batch
            .iter()
            .map(|fate| match fate {
                Fate::InPlace => '=',
                Fate::Broadcast => '*',
                Fate::Copied => 'c',
            })
            .collect::<String>()
    });
    assert_eq!(fates.collect::<Vec<_>>().join(" "), expected, "{:?}", layout.order);
    assert!(layout.proved);
}

/// Fig. "Example for PQ tree-based algorithm": operands {x1, x3} and {x2, x1} of one batch share a
/// variable.
#[test]
fn the_example_of_the_paper() {
    let problem = ones(8, &[&[&[3, 4], &[0, 2], &[1, 0]], &[&[7, 5, 6], &[3, 2, 4]]]);
    let layout = plan(&problem, Search::default());
    assert!(layout.feasible && layout.proved);
    let mut order = layout.order;
    let second_first = order.iter().position(|&v| v == 1) > order.iter().position(|&v| v == 4);
    if second_first {
        order.reverse();
    }
    // x2 x1 x3 x4 x5 are in this order; the second batch determines the order of the other three,
    // which are on either side.
    let five: Vec<u32> = order.iter().copied().filter(|&v| v < 5).collect();
    let three: Vec<u32> = order.iter().copied().filter(|&v| v >= 5).collect();
    assert_eq!((five, three), (vec![1, 0, 2, 3, 4], vec![5, 7, 6]));
}

/// Feasibility and cost of every problem in the shared file.
#[test]
fn known_answers_are_found() {
    let Some(path) = edbatch_testing::shared("pqtree/aligned.txt") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let instances = parse(&text).unwrap();
    assert_eq!(instances.len(), 1520);
    for instance in instances {
        let layout = plan(&instance.problem, Search::default());
        assert_eq!((layout.feasible, layout.copies), instance.answer.unwrap());
        assert!(layout.proved);
    }
}

#[test]
fn fates_are_as_expected() {
    check(3, &[&[&[0], &[1]]], "==");
    check(3, &[&[&[0, 0, 0], &[0, 1, 2]]], "*=");
    check(3, &[&[&[0, 0, 1], &[0, 1, 2]]], "c=");
    check(4, &[&[&[0, 1], &[1, 2], &[2, 3]]], "===");
    check(3, &[&[&[0, 1], &[0, 1]]], "==");
    check(2, &[&[&[0, 1], &[1, 0]]], "=c");
    check(0, &[], "");
}

#[test]
fn the_lighter_of_two_conflicting_operands_is_copied() {
    let mut problem = ones(2, &[&[&[0, 1], &[1, 0]]]);
    problem.batches[0].operands[1].weight = 3;
    let layout = plan(&problem, Search::default());
    assert_eq!(layout.fates, [[Fate::Copied, Fate::InPlace]]);
    assert_eq!((layout.bytes, layout.copies, layout.feasible), (1, 1, false));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(400), failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn no_order_copies_fewer_bytes(problem in small_problem()) {
        let layout = plan(&problem, Search::default());
        let (bytes, feasible) = brute_force(&problem);
        prop_assert!(layout.proved);
        prop_assert_eq!((layout.bytes, layout.feasible), (bytes, feasible));
    }

    /// Without restarts and branch and bound a plan may cost more, but feasibility is exact, and
    /// the declaration order is not better.
    #[test]
    fn the_greedy_plan_is_sound(problem in small_problem()) {
        let greedy = plan(&problem, Search { seed: 1, restarts: 0, tests: 0 });
        let (bytes, feasible) = brute_force(&problem);
        prop_assert_eq!(greedy.feasible, feasible);
        prop_assert!(greedy.bytes >= bytes);
        prop_assert!(!greedy.proved || greedy.bytes == bytes);
        let declared = Layout::of_order(&problem, (0..problem.variables).collect());
        prop_assert!(greedy.bytes <= declared.bytes);
    }

    #[test]
    fn numbering_has_no_effect(problem in small_problem(), seed: u64) {
        let other = disguise(&problem, &mut stream(seed));
        let (a, b) = (plan(&problem, Search::default()), plan(&other, Search::default()));
        prop_assert_eq!((a.feasible, a.bytes), (b.feasible, b.bytes));
    }

    #[test]
    fn ideal_layouts_are_found(seed: u64) {
        let problem = feasible_problem(1000, stream(seed));
        for problem in [disguise(&problem, &mut stream(seed)), problem] {
            let layout = plan(&problem, Search::default());
            prop_assert!(layout.feasible && layout.proved);
            prop_assert_eq!(layout.copies, 0);
        }
    }
}

/// More than [`MAX_SEARCHED`] positions: the search has no effect, and the result is no worse than
/// the declaration order.
#[test]
fn large_infeasible_problems_are_planned_greedily() {
    for seed in 0..2 {
        let feasible = feasible_problem(400, stream(seed));
        let [mut reversed, mut replaced, mut conflicting] = [(); 3].map(|()| feasible.clone());
        reverse_some(&mut reversed);
        check_greedy(&reversed);
        replace_some(&mut replaced, stream(seed + 100));
        check_greedy(&replaced);
        add_reversed(&mut conflicting);
        check_greedy(&conflicting);
    }
}

#[track_caller]
fn check_greedy(problem: &Problem) {
    let positions: usize = problem.operands().map(|(_, operand)| operand.positions.len()).sum();
    assert!(positions > MAX_SEARCHED as usize);
    let layout = plan(problem, Search::default());
    assert_eq!(layout, plan(problem, Search { seed: 1, restarts: 0, tests: 0 }));
    assert_eq!(layout.fates, Layout::of_order(problem, layout.order.clone()).fates);
    assert!(!layout.feasible && !layout.proved && layout.copies > 0);
    let declared = Layout::of_order(problem, (0..problem.variables).collect());
    assert!(layout.bytes <= declared.bytes);
    assert!(!plan(&disguise(problem, &mut stream(7)), Search::default()).feasible);
}

/// Variables are numbered in an ideal order, but every second batch has a heavy operand that is not
/// contiguous in it.
#[test]
fn large_plans_are_no_worse_than_the_declaration_order() {
    let mut problem = feasible_problem(1000, stream(1));
    let ideal = plan(&problem, Search::default()).order;
    let mut number = vec![0; ideal.len()];
    (0..).zip(&ideal).for_each(|(place, &variable)| number[variable as usize] = place);
    let mut random = stream(2);
    for (index, batch) in problem.batches.iter_mut().enumerate() {
        for operand in &mut batch.operands {
            operand
                .positions
                .iter_mut()
                .for_each(|variable| *variable = number[*variable as usize]);
        }
        if index % 2 == 0 {
            let positions = &mut batch.operands[0].positions;
            let begin = random(400);
            (0..).zip(positions).for_each(|(position, variable)| *variable = begin + 83 * position);
            batch.operands[0].weight = 9;
        }
    }
    let declared = Layout::of_order(&problem, (0..problem.variables).collect());
    assert!(declared.copies < problem.batches.len());
    let greedy = plan(&problem, Search { seed: 0, restarts: 0, tests: 0 });
    assert!(greedy.bytes <= declared.bytes, "{} {}", greedy.bytes, declared.bytes);
}

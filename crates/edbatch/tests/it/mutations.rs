//! Mutation tests of the checkers: they reject every mutant of a plan or of a compiled cell, unless
//! it computes the same bits.

mod cell_laws;
mod cells;
mod elementwise;
mod evaluate;
mod forms;
mod live;
mod moved;
mod plan_laws;
mod plans;
mod subjects;
mod tally;
mod training;

use std::sync::Arc;
use std::thread;

use edbatch_graph::{Kind, Network, Value, training_network};
use edbatch_layout::CellStyle::{Batched, Declaration, Hoisted, Paper, Planned};
use edbatch_layout::{CellPlan, Plan, Program, Want, check, check_cell, check_folding};
use edbatch_testing::{cases, networks};
use rand::SeedableRng;

use evaluate::Call;
use live::{all_is_live, without_a_step};
use networks::Random;
use subjects::Subject;
use tally::{Sort, Tally};

/// The subjects of the first `n` random networks, or of a quarter of them in a short run.
fn random_subjects(n: u32) -> impl Iterator<Item = Subject> {
    (0..u64::from(cases(n))).map(Subject::random)
}

/// Checks all mutants of a plan.
fn mutate(subject: &Subject, wanted: &[(Value, Want)], rng: &mut Random, tally: &mut Tally) {
    let plan = subject.plan(wanted);
    let mutants = plans::mutants(&plan, rng);
    judge(subject, wanted, &plan, mutants, tally);
}

/// Checks mutants that overwrite rows too early, made from a plan that reuses no rows.
fn free_too_early(subject: &Subject, rng: &mut Random, tally: &mut Tally) {
    let all = subject.all();
    let mut plan = subject.plan(&all);
    let last = all.len() - 1;
    plan.wanted.drain(..last);
    let mutants = moved::mutants(&plan, &subject.program, rng);
    judge(subject, &all[last..], &plan, mutants, tally);
}

/// Checks mutants. An accepted mutant must compute the same bits.
fn judge(
    subject: &Subject,
    wanted: &[(Value, Want)],
    plan: &Plan,
    mutants: Vec<(Sort, Plan)>,
    tally: &mut Tally,
) {
    let mini_batch = subject.mini_batch(wanted);
    check(plan, &mini_batch).unwrap();
    let mut backend = subject.backend();
    let expected = subject.run(&mut backend, plan);
    for (sort, mutant) in mutants {
        match check(&mutant, &mini_batch) {
            Err(error) => tally.rejected(plan_laws::LAWS, sort, &error.what),
            Ok(()) => {
                tally.harmless(plan_laws::LAWS, sort, &mutant);
                let got = subject.run(&mut backend, &mutant);
                assert!(got == expected, "{}: {sort:?} is accepted:\n{mutant}", subject.name);
            }
        }
    }
}

#[test]
fn plan_mutants_are_rejected_or_compute_the_same_bits() {
    let mut tally = Tally::default();
    let mut rng = Random::seed_from_u64(1);
    for subject in random_subjects(48).chain(Subject::zoo(1)).chain(Subject::zoo(3)) {
        let all = subject.all();
        let last = &all[all.len() - 1..];
        mutate(&subject, &all, &mut rng, &mut tally);
        mutate(&subject, last, &mut rng, &mut tally);
        free_too_early(&subject, &mut rng, &mut tally);
    }
    tally.check(plan_laws::LAWS, &[("arena", "plus one"), ("arena", "plus a line")]);
}

/// The plan that computes the folded tables is valid, and none of its mutants is.
#[test]
fn mutants_of_a_folding_plan_are_rejected() {
    let (mut rng, mut count) = (Random::seed_from_u64(3), 0);
    for subject in random_subjects(48).chain(Subject::zoo(1)) {
        let plan = subject.program.folding_plan();
        check_folding(&plan, &subject.program).unwrap();
        for (sort, mutant) in plans::mutants(&plan, &mut rng) {
            let checked = check_folding(&mutant, &subject.program);
            assert!(checked.is_err(), "{}: {sort:?} is accepted:\n{mutant}", subject.name);
            count += 1;
        }
    }
    assert!(count > cases(3_000), "{count} mutants");
}

/// Compiles a network with adjoint cells.
fn for_training(network: &Network) -> Arc<Program> {
    let training = training_network(network, |_| true, |_| true).unwrap();
    Arc::new(Program::for_training(Arc::new(training)).unwrap())
}

/// Checks all mutants of a compiled cell. An accepted mutant must compute the same values.
fn mutate_cell(program: &Program, kind: Kind, rng: &mut Random, tally: &mut Tally) {
    let plan = program.cell(kind);
    check_cell(program, kind, plan).unwrap();
    let call = Call::random(program, kind, rng);
    let expected = call.outputs(plan);
    for (sort, mutant) in cells::mutants(plan, program, rng) {
        match check_cell(program, kind, &mutant) {
            Err(error) => tally.rejected(cell_laws::LAWS, sort, &error.what),
            Ok(()) => {
                tally.harmless(cell_laws::LAWS, sort, &mutant);
                assert_same(&expected, &call.outputs(&mutant), sort, &mutant);
            }
        }
    }
}

/// Asserts that the same elements are written, with the same values.
fn assert_same(
    expected: &[evaluate::Memory],
    got: &[evaluate::Memory],
    sort: Sort,
    mutant: &CellPlan,
) {
    for (expected, got) in expected.iter().zip(got) {
        for (element, expected) in expected {
            let got = got[element];
            let near = (expected - got).abs() <= 1e-9 * expected.abs().max(1.0);
            let same = near || *expected == got || (expected.is_nan() && got.is_nan());
            assert!(same, "{sort:?} is accepted: {got}, not {expected}:\n{mutant}");
        }
    }
}

#[test]
fn cell_mutants_are_rejected_or_compute_the_same_values() {
    let styles = [Hoisted, Planned, Paper, Batched, Declaration];
    let programs = styles.into_iter().map(|style| Arc::new(forms::program(style)));
    let subjects = random_subjects(200).chain(Subject::zoo(1));
    let subjects: Vec<Arc<Program>> = subjects.map(|subject| subject.program).collect();
    let forms = Arc::new(forms::program(Hoisted));
    let training = subjects.iter().step_by(4).chain([&forms]);
    let training: Vec<Arc<Program>> =
        training.map(|program| for_training(program.network())).collect();
    let programs: Vec<Arc<Program>> = programs.chain(subjects).chain(training).collect();
    // Each of two threads takes every other program.
    let half = |thread: usize| {
        let (mut tally, mut rng) = (Tally::default(), Random::seed_from_u64(thread as u64));
        for program in programs.iter().skip(thread).step_by(2) {
            for kind in (0..program.cells().len()).map(Kind::new) {
                if all_is_live(program.cell(kind)) {
                    mutate_cell(program, kind, &mut rng, &mut tally);
                }
            }
        }
        tally
    };
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let halves = [0, 1].map(|thread| scope.spawn(move || half(thread)));
        halves.into_iter().for_each(|half| tally.add(half.join().unwrap()));
    });
    tally.check(cell_laws::LAWS, cell_laws::ALWAYS_HARMLESS);
}

/// The sort of mutants without a step.
const REMOVED: Sort = ("steps", "removed");

/// Steps that nothing reads are dropped from cells. No other step may be, unless an equal value is
/// written to the same place.
#[test]
fn cells_that_lack_a_step_are_rejected() {
    let mut rng = Random::seed_from_u64(4);
    let styles = [Hoisted, Planned, Paper, Batched, Declaration];
    let networks: Vec<Arc<Network>> = random_subjects(60)
        .chain(Subject::zoo(1))
        .map(|subject| subject.program.network().clone())
        .collect();
    let in_styles = networks.iter().flat_map(|network| {
        styles.map(|style| Arc::new(Program::new(network.clone(), style).unwrap()))
    });
    let training = networks.iter().map(|network| for_training(network));
    let (mut rejected, mut equal) = (0, 0);
    for program in in_styles.chain(training) {
        for kind in (0..program.cells().len()).map(Kind::new) {
            let plan = program.cell(kind);
            check_cell(&program, kind, plan).unwrap();
            let call = Call::random(&program, kind, &mut rng);
            for mutant in without_a_step(plan) {
                if check_cell(&program, kind, &mutant).is_err() {
                    rejected += 1;
                    continue;
                }
                assert_same(&call.outputs(plan), &call.outputs(&mutant), REMOVED, &mutant);
                equal += 1;
            }
        }
    }
    println!("{rejected} rejected, {equal} equal");
    assert!(
        rejected > cases(4_000) && equal < rejected / 100,
        "{rejected} rejected, {equal} equal"
    );
}

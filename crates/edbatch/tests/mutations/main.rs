//! Every way to spoil a plan or a compiled cell is refused by its checker, unless it changes no
//! bit.

mod moved;
#[path = "../support/networks.rs"]
mod networks;
mod plan_laws;
mod plans;
mod subjects;
mod tally;

use edbatch_graph::Value;
use edbatch_layout::{MiniBatch, Plan, Planner, Room, Want, check};
use rand::SeedableRng;

use networks::Random;
use plan_laws::LAWS;
use subjects::Subject;
use tally::{Sort, Tally};

/// Spoils a plan in every way.
fn spoil(
    subject: &Subject,
    wanted: &[(Value, Want)],
    room: Room,
    rng: &mut Random,
    tally: &mut Tally,
) {
    let plan = subject.plan(wanted, room);
    let mutants = plans::mutants(&plan, rng);
    judge(subject, wanted, &plan, mutants, rng, tally);
}

/// Spoils a plan in which nothing was given back by giving rows back too early.
fn free_too_early(subject: &Subject, rng: &mut Random, tally: &mut Tally) {
    let all = subject.all();
    let mut plan = subject.plan(&all, Room::Distinct);
    let last = all.len() - 1;
    plan.wanted.drain(..last);
    let mutants = moved::mutants(&plan, &subject.program, rng);
    judge(subject, &all[last..], &plan, mutants, rng, tally);
}

/// A mutant that the checker accepts must compute the same bits, and stay legal when it is
/// refilled.
fn judge(
    subject: &Subject,
    wanted: &[(Value, Want)],
    plan: &Plan,
    mutants: Vec<(Sort, Plan)>,
    rng: &mut Random,
    tally: &mut Tally,
) {
    let mini_batch = subject.mini_batch(wanted);
    check(plan, &mini_batch).unwrap();
    let mut backend = subject.backend();
    let expected = subject.run(&mut backend, plan);
    let other = subject.other_rows(rng);
    for (sort, mut mutant) in mutants {
        match check(&mutant, &mini_batch) {
            Err(error) => tally.refused(LAWS, sort, &error.what),
            Ok(()) => {
                tally.harmless(LAWS, sort, &mutant);
                let got = subject.run(&mut backend, &mutant);
                assert!(got == expected, "{}: {sort:?} is accepted:\n{mutant}", subject.name);
                refill(subject, sort, &MiniBatch { graph: &other, ..mini_batch }, &mut mutant);
            }
        }
    }
    refill(
        subject,
        ("plan", "as it is"),
        &MiniBatch { graph: &other, ..mini_batch },
        &mut plan.clone(),
    );
}

fn refill(subject: &Subject, sort: Sort, other: &MiniBatch<'_>, plan: &mut Plan) {
    if Planner::default().refill(other, plan) {
        let checked = check(plan, other);
        assert_eq!(checked, Ok(()), "{}: {sort:?} is accepted, and refilled", subject.name);
    }
}

#[test]
fn a_spoilt_plan_is_refused_or_computes_the_same() {
    let mut tally = Tally::default();
    let mut rng = Random::seed_from_u64(1);
    for subject in (0..48).map(Subject::random).chain(Subject::zoo(1)).chain(Subject::zoo(3)) {
        let all = subject.all();
        let last = &all[all.len() - 1..];
        let [most, least] = if all.len() % 2 == 0 {
            [Room::Any, Room::Distinct]
        } else {
            [Room::Distinct, Room::Any]
        };
        spoil(&subject, &all, most, &mut rng, &mut tally);
        spoil(&subject, last, least, &mut rng, &mut tally);
        free_too_early(&subject, &mut rng, &mut tally);
    }
    tally.check(LAWS, &[("arena", "one more"), ("arena", "a line more")]);
}

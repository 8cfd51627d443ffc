//! Graphs in the text format, and their schedules by all policies.

use edbatch_graph::{Dag, Schedule, parse_text, write_text};
use edbatch_policy::{
    Agenda, Beam, ByDepth, Critical, Depth, LookAhead, PairRule, Policy, Scheduler, Sufficient,
    lower_bound, schedule,
};

/// A limit on size: larger graphs take longer without covering more code.
const MAX_NODES: usize = 300;

/// Reads a graph. If it is valid, writes it and reads it again, and checks that every policy finds
/// a legal schedule with at least as many batches as the lower bound.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let dag = match parse_text(text) {
        Ok(dag) => dag,
        Err(error) => return assert!(error.to_string().contains("line ")),
    };
    if dag.nodes() > MAX_NODES {
        return;
    }
    let again = parse_text(&write_text(&dag)).expect("a written graph is valid");
    assert!(again.nodes() == dag.nodes() && write_text(&again) == write_text(&dag));
    let bound = lower_bound(&dag);
    let check = |schedule: &Schedule| {
        schedule.check(&dag).expect("the schedule is legal");
        assert!(bound <= schedule.len() && schedule.len() <= dag.nodes());
    };
    let policies: [Box<dyn Policy>; 7] = [
        Box::new(Depth::new()),
        Box::new(ByDepth::default()),
        Box::new(Agenda::new()),
        Box::new(Sufficient::new()),
        Box::new(Critical::new()),
        Box::new(LookAhead::new(PairRule::pair())),
        Box::new(Beam::new(2)),
    ];
    policies.into_iter().for_each(|mut policy| check(&schedule(&dag, &mut policy)));
    for mut scheduler in [Scheduler::default(), Scheduler::by_depth()] {
        let mut schedule = Schedule::default();
        scheduler.schedule(&dag, &mut schedule);
        check(&schedule);
    }
}

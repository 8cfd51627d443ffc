//! Graphs in the text format, and what policies make of them.

use edbatch_graph::{Dag, Schedule, parse_text, write_text};
use edbatch_policy::{
    Agenda, Beam, ByDepth, Critical, Depth, LookAhead, PairRule, Policy, Scheduler, Sufficient,
    lower_bound, schedule,
};

/// Larger graphs take longer, and say no more.
const MOST_NODES: usize = 300;

/// Reads a graph; what can be read is written and read again, and every policy batches it legally,
/// in no fewer batches than the lower bound.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let dag = match parse_text(text) {
        Ok(dag) => dag,
        Err(error) => return assert!(error.to_string().contains("line ")),
    };
    if dag.nodes() > MOST_NODES {
        return;
    }
    let again = parse_text(&write_text(&dag)).expect("what was written can be read");
    assert!(again.nodes() == dag.nodes() && write_text(&again) == write_text(&dag));
    let bound = lower_bound(&dag);
    let check = |schedule: &Schedule| {
        schedule.check(&dag).expect("a legal schedule");
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

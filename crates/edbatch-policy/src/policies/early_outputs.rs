//! [`Critical`], but outputs run before the end.
//!
//! Nothing hangs on a kind that no node reads, such as the scores of a lattice's characters, so
//! `Critical` runs all its nodes in one batch at the very end. Until then, every value that they
//! read stays in memory. Here such a kind runs as soon as enough of its nodes are ready. The
//! values that only they read are then freed early, and are still in the cache when they are read.
//!
//! *Cost*: as `Critical`, and O(ready kinds) per batch. The number of batches grows by at most
//! one for each 256 nodes of such kinds.

use edbatch_graph::Kind;

use crate::{AnyPolicy, Critical, Frontier, Policy};

/// A kind that no node reads runs if at least this number of its nodes are ready. With 64, small
/// mini-batches are up to 3 % slower.
const ENOUGH: usize = 256;

/// Runs kinds that no node reads early, and chooses like [`Critical`] otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlyOutputs(Critical);

impl Policy for EarlyOutputs {
    fn start(&mut self, frontier: &Frontier) {
        self.0.start(frontier);
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        let is_early =
            |&kind: &Kind| !frontier.is_read(kind) && frontier.ready(kind).len() >= ENOUGH;
        // `Critical` compares its counts with the frontier when it is called, so it may be called
        // after any batch.
        let early = frontier.ready_kinds().find(is_early);
        early.unwrap_or_else(|| self.0.next(frontier))
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use edbatch_graph::{Schedule, parse_text};

    use crate::{Critical, Scheduler, schedule};

    /// Chains of `pairs` pairs of nodes whose kinds read each other. A node of a third kind reads
    /// each of them.
    fn chains(count: usize, pairs: usize) -> String {
        let (mut lines, mut nodes) = (Vec::new(), 0);
        for _ in 0..count {
            for node in 0..2 * pairs {
                let kind = node % 2;
                lines.push(match node {
                    0 => format!("{kind} 0"),
                    _ => format!("{kind} 1 {}", nodes - 2),
                });
                lines.push(format!("2 1 {nodes}"));
                nodes += 2;
            }
        }
        format!("{nodes}\n{}\n", lines.join("\n"))
    }

    fn sizes_of_outputs(schedule: &Schedule) -> Vec<usize> {
        let outputs = schedule.batches().filter(|batch| batch.kind.0 == 2);
        outputs.map(|batch| batch.nodes.len()).collect()
    }

    #[test]
    fn outputs_run_once_256_are_ready() {
        let dag = parse_text(&chains(100, 4)).unwrap();
        let mut by_default = Schedule::new();
        let mut scheduler = Scheduler::default();
        for _ in 0..2 {
            scheduler.schedule(&dag, &mut by_default);
            by_default.check(&dag).unwrap();
            assert_eq!(sizes_of_outputs(&by_default), [300, 300, 200]);
        }
        let critical = schedule(&dag, &mut Critical::new());
        assert_eq!(sizes_of_outputs(&critical), [800]);
        let others = |schedule: &Schedule| -> Vec<_> {
            let batches = schedule.batches().filter(|batch| batch.kind.0 != 2);
            batches.map(|batch| batch.nodes.to_vec()).collect()
        };
        assert_eq!(others(&by_default), others(&critical));
    }

    #[test]
    fn few_outputs_run_at_the_end() {
        let dag = parse_text(&chains(31, 4)).unwrap();
        let mut by_default = Schedule::new();
        Scheduler::default().schedule(&dag, &mut by_default);
        let critical = schedule(&dag, &mut Critical::new());
        assert_eq!(by_default.to_string(), critical.to_string());
        assert_eq!(sizes_of_outputs(&critical), [248]);
    }

    #[test]
    fn a_policy_of_the_caller_is_obeyed() {
        let dag = parse_text(&chains(100, 4)).unwrap();
        let mut by_caller = Schedule::new();
        Scheduler::by(Box::new(Critical::new())).schedule(&dag, &mut by_caller);
        assert_eq!(by_caller.to_string(), schedule(&dag, &mut Critical::new()).to_string());
    }
}

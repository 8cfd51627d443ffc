//! Learning an FSM from a teacher.
//!
//! *Source*: our own. A teacher (a beam search, say) schedules the mini-batches; for every state we
//! note what it ran there, and the majority decides.
//!
//! *Cost*: a run of the teacher per mini-batch. (Not on their [`quotient`](crate::quotient): what
//! `Critical` sees there is coarser than what the table will meet.)

use std::collections::HashMap;

use edbatch_graph::{Dag, Kind};

use crate::evaluation::Evaluation;
use crate::search::kinds_of;
use crate::{
    Encoding, Frontier, Fsm, FsmTable, NamedEncoding, Outcome, Policy, Symbol, TrainingSet,
};

/// The table that does in each state what `teacher` does there most often on the mini-batches to
/// learn on; evaluated on those held out. `episodes` counts mini-batches.
pub fn distill<D: Dag>(
    set: &TrainingSet<'_, D>,
    encoding: &NamedEncoding,
    teacher: &mut impl Policy,
) -> Outcome {
    let mut votes: Vec<(Vec<Symbol>, HashMap<Kind, usize>)> = Vec::new();
    let mut known: HashMap<Vec<Symbol>, usize> = HashMap::new();
    for dag in set.train() {
        let mut frontier = Frontier::new(dag);
        let kinds = kinds_of(&mut frontier, teacher);
        frontier.rewind();
        let mut encoding = encoding.clone();
        encoding.start(&frontier);
        for kind in kinds {
            let mut word = Vec::new();
            encoding.encode(&frontier, &mut word);
            let state = *known.entry(word).or_insert_with_key(|word| {
                votes.push((word.clone(), HashMap::new()));
                votes.len() - 1
            });
            *votes[state].1.entry(kind).or_default() += 1;
            frontier.run(kind, frontier.ready(kind).len());
        }
    }
    let winner = |(word, votes): (Vec<Symbol>, HashMap<Kind, usize>)| {
        let most = votes.into_iter().max_by_key(|&(kind, votes)| (votes, std::cmp::Reverse(kind)));
        (word, most.expect("a state noted has a vote").0)
    };
    let mut table = votes.into_iter().map(winner).collect();
    close(&mut table, set, encoding);
    evaluated(table, set.train().len(), set, encoding)
}

/// Where the majority leaves the teacher's path, the table may meet states that the teacher never
/// did: it learns there what its fallback does, so that it no longer needs it on these graphs.
fn close<D: Dag>(table: &mut FsmTable, set: &TrainingSet<'_, D>, encoding: &NamedEncoding) {
    let mut fsm = Fsm::of(table, encoding.clone(), set.kinds());
    for dag in set.train() {
        let mut frontier = Frontier::new(dag);
        fsm.start(&frontier);
        let mut unseen = 0;
        while !frontier.is_done() {
            let kind = fsm.next(&frontier);
            if fsm.unseen() > unseen {
                unseen = fsm.unseen();
                table.push((fsm.state().to_vec(), kind));
                fsm.insert(&table[table.len() - 1].0, kind);
            }
            frontier.run(kind, frontier.ready(kind).len());
        }
    }
}

fn evaluated<D: Dag>(
    table: FsmTable,
    episodes: usize,
    set: &TrainingSet<'_, D>,
    encoding: &NamedEncoding,
) -> Outcome {
    let mut evaluation = Evaluation::new(set.held_out());
    Outcome {
        episodes,
        before: evaluation.batches(&mut Fsm::new(encoding.clone(), set.kinds())),
        after: evaluation.batches(&mut Fsm::of(&table, encoding.clone(), set.kinds())),
        bound: evaluation.bound(),
        table,
    }
}

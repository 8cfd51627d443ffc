//! Learning an FSM from a teacher, and by trying.
//!
//! *Source*: our own. [`distill`] lets a teacher (a beam search, say) schedule the mini-batches and
//! notes for every state what the teacher ran there; the majority decides. [`improve`] then climbs:
//! it changes one entry of the table at a time and keeps the change when the mini-batches need
//! fewer batches. What Q-learning estimates from rewards, it measures.
//!
//! *Cost*: distilling, a run of the teacher per mini-batch. Improving, a run of all mini-batches
//! per entry and kind in every round. (Not on their [`quotient`](crate::quotient): what `Critical`
//! sees there is coarser than what the table will meet.)

use std::collections::HashMap;

use edbatch_graph::{Dag, Kind};

use crate::evaluation::Evaluation;
use crate::search::kinds_of;
use crate::values::choices;
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

/// Changes single entries of a table as long as that saves batches where it learns, for at most
/// `rounds` rounds, beginning with it or with the empty table, whichever is better there. An entry
/// may also be given up, so that its state falls to `Critical`. Returns the best of the three on
/// what is held out. `episodes` counts trials.
pub fn improve<D: Dag>(
    outcome: &Outcome,
    set: &TrainingSet<'_, D>,
    encoding: &NamedEncoding,
    rounds: usize,
) -> Outcome {
    let kinds = set.kinds();
    let mut environments = Evaluation::new(set.train());
    let mut fsm = Fsm::of(&outcome.table, encoding.clone(), kinds);
    let mut entries: Vec<Entry> = Vec::new();
    entries.extend(outcome.table.iter().map(|(word, kind)| (word.clone(), Some(*kind))));
    entries.extend(of_critical(set, encoding).filter(|(word, _)| !fsm.knows(word)));
    let mut least = environments.batches(&mut fsm);
    let by_critical = environments.batches(&mut Fsm::new(encoding.clone(), kinds));
    if by_critical < least {
        least = by_critical;
        for (word, entry) in &mut entries {
            *entry = None;
            fsm.set(word, None);
        }
    }
    let mut trials = 0;
    for _ in 0..rounds {
        let before = least;
        for (word, chosen) in &mut entries {
            for other in others(word, *chosen) {
                fsm.set(word, other);
                trials += 1;
                let batches = environments.batches(&mut fsm);
                if batches < least {
                    (least, *chosen) = (batches, other);
                }
            }
            fsm.set(word, *chosen);
        }
        if least == before {
            break;
        }
    }
    let table = entries.into_iter().filter_map(|(word, kind)| Some((word, kind?))).collect();
    let improved = evaluated(table, outcome.episodes + trials, set, encoding);
    let better = if improved.after <= outcome.after { improved } else { outcome.clone() };
    better.or_critical(encoding)
}

/// What to run in a state, or none for what `Critical` would.
type Entry = (Vec<Symbol>, Option<Kind>);

/// The states on the way of `Critical`.
fn of_critical<D: Dag>(
    set: &TrainingSet<'_, D>,
    encoding: &NamedEncoding,
) -> impl Iterator<Item = Entry> + use<D> {
    let mut table = FsmTable::new();
    close(&mut table, set, encoding);
    table.into_iter().map(|(word, _)| (word, None))
}

/// What may stand in a state but does not: the kinds of its word, and none.
fn others(word: &[Symbol], chosen: Option<Kind>) -> Vec<Option<Kind>> {
    let mut others: Vec<_> = choices(word).map(Some).chain([None]).collect();
    others.sort_unstable();
    others.dedup();
    others.retain(|&other| other != chosen);
    others
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

//! Learning an FSM from a teacher, and by trying.
//!
//! *Source*: our own. [`distill`] lets a teacher (a beam search, say) schedule the mini-batches and
//! notes for every state what the teacher ran there; the majority decides. [`improve`] then climbs:
//! it changes one entry of the table at a time and keeps the change when the mini-batches need
//! fewer batches. What Q-learning estimates from rewards, it measures.
//!
//! *Cost*: distilling, a run of the teacher per mini-batch. Improving, a run of all mini-batches
//! per entry and kind in every round; runs are on the [`quotient`].

use std::collections::HashMap;

use edbatch_graph::{Dag, Kind};

use crate::exam::Exam;
use crate::search::kinds_of;
use crate::{Encoding, Frontier, Fsm, Named, Outcome, Policy, Symbol, Table, quotient};

/// The table that does in each state what `teacher` does there most often on the mini-batches of
/// `train`; judged on `held_out`. `episodes` counts mini-batches.
pub fn distill<D: Dag>(
    train: &[D],
    held_out: &[D],
    encoding: &Named,
    teacher: &mut impl Policy,
) -> Outcome {
    let mut votes: Vec<(Vec<Symbol>, HashMap<Kind, usize>)> = Vec::new();
    let mut known: HashMap<Vec<Symbol>, usize> = HashMap::new();
    for dag in train {
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
    close(&mut table, train, encoding);
    judged(table, train.len(), held_out, encoding, kinds_of_all(train))
}

/// Where the majority leaves the teacher's path, the table may meet states that the teacher never
/// did: it learns there what its fallback does, so that it no longer needs it on these graphs.
fn close<D: Dag>(table: &mut Table, train: &[D], encoding: &Named) {
    let mut fsm = Fsm::of(table, encoding.clone(), kinds_of_all(train));
    for dag in train {
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

/// Changes single entries of a table as long as that saves batches on `train`, for at most `rounds`
/// rounds; returns the better of the two on `held_out`, or the empty table, which is `Critical`
/// everywhere, if that is better still. `episodes` counts trials.
pub fn improve<D: Dag>(
    outcome: &Outcome,
    train: &[D],
    held_out: &[D],
    encoding: &Named,
    rounds: usize,
) -> Outcome {
    let kinds = kinds_of_all(train);
    let mut courses = Exam::of(train.iter().map(|dag| quotient(&Frontier::new(dag))).collect());
    let mut table = outcome.table.clone();
    let mut fsm = Fsm::of(&table, encoding.clone(), kinds);
    let mut least = courses.batches(&mut fsm);
    let mut trials = 0;
    for _ in 0..rounds {
        let before = least;
        for (word, chosen) in &mut table {
            for kind in others(word, *chosen) {
                fsm.insert(word, kind);
                trials += 1;
                let batches = courses.batches(&mut fsm);
                if batches < least {
                    (least, *chosen) = (batches, kind);
                }
            }
            fsm.insert(word, *chosen);
        }
        if least == before {
            break;
        }
    }
    let improved = judged(table, outcome.episodes + trials, held_out, encoding, kinds);
    let better = if improved.after <= outcome.after { improved } else { outcome.clone() };
    better.or_critical()
}

/// The kinds of a state's word, each once, without one.
fn others(word: &[Symbol], chosen: Kind) -> Vec<Kind> {
    let mut kinds: Vec<_> = word
        .iter()
        .filter_map(|symbol| match *symbol {
            Symbol::Kind(kind) if kind != chosen => Some(kind),
            _ => None,
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn judged<D: Dag>(
    table: Table,
    episodes: usize,
    held_out: &[D],
    encoding: &Named,
    kinds: usize,
) -> Outcome {
    let mut exam = Exam::new(held_out);
    Outcome {
        episodes,
        before: exam.batches(&mut Fsm::new(encoding.clone(), kinds)),
        after: exam.batches(&mut Fsm::of(&table, encoding.clone(), kinds)),
        bound: exam.bound(),
        table,
    }
}

fn kinds_of_all<D: Dag>(dags: &[D]) -> usize {
    dags.iter().map(Dag::kinds).max().unwrap_or(0)
}

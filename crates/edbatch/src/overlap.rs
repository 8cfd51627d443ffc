//! Two threads on one engine: the next mini-batch is wired, scheduled and planned while this one runs.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use edbatch_graph::Graph;
use edbatch_models::Model;

use crate::executor::{Decider, Decision, Executor, Planned, Runner};
use crate::in_flight::{Wired, wire};
use crate::lanes::Lane;
use crate::{Engine, Rows, RunError, Statistics};

/// A mini-batch that only needs to be run.
struct Prepared {
    graph: RefCell<Graph>,
    wired: Wired,
    decision: Decision,
}

/// Mini-batches that could not be prepared, the first of them and the others: its instances await
/// values, and what comes then is not known before it runs.
type Rest<B, I> = Option<(B, I)>;

impl<M: Model> Engine<M> {
    /// Runs mini-batches one after the other, and while one runs, a second thread wires, schedules and
    /// plans the next. `done` hears the number of each mini-batch and takes, or looks at, the rows of its
    /// inputs. Results are those of [`run`](Self::run), bit by bit.
    ///
    /// For backends that leave the caller's processor idle, and for one mini-batch after the other on a
    /// processor with a core to spare: it hides all but the execution. Where throughput is all that
    /// counts, an engine a thread, each on [mini-batches of its own](Self::another), uses the second core
    /// fully. Mini-batches whose inputs await values are run without overlap, as are all on the
    /// [interpreter](Self::interpreted).
    ///
    /// ```
    /// # use edbatch::{Engine, models::{BiLstmTagger, Model, TaggerSizes}, datasets::Sentence};
    /// # use edbatch::runtime::Parameters;
    /// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    /// # let sizes = TaggerSizes { vocabulary: 9, embed: 4, hidden: 4, layers: 1, mlp: 4, tags: 3 };
    /// # let model = BiLstmTagger::new(sizes)?;
    /// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// # let parameters = Parameters::random(model.network(), &mut rng);
    /// # let mut engine = Engine::new(model, parameters)?;
    /// # let sentences: Vec<_> = [vec![1, 2], vec![3], vec![4, 5, 6]]
    /// #     .map(|words| Sentence { tags: vec![None; words.len()], words }).into();
    /// let mut scored = Vec::new();
    /// engine.run_overlapped(sentences.chunks(2), |number, outputs| {
    ///     scored.extend(outputs.iter().map(|rows| (number, rows.len())));
    /// })?;
    /// assert_eq!(scored, [(0, 2), (0, 1), (1, 3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run), for the mini-batch after the last that `done` heard of.
    pub fn run_overlapped<B: AsRef<[M::Input]> + Send>(
        &mut self,
        mini_batches: impl IntoIterator<Item = B, IntoIter: Send>,
        mut done: impl FnMut(usize, &mut Vec<Rows>),
    ) -> Result<(), RunError> {
        let mini_batches = mini_batches.into_iter();
        let (mut number, mut outputs) = (0, Vec::new());
        let mut report = |outputs: &mut Vec<Rows>| {
            done(number, outputs);
            number += 1;
        };
        let Self { model, lane: Lane { executor, statistics, .. }, .. } = self;
        let rest = match executor {
            Executor::Planned(planned) => {
                let Planned { decider, runner, .. } = &mut **planned;
                overlap(model, (decider, runner), mini_batches, statistics, |runner, prepared| {
                    runner.hand_out(prepared, &mut outputs);
                    report(&mut outputs);
                })?
            }
            Executor::Interpreted(_) => {
                let mut mini_batches = mini_batches;
                mini_batches.next().map(|first| (first, mini_batches))
            }
        };
        let rest =
            rest.into_iter().flat_map(|(first, others)| std::iter::once(first).chain(others));
        for inputs in rest {
            self.run_into(inputs.as_ref(), &mut outputs)?;
            report(&mut outputs);
        }
        self.note_memory();
        Ok(())
    }
}

/// Runs what another thread prepares, until that has nothing more.
fn overlap<M: Model, B: AsRef<[M::Input]> + Send, I: Iterator<Item = B> + Send>(
    model: &M,
    (decider, runner): (&mut Decider, &mut Runner),
    mini_batches: I,
    statistics: &mut Statistics,
    mut ran: impl FnMut(&Runner, &Prepared),
) -> Result<Rest<B, I>, RunError> {
    let (deliver, prepared) = channel();
    let (give_back, spare) = channel();
    // One that runs, and one that is being prepared.
    for _ in 0..2 {
        let graph = RefCell::new(Graph::new(model.network().clone()));
        let new = Prepared { graph, wired: Wired::default(), decision: Decision::default() };
        give_back.send(new).expect("the receiver is here");
    }
    thread::scope(|scope| {
        let preparing = scope.spawn(|| prepare(model, decider, mini_batches, spare, deliver));
        let run = |prepared: Result<Prepared, RunError>| {
            let prepared = prepared?;
            let Prepared { graph, wired, decision } = &prepared;
            if !wired.counts.is_empty() {
                let carried = Rows::new();
                runner.run(&graph.borrow(), &carried, &wired.emitted, decision, statistics)?;
            }
            let reading = Instant::now();
            ran(runner, &prepared);
            statistics.execute += reading.elapsed();
            // The other thread may have ended.
            let _ = give_back.send(prepared);
            Ok(())
        };
        let result = prepared.into_iter().try_for_each(run);
        drop(give_back);
        let (prepared, rest) =
            preparing.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug));
        statistics.add(&prepared);
        result.map(|()| rest)
    })
}

/// Prepares mini-batches as long as there is a spare one to do it in.
fn prepare<M: Model, B: AsRef<[M::Input]>, I: Iterator<Item = B>>(
    model: &M,
    decider: &mut Decider,
    mut mini_batches: I,
    spare: Receiver<Prepared>,
    deliver: Sender<Result<Prepared, RunError>>,
) -> (Statistics, Rest<B, I>) {
    let mut statistics = Statistics::default();
    // The first, so that no mini-batch is taken that will not be run.
    for mut prepared in spare {
        let Some(inputs) = mini_batches.next() else { break };
        let Prepared { graph, wired, decision } = &mut prepared;
        let constructing = Instant::now();
        graph.borrow_mut().clear();
        let ended = wire(model, graph, inputs.as_ref(), wired);
        statistics.construct += constructing.elapsed();
        let decided = match ended {
            Ok(false) => return (statistics, Some((inputs, mini_batches))),
            Ok(true) => decider.decide(&graph.borrow(), &wired.emitted, decision, &mut statistics),
            Err(error) => {
                // Nobody listens any more if an earlier one failed.
                let _ = deliver.send(Err(error));
                break;
            }
        };
        statistics.instances += inputs.as_ref().len() as u64;
        let failed = decided.is_err();
        let sent = deliver.send(decided.map(|()| prepared).map_err(RunError::from));
        if failed || sent.is_err() {
            break;
        }
    }
    (statistics, None)
}

impl Runner {
    /// The rows that each input of a mini-batch emitted, into those of an earlier one.
    fn hand_out(&self, prepared: &Prepared, outputs: &mut Vec<Rows>) {
        let Prepared { wired, decision, .. } = prepared;
        outputs.resize_with(wired.counts.len(), Rows::new);
        let mut wanted = 0;
        for (rows, &count) in outputs.iter_mut().zip(&wired.counts) {
            rows.clear();
            self.read(decision, wanted..wanted + count, rows);
            wanted += count;
        }
    }
}

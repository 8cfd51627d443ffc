//! Failed and cancelled inputs do not affect the others.

use std::future::{pending, poll_fn};
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use edbatch::models::*;
use edbatch::{Engine, EngineOptions, InputError, RunError, RunOptions, interpret};
use edbatch_datasets::{Lattice, WordArc};
use edbatch_runtime::Precision;

use crate::fn_model::random;
use crate::small::{TREES, chain, nmt, sentence, source, tagger};

/// Runs 64 inputs, one of them invalid, on one thread, on two, and as a stream. The other 63 must
/// have the same bits as without it. Returns the error of the invalid one.
fn error_of_one_in_64<M: Model + Clone>(
    model: M,
    good: impl Fn(u32) -> M::Input,
    bad: M::Input,
) -> InputError
where
    M::Input: Clone,
{
    let parameters = random(model.network(), 11);
    let inputs: Vec<M::Input> = (0..64).map(good).collect();
    let expected = Engine::new(model.clone(), parameters.clone()).unwrap().run(&inputs).unwrap();
    let mut failed = None;
    for at in [0, 31, 63] {
        let mut inputs = inputs.clone();
        inputs[at] = bad.clone();
        for threads in [1, 2] {
            let options = EngineOptions::new().threads(threads);
            let mut engine =
                Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
            let results = engine.run_each(&inputs, &RunOptions::new()).unwrap();
            for (index, (result, expected)) in results.iter().zip(&expected).enumerate() {
                match result {
                    Ok(rows) => assert!(index != at && rows == expected, "input {index}"),
                    Err(error) => assert!(index == at, "{error}"),
                }
            }
            let error = engine.run(&inputs).unwrap_err();
            assert!(error.to_string().starts_with(&format!("input {at}: ")), "{error}");
            assert_eq!(engine.statistics().instances, 64, "failed mini-batches are not counted");
        }
        let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
        let mut ended = 0;
        engine
            .stream(7, inputs.iter(), |number, rows| {
                ended += 1;
                match rows {
                    Ok(rows) => assert!(number != at && *rows == expected[number]),
                    Err(error) => assert!(number == at, "{error}"),
                }
            })
            .unwrap();
        assert_eq!(ended, 64);
        match interpret(&model, &parameters, &inputs, Precision::F32).unwrap_err() {
            RunError::Input { instance, error } if instance == at => failed = Some(error),
            other => panic!("{other}"),
        }
    }
    failed.expect("three inputs failed")
}

fn one_bad_input_in_64<M: Model + Clone>(model: M, good: impl Fn(u32) -> M::Input, bad: M::Input)
where
    M::Input: Clone,
{
    let error = error_of_one_in_64(model, good, bad);
    assert!(matches!(error, InputError::Build(_)), "{error}");
}

#[test]
fn an_invalid_tree_does_not_affect_others() {
    let (good, bad) = (|i: u32| chain(1 + i % 7, i % 9), chain(3, 99));
    one_bad_input_in_64(TreeLstm::new(TREES).unwrap(), good, bad.clone());
    one_bad_input_in_64(TreeGru::new(TREES).unwrap(), good, bad.clone());
    let sizes = MvRnnSizes { vocabulary: 9, hidden: 4, classes: 3 };
    one_bad_input_in_64(MvRnn::new(sizes).unwrap(), good, bad.clone());
    let indexed = |index: u32| IndexedTree { index, tree: chain(1 + index % 7, index % 9) };
    let bad = IndexedTree { index: 0, tree: bad };
    one_bad_input_in_64(TreeLstm2Type::new(TREES).unwrap(), indexed, bad);
}

#[test]
fn an_invalid_sentence_does_not_affect_others() {
    let good = |i: u32| sentence((0..i % 6).map(|word| (i + word) % 9).collect::<Vec<_>>());
    one_bad_input_in_64(tagger(2), good, sentence([1, 99]));
}

#[test]
fn an_invalid_lattice_does_not_affect_others() {
    let sizes = LatticeSizes { chars: 9, words: 9, embed: 4, hidden: 4, classes: 3 };
    let good = |i: u32| Lattice {
        chars: (0..4 + i % 5).map(|c| (i + c) % 9).collect(),
        words: vec![WordArc { start: i % 2, end: 2 + i % 2, word: i % 9 }],
        ..Lattice::default()
    };
    let mut bad = good(3);
    bad.words[0].word = 99;
    one_bad_input_in_64(LatticeLstm::new(sizes).unwrap(), good, bad.clone());
    one_bad_input_in_64(LatticeGru::new(sizes).unwrap(), good, bad);
}

#[test]
fn an_invalid_source_does_not_affect_decoders_that_await() {
    let mut bad = source(4, 5);
    bad.words[2] = 99;
    one_bad_input_in_64(nmt(), |i| source(i % 5, i as usize % 9), bad);
}

/// A decoder that ends in different ways after its awaits.
#[derive(Clone)]
struct Ends(LstmNmt);

#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Failed,
    /// Awaits a future that is never ready.
    Never,
    /// Awaits a timer of another thread.
    Timer,
    /// Awaits two values at the same time.
    Joined,
}

impl Model for Ends {
    type Input = (SourceSentence, End);

    fn network(&self) -> &std::sync::Arc<edbatch_graph::Network> {
        self.0.network()
    }

    async fn build(
        &self,
        build: &Build<'_>,
        (source, end): &Self::Input,
    ) -> Result<(), BuildError> {
        self.0.build(build, source).await?;
        match end {
            End::Well => {}
            End::Failed => return Err(BuildError::Input("requested".into())),
            End::Never => pending().await,
            End::Timer => timer().await,
            End::Joined => {
                let record = edbatch_graph::RecordId(0);
                let fields = self.network().fields(record).fields.iter();
                let elements = fields.map(|field| field.shape.elements()).sum();
                let value = build.give(record, &vec![0.5; elements])?;
                let (mut first, mut second) =
                    (pin!(build.fetch(value, [])), pin!(build.fetch(value, [value])));
                let poll = |context: &mut Context<'_>| {
                    let _ = first.as_mut().poll(context);
                    second.as_mut().poll(context)
                };
                poll_fn(poll).await;
            }
        }
        Ok(())
    }
}

/// Completes when another thread has slept for a millisecond.
async fn timer() {
    let slept = Arc::new(AtomicBool::new(false));
    let mut begun = false;
    let poll = |context: &mut Context<'_>| {
        if !replace(&mut begun, true) {
            let (slept, waker) = (slept.clone(), context.waker().clone());
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(1));
                slept.store(true, Ordering::Relaxed);
                waker.wake();
            });
            return Poll::Pending;
        }
        if slept.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    };
    poll_fn(poll).await;
}

#[test]
fn a_bad_end_after_awaits_does_not_affect_others() {
    let good = |i: u32| (source(i % 5, 3 + i as usize % 9), End::Well);
    let error = |end| error_of_one_in_64(Ends(nmt()), good, (source(3, 4), end));
    assert_eq!(error(End::Failed), InputError::Build(BuildError::Input("requested".into())));
    assert_eq!(error(End::Never), InputError::ForeignAwait);
    assert_eq!(error(End::Timer), InputError::ForeignAwait);
    assert_eq!(error(End::Joined), InputError::TwoAwaits);
}

/// A model that uses or emits a value from before an await without carrying it across. In the next
/// graph another value has the same number.
#[derive(Clone)]
struct DoesNotCarry {
    network: std::sync::Arc<edbatch_graph::Network>,
    start: edbatch_graph::Value,
}

#[derive(Clone, Copy)]
enum Misuse {
    None,
    Call,
    Emit,
}

impl Model for DoesNotCarry {
    type Input = Misuse;

    fn network(&self) -> &std::sync::Arc<edbatch_graph::Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, misuse: &Misuse) -> Result<(), BuildError> {
        let step = edbatch_graph::Kind::new(0);
        let stale = build.call(step, &[], &[self.start])?;
        let (_, [carried]) = build.arg_max(stale, [stale]).await;
        let next = build.call(step, &[], &[carried])?;
        build.emit(match misuse {
            Misuse::None => next,
            Misuse::Call => build.call(step, &[], &[stale])?,
            Misuse::Emit => stale,
        });
        Ok(())
    }
}

#[test]
fn values_not_carried_across_an_await_are_errors() {
    let mut network = edbatch_graph::Network::new();
    let state = network.record("state", [("h", edbatch_graph::Shape::Vector(3))]).unwrap();
    let start = network.initial(state, &["start"]).unwrap();
    network.cell("step", state, |cell| vec![cell.one::<1>("previous", state)[0].tanh()]).unwrap();
    let model = DoesNotCarry { network: network.into(), start };
    let parameters = random(model.network(), 11);
    let mut engine = Engine::new(model, parameters).unwrap();
    let inputs = [Misuse::None, Misuse::Call, Misuse::Emit, Misuse::None];
    let results = engine.run_each(&inputs, &RunOptions::new()).unwrap();
    assert!(
        matches!(&results[1], Err(InputError::Build(error))
        if error.to_string().ends_with("must be carried across it")),
        "{results:?}"
    );
    assert_eq!(results[2], Err(InputError::NotCarried));
    assert!(results[0].is_ok() && results[0] == results[3], "{results:?}");
}

#[test]
fn a_cancelled_decoder_stops_at_its_next_round() {
    let model = nmt();
    let parameters = random(model.network(), 11);
    let inputs: Vec<_> = [400, 5, 400].map(|steps| source(3, steps)).into();
    let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
    let expected = engine.run(&inputs[1..2]).unwrap();
    // The third is never wanted, the first for four rounds.
    let calls = AtomicUsize::new(0);
    let still_wanted = |input: usize| match input {
        0 => calls.fetch_add(1, Ordering::Relaxed) < 4,
        other => other == 1,
    };
    let mut engine = Engine::new(model, parameters).unwrap();
    let options = RunOptions::new().still_wanted(&still_wanted);
    let results = engine.run_each(&inputs, &options).unwrap();
    assert_eq!(results[0], Err(InputError::Cancelled));
    assert_eq!(results[1].as_ref(), Ok(&expected[0]));
    assert_eq!(results[2], Err(InputError::Cancelled));
    assert_eq!(calls.into_inner(), 5);
    // The first is cancelled in the fifth round; the second takes six.
    assert!(engine.statistics().graphs <= 7, "{:?}", engine.statistics());
}

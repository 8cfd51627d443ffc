//! The parts of mini-batches on a device, and how often the threads that run them meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch::Engine;
use edbatch::cuda::{Driver, EmulatedDevice};
use edbatch_datasets::Tree;
use edbatch_runtime::{Backend, Parameters, Part, PartLimits};

use crate::observed::Observed;
use crate::small;
use crate::teams::{translator, trees};

/// A backend with other limits of parts, and the number of its rounds of more than one part.
pub(crate) fn with_limits(
    backend: Box<dyn Backend>,
    limits: Option<PartLimits>,
) -> (Box<dyn Backend>, Arc<AtomicUsize>) {
    let meetings = Arc::<AtomicUsize>::default();
    let count = meetings.clone();
    let before_run = move |parts: &[Part<'_>]| {
        count.fetch_add(usize::from(parts.len() > 1), Ordering::Relaxed);
    };
    let lifetimes = backend.lifetimes();
    (Box::new(Observed { backend, limits, lifetimes, before_run }), meetings)
}

/// Twelve SMs, so three groups of four.
fn device() -> EmulatedDevice {
    EmulatedDevice::with_size(3, 12, 64 << 10)
}

/// The steps of a decoder have few nodes, so a single thread runs them.
#[test]
fn threads_do_not_meet_in_the_rounds_of_a_translator() {
    let Some(subject) = translator() else { return };
    let (inputs, device) = (&subject.inputs, device());
    let of_run = |threads: usize, is_limited: bool| {
        let mut meetings = None;
        let wrap = |backend: Box<dyn Backend>| {
            let limits = backend.division().filter(|_| is_limited);
            let (backend, count) = with_limits(backend, limits);
            meetings = Some(count);
            backend
        };
        let mut engine = subject.engine_on(&device, threads, Driver::Teams, wrap)?;
        let meetings = meetings.expect("the backend was loaded");
        let counts = [0; 2].map(|_| {
            let (parts, launches) = (engine.parts(inputs).len(), device.launches());
            meetings.store(0, Ordering::Relaxed);
            assert!(engine.run(inputs).unwrap() == subject.expected);
            (parts, device.launches() - launches, meetings.load(Ordering::Relaxed))
        });
        assert_eq!(counts[0], counts[1], "{threads} threads");
        Some(counts[0])
    };
    let Some(alone) = of_run(1, true) else { return };
    // A launch for each step of the longest sentence.
    assert!(alone.0 == 1 && alone.1 > 3 && alone.2 == 0, "{alone:?}");
    assert_eq!(of_run(3, true), Some(alone));
    let (parts, launches, meetings) = of_run(3, false).expect("it has run");
    assert!(parts == 3 && launches == alone.1 && meetings > 2, "{launches} {meetings}");
}

/// Without awaits there is one round: the mini-batch.
#[test]
fn parts_are_at_most_the_groups_of_a_device_and_have_enough_nodes() {
    let Some(subject) = trees() else { return };
    let inputs = &subject.inputs;
    // Each node of a tree has a node of its scores. The small trees are enough inputs for two
    // parts, but have too few nodes.
    let nodes = |inputs: &[Tree<u32>]| inputs.iter().map(|tree| 2 * tree.len()).sum::<usize>();
    let mut small = inputs.clone();
    small.sort_by_key(Tree::len);
    small.truncate(8);
    assert!(nodes(&small) < 512 && nodes(inputs) >= 512);
    for (sms, threads, expected) in [(12, 8, 3), (12, 2, 2), (8, 8, 2), (4, 8, 1), (40, 8, 4)] {
        let device = EmulatedDevice::with_size(3, sms, 64 << 10);
        let Some(mut engine) = subject.engine_on(&device, threads, Driver::Teams, |own| own) else {
            return;
        };
        let what = format!("{sms} SMs, {threads} threads");
        for _ in 0..2 {
            assert_eq!(engine.parts(inputs).len(), expected, "{what}");
            let before = device.launches();
            assert!(engine.run(inputs).unwrap() == subject.expected, "{what}");
            assert_eq!(device.launches() - before, 1, "{what}");
            assert_eq!(engine.parts(&small).len(), 1, "{what}");
            assert_eq!(engine.parts(&inputs[..7]).len(), 1, "{what}");
        }
        assert_eq!(engine.statistics().graphs, 2 * expected as u64, "{what}");
    }
}

/// Before the first mini-batch, one node is expected after an await. Later, the last mini-batch
/// decides.
#[test]
fn the_rounds_of_a_mini_batch_decide_about_the_next_one() {
    let Some(subject) = translator() else { return };
    let inputs = &subject.inputs;
    // A step is two nodes: a cell and its scores.
    for (nodes, first, second) in [(16, 3, 3), (17, 1, 3), (32, 1, 3), (33, 1, 1)] {
        let limits = Some(PartLimits { parts: 3, inputs: 4, nodes });
        let device = device();
        let wrap = |backend| with_limits(backend, limits).0;
        let Some(mut engine) = subject.engine_on(&device, 4, Driver::Teams, wrap) else { return };
        for expected in [first, second, second] {
            assert_eq!(engine.parts(inputs).len(), expected, "{nodes} nodes");
            assert!(engine.run(inputs).unwrap() == subject.expected, "{nodes} nodes");
        }
    }
}

/// A backend without limits, such as a CPU, divides by threads and inputs alone.
#[test]
fn a_cpu_divides_as_before() {
    let sizes = [1, 3, 4, 8, 15, 16, 64, 65, 130, 300];
    let expected = [
        (1, [1, 1, 1, 1, 1, 1, 1, 2, 3, 5]),
        (2, [1, 1, 1, 2, 2, 2, 2, 2, 4, 6]),
        (3, [1, 1, 1, 1, 3, 3, 3, 3, 3, 6]),
        (8, [1, 1, 1, 1, 1, 1, 8, 8, 8, 8]),
    ];
    let (tagger, (translator, parameters)) = (small::tagger(1), small::translator());
    let weights: Parameters = crate::fn_model::random(edbatch::models::Model::network(&tagger), 3);
    for (threads, expected) in expected {
        let options = || edbatch::EngineOptions::new().threads(threads);
        let tagger = Engine::with_options(tagger.clone(), weights.clone(), options()).unwrap();
        let translator = Engine::with_options(translator.clone(), parameters.clone(), options());
        let translator = translator.unwrap();
        let parts = sizes.map(|size| {
            let sentences = vec![small::sentence([1, 2]); size];
            let parts = translator.parts(&vec![small::source(2, 3); size]).len();
            assert_eq!(tagger.parts(&sentences).len(), parts);
            parts
        });
        assert_eq!(parts, expected, "{threads} threads");
    }
}

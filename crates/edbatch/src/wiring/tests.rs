//! Wiring by a text notation, without a model or a backend.
//!
//! An input is a list of steps: `leaf` calls a cell without arguments, `step` calls a cell on the
//! last value, `give` gives a value, `emit` emits the last value, `fetch` and `max` await it and
//! carry it across, `drop` awaits it and carries nothing, `fail` fails. `each` fetches all values
//! and fails with the answers. `never` and `once` await futures that are ready never and at the
//! second poll, `two` awaits two requests at the same time, and `late` makes a request while the
//! answer to another one waits. An answer is the position of the value among the wanted ones.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::future::{pending, poll_fn};
use std::mem::replace;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use edbatch_graph::{Dag, Graph, Kind, Network, Shape, Source, Value};
use edbatch_layout::Want;
use edbatch_models::{Build, BuildError, Mailbox};
use edbatch_runtime::kernels::ArgMax;
use edbatch_runtime::{BackendError, Rows};

use super::{Admission, Instances, Round, Turn};
use crate::InputError;
use crate::output::Results;

async fn wire(steps: &str, build: Build<'_>) -> Result<(), BuildError> {
    let mut values = Vec::<Value>::new();
    for step in steps.split_whitespace() {
        let mut last = values.last().copied();
        match (step, last) {
            ("leaf", _) => last = Some(build.call(Kind::new(0), &[0], &[])?),
            ("give", _) => last = Some(build.give(edbatch_graph::RecordId(0), &[0.5])?),
            ("step", Some(value)) => last = Some(build.call(Kind::new(1), &[], &[value])?),
            ("emit", Some(value)) => build.emit(value),
            ("fetch", Some(value)) => last = Some(build.fetch(value, [value]).await.1[0]),
            ("max", Some(value)) => last = Some(build.arg_max(value, [value]).await.1[0]),
            ("drop", Some(value)) => _ = build.fetch(value, []).await,
            ("each", Some(value)) => {
                let (answers, [carried]) = build.fetch_each(&values, [value]).await;
                return Err(BuildError::Input(format!(
                    "{answers:?}, carried {:?}",
                    carried.source()
                )));
            }
            ("never", _) => pending().await,
            ("once", _) => once().await,
            ("two", Some(value)) => both(build.fetch(value, []), build.arg_max(value, [])).await,
            ("late", Some(value)) => {
                let late = async { (once().await, build.arg_max(value, []).await) };
                both(late, build.fetch(value, [])).await;
            }
            _ => return Err(BuildError::Input(step.into())),
        }
        if last != values.last().copied() {
            values.extend(last);
        }
    }
    Ok(())
}

/// Completes at the second poll.
async fn once() {
    let mut polled = false;
    let poll = |_: &mut Context<'_>| match replace(&mut polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    };
    poll_fn(poll).await;
}

/// Polls two futures in turn until both have ended.
async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut ended = [false; 2];
    let poll = |context: &mut Context<'_>| {
        ended[0] |= !ended[0] && first.as_mut().poll(context).is_ready();
        ended[1] |= !ended[1] && second.as_mut().poll(context).is_ready();
        if ended == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    };
    poll_fn(poll).await;
}

/// Results in which each value is its position among the wanted values.
struct Positions;

impl Results for Positions {
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError> {
        elements.push(wanted as f32);
        Ok(())
    }

    fn arg_max(&self, wanted: usize) -> ArgMax {
        ArgMax { index: wanted as u32, is_finite: true }
    }
}

fn graph() -> Graph {
    let mut network = Network::new();
    let record = network.record("record", [("x", Shape::Vector(1))]).unwrap();
    network.cell("leaf", record, |cell| vec![cell.lookup("row", "table", &[1, 1])]).unwrap();
    network
        .cell("step", record, |cell| {
            let [x] = cell.one("x", record);
            vec![x.tanh()]
        })
        .unwrap();
    Graph::new(Arc::new(network))
}

fn describe(graph: &Graph, round: &Round) -> String {
    let name = |&(value, want): &(Value, Want)| {
        let want = match want {
            Want::Elements => "",
            Want::ArgMax => "max ",
            Want::Store(_) => "stay ",
        };
        match value.source() {
            Source::Node(node) => format!("{want}{node}"),
            Source::Given(index) => format!("{want}given {index}"),
        }
    };
    let wanted: Vec<String> = round.wanted.iter().map(name).collect();
    let turn = |turn: &Turn| format!("{}@{} {:?}", turn.input, turn.instance, turn.nodes);
    let turns: Vec<String> = round.turns.iter().map(turn).collect();
    let given = if round.given.is_empty() { String::new() } else { format!("; {:?}", round.given) };
    format!("{} nodes | {} | {}{given}\n", graph.nodes(), turns.join(", "), wanted.join(", "))
}

/// Wires `inputs`, one per line, at most `width` at a time. `expected` has a line for each round
/// (nodes, turns as input@instance, wanted values), and then the outputs of each input.
fn check(width: usize, inputs: &str, expected: &str) {
    let cancelled = |input: usize| input != 9;
    check_with(width, &cancelled, inputs, expected);
}

fn check_with(width: usize, still_wanted: &dyn Fn(usize) -> bool, inputs: &str, expected: &str) {
    let graph = RefCell::new(graph());
    let (mut instances, mut round) = (Instances::new(false), Round::default());
    let mut lines = inputs.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut start = |mailbox: Rc<RefCell<Mailbox>>| {
        let (steps, graph) = (lines.next()?, &graph);
        Some(async move { wire(steps, Build::new(graph, &mailbox)).await })
    };
    let (mut text, mut outputs) = (String::new(), String::new());
    let mut done = |input: usize, rows: Result<&mut Rows, InputError>| {
        match rows {
            Ok(rows) => {
                writeln!(outputs, "{input}: {:?}", rows.iter().flatten().collect::<Vec<_>>())
            }
            Err(error) => writeln!(outputs, "{input}: {error}"),
        }
        .unwrap()
    };
    let admission = Admission::new(width, still_wanted);
    for _ in 0..20 {
        if !instances.wire(&graph, admission, &mut start, &mut round) {
            let got: Vec<&str> = text.lines().chain(outputs.lines()).map(str::trim).collect();
            let expected: Vec<&str> =
                expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            assert_eq!(got, expected);
            return;
        }
        text += &describe(&graph.borrow(), &round);
        instances.resume(&graph, &round, &Positions, &mut done).unwrap();
    }
    panic!("the inputs never end:\n{text}");
}

#[test]
fn inputs_without_awaits_share_an_instance() {
    check(
        3,
        "leaf emit
         leaf step emit emit
         give emit",
        "3 nodes | 0@0 0..1, 1@0 1..3, 2@0 3..3 | n0, n2, n2, given 0; [0.5]
         0: [0.0]
         1: [1.0, 2.0]
         2: [3.0]",
    );
}

#[test]
fn ended_inputs_make_room_in_the_next_round() {
    check(
        2,
        "leaf max emit
         leaf emit
         leaf emit
         leaf max step max emit",
        "2 nodes | 0@0 0..1, 1@1 1..2 | max n0, stay n0, n1
         1 nodes | 0@0 0..0, 2@0 0..1 | given 0, n0
         1 nodes | 3@0 0..1 | max n0, stay n0
         1 nodes | 3@0 0..1 | max n0, stay n0
         0 nodes | 3@0 0..0 | given 0
         1: [2.0]
         0: [0.0]
         2: [1.0]
         3: [0.0]",
    );
}

#[test]
fn carried_values_are_given_values_of_the_next_graph() {
    check(
        2,
        "leaf fetch give step emit
         give max step emit fetch emit",
        "1 nodes | 0@0 0..1, 1@1 1..1 | n0, stay n0, max given 0, stay given 0; [0.5]
         2 nodes | 0@0 0..1, 1@1 1..2 | n0, n1, stay n1; [0.5]
         0 nodes | 1@1 0..0 | given 0
         0: [0.0]
         1: [1.0, 0.0]",
    );
}

#[test]
fn value_that_is_emitted_and_awaited_is_wanted_once() {
    check(
        1,
        "leaf emit fetch emit",
        "1 nodes | 0@0 0..1 | n0, stay n0
         0 nodes | 0@0 0..0 | given 0
         0: [0.0, 0.0]",
    );
}

#[test]
fn failed_input_leaves_its_instance_to_the_next() {
    check(
        1,
        "leaf emit fail
         leaf fetch fail
         leaf drop emit
         leaf emit",
        "1 nodes | 0@0 0..1 | 
         1 nodes | 1@0 0..1 | n0, stay n0
         0 nodes | 1@0 0..0 | 
         1 nodes | 2@0 0..1 | n0
         0 nodes | 2@0 0..0 | 
         1 nodes | 3@0 0..1 | n0
         0: fail
         1: fail
         2: a value from before an await is used after it: carry it across
         3: [0.0]",
    );
}

#[test]
fn cancelled_inputs_end_before_their_next_turn() {
    let asked = std::cell::Cell::new(0);
    let still_wanted = |input: usize| {
        asked.set(asked.get() + usize::from(input == 0));
        input != 1 && asked.get() < 3
    };
    check_with(
        2,
        &still_wanted,
        "leaf max step max step max emit
         leaf emit",
        "1 nodes | 0@0 0..1, 1@1 1..1 | max n0, stay n0
         1 nodes | 0@0 0..1 | max n0, stay n0
         0 nodes | 0@0 0..0 | 
         1: cancelled: the input was no longer wanted
         0: cancelled: the input was no longer wanted",
    );
}

#[test]
fn values_are_fetched_together() {
    check(
        2,
        "leaf step emit each
         leaf max emit",
        "3 nodes | 0@0 0..2, 1@1 2..3 | n1, n0, n1, stay n1, max n2, stay n2
         0 nodes | 0@0 0..0, 1@1 0..0 | given 1
         0: [[1.0], [2.0]], carried Given(0)
         1: [0.0]",
    );
}

#[test]
fn only_one_request_of_its_own_build_can_be_awaited() {
    let foreign = "the model awaits a future that the engine does not complete: in `build`, await \
                   only `fetch`, `fetch_each` and `arg_max` of its `Build`";
    let two = "the model awaits two requests of its `Build` at the same time: await one after the \
               other, or read several values by `fetch_each`";
    let round = "2 nodes | 0@0 0..1, 1@0 1..2 | max n1, stay n1\n";
    let end = "0 nodes | 1@0 0..0 | given 0\n";
    for (steps, error) in [("never", foreign), ("once emit", foreign), ("two", two)] {
        let inputs = format!("leaf emit {steps}\nleaf max emit");
        check(2, &inputs, &format!("{round}{end}0: {error}\n1: [0.0]"));
    }
    // The second request is made before the answer to the first one is taken.
    let round = "2 nodes | 0@0 0..1, 1@1 1..2 | n0, max n1, stay n1\n";
    let end = "0 nodes | 0@0 0..0, 1@1 0..0 | given 0\n";
    check(2, "leaf late\nleaf max emit", &format!("{round}{end}0: {two}\n1: [0.0]"));
}

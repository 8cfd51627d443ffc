//! Graphs with the shapes of typical models, for the benchmark and for the allocation test.

use std::sync::Arc;

use edbatch_graph::{Graph, Kind, Network, RecordId, Schedule, Shape, Tensor, Value};
use edbatch_layout::{CellStyle, Program, Want};
use edbatch_policy::Scheduler;

/// A compiled network, the graphs of some mini-batches, and their schedules.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) graphs: Vec<MiniBatchGraph>,
}

/// The graph of a mini-batch, its schedule, and its wanted values.
type MiniBatchGraph = (Graph, Schedule, Vec<(Value, Want)>);

const HIDDEN: u32 = 32;
const ROWS: u32 = 1000;

/// All workloads, in mini-batches of `instances` instances.
pub(crate) fn workloads(instances: usize) -> [Workload; 4] {
    [trees(instances), chains(instances), lattices(instances), decoders(instances)]
}

fn workload(
    name: &'static str,
    network: Network,
    instances: usize,
    mut instance: impl FnMut(&mut Graph, u32, &mut Vec<Value>),
) -> Workload {
    let network = Arc::new(network);
    let mini_batch = |first: usize| {
        let (mut graph, mut wanted) = (Graph::new(network.clone()), Vec::new());
        for index in first..first + instances {
            instance(&mut graph, index as u32, &mut wanted);
        }
        let mut schedule = Schedule::new();
        Scheduler::default().schedule(&graph, &mut schedule);
        (graph, schedule, wanted.into_iter().map(|value| (value, Want::Elements)).collect())
    };
    let graphs = (0..8).map(|index| index * instances).map(mini_batch).collect();
    let program = Program::new(network, CellStyle::Hoisted).expect("small cells");
    Workload { name, program, graphs }
}

/// Binary trees with 20 leaves; every leaf names a word.
fn trees(instances: usize) -> Workload {
    let mut network = Network::new();
    let state = state(&mut network);
    let leaf = network.cell("leaf", state, |cell| {
        let x = cell.lookup("word", "words", &[ROWS as usize, HIDDEN as usize]);
        let h = cell.parameter("w", &SQUARE).matmul(x).tanh();
        vec![h, h]
    });
    let inner = network.cell("inner", state, |cell| {
        let ([l, c], [r, d]) = (cell.one("left", state), cell.one("right", state));
        let gate = |name: &str| {
            let [u_l, u_r] = ["l", "r"].map(|of| cell.parameter(&format!("{name}_{of}"), &SQUARE));
            u_l.matmul(l) + u_r.matmul(r)
        };
        let c = gate("i").sigmoid() * c + gate("f").sigmoid() * d;
        vec![gate("o").sigmoid() * c.tanh(), c]
    });
    let [leaf, inner] = [leaf, inner].map(|cell| cell.expect("shapes fit"));
    workload("trees", network, instances, |graph, seed, wanted| {
        let mut random = Random(seed);
        let mut nodes: Vec<Value> =
            (0..20).map(|_| call(graph, leaf, &[random.below(ROWS)], &[])).collect();
        while nodes.len() > 1 {
            let at = random.below(nodes.len() as u32 - 1) as usize;
            nodes[at] = call(graph, inner, &[], &[nodes[at], nodes[at + 1]]);
            nodes.remove(at + 1);
        }
        wanted.extend(nodes);
    })
}

/// Two layers over 20 words; the second layer reads the first.
fn chains(instances: usize) -> Workload {
    let mut network = Network::new();
    let state = state(&mut network);
    let start = network.initial(state, &["h0", "c0"]).expect("a record");
    let first = network.cell("first", state, |cell| {
        let x = cell.lookup("word", "words", &[ROWS as usize, HIDDEN as usize]);
        let [h, c] = cell.one("state", state);
        recurrent(x, h, c, |name| cell.parameter(name, &SQUARE))
    });
    let second = network.cell("second", state, |cell| {
        let ([x, _], [h, c]) = (cell.one("below", state), cell.one("state", state));
        recurrent(x, h, c, |name| cell.parameter(&format!("{name}2"), &SQUARE))
    });
    let [first, second] = [first, second].map(|cell| cell.expect("shapes fit"));
    workload("chains", network, instances, |graph, seed, wanted| {
        let (mut random, mut below, mut state) = (Random(seed), Vec::new(), start);
        for _ in 0..20 {
            state = call(graph, first, &[random.below(ROWS)], &[state]);
            below.push(state);
        }
        state = start;
        for below in below {
            state = call(graph, second, &[], &[below, state]);
            wanted.push(state);
        }
    })
}

/// Chains of 20 characters; words of 3 characters end at some of them.
fn lattices(instances: usize) -> Workload {
    let mut network = Network::new();
    let state = state(&mut network);
    let start = network.initial(state, &["h0", "c0"]).expect("a record");
    let arc = |name: &str, network: &mut Network| {
        let arc = network.cell(name, state, |cell| {
            let table = format!("{name}s");
            let x = cell.lookup("token", &table, &[ROWS as usize, HIDDEN as usize]);
            let [h, c] = cell.one("state", state);
            recurrent(x, h, c, |gate| cell.parameter(&format!("{name}_{gate}"), &SQUARE))
        });
        arc.expect("shapes fit")
    };
    let [character, word] = ["character", "word"].map(|name| arc(name, &mut network));
    let merge = network.cell("merge", state, |cell| {
        let [h, c] = cell.many("arcs", state).mean();
        vec![h.tanh(), c]
    });
    let merge = merge.expect("shapes fit");
    workload("lattices", network, instances, |graph, seed, wanted| {
        let (mut random, mut states) = (Random(seed), vec![start]);
        for at in 0..20 {
            let mut arcs = vec![call(graph, character, &[random.below(ROWS)], &[states[at]])];
            if at > 2 && random.below(2) == 0 {
                arcs.push(call(graph, word, &[random.below(ROWS)], &[states[at - 2]]));
            }
            states.push(call(graph, merge, &[], &arcs));
        }
        wanted.extend(states.last());
    })
}

/// One step of a decoder: two calls.
fn decoders(instances: usize) -> Workload {
    let mut network = Network::new();
    let state = state(&mut network);
    let start = network.initial(state, &["h0", "c0"]).expect("a record");
    let logits = network.record("logits", [("y", Shape::Vector(HIDDEN))]).expect("a record");
    let step = network.cell("step", state, |cell| {
        let x = cell.lookup("word", "words", &[ROWS as usize, HIDDEN as usize]);
        let [h, c] = cell.one("state", state);
        recurrent(x, h, c, |name| cell.parameter(name, &SQUARE))
    });
    let output = network.cell("output", logits, |cell| {
        let [h, _] = cell.one("state", state);
        vec![cell.parameter("out", &SQUARE).matmul(h)]
    });
    let [step, output] = [step, output].map(|cell| cell.expect("shapes fit"));
    workload("decoders", network, instances, |graph, seed, wanted| {
        let state = call(graph, step, &[Random(seed).below(ROWS)], &[start]);
        wanted.extend([state, call(graph, output, &[], &[state])]);
    })
}

const SQUARE: [usize; 2] = [HIDDEN as usize; 2];

fn state(network: &mut Network) -> RecordId {
    let fields = [("h", Shape::Vector(HIDDEN)), ("c", Shape::Vector(HIDDEN))];
    network.record("state", fields).expect("two fields")
}

/// A gated recurrent step.
fn recurrent<'c>(
    x: Tensor<'c>,
    h: Tensor<'c>,
    c: Tensor<'c>,
    parameter: impl Fn(&str) -> Tensor<'c>,
) -> Vec<Tensor<'c>> {
    let gate =
        |g: &str| parameter(&format!("w_{g}")).matmul(x) + parameter(&format!("u_{g}")).matmul(h);
    let c = gate("f").sigmoid() * c + gate("i").sigmoid() * gate("g").tanh();
    vec![gate("o").sigmoid() * c.tanh(), c]
}

fn call(graph: &mut Graph, cell: Kind, rows: &[u32], values: &[Value]) -> Value {
    graph.call(cell, rows, values).expect("a call that fits its cell")
}

/// A seeded random number generator.
struct Random(u32);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        (self.0 >> 8) % end
    }
}

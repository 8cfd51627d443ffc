//! Networks and inputs as data: round trips, and the same bits as in a model written in Rust.

use std::sync::Arc;

use edbatch::models::{
    Build, BuildError, CallList, CallLists, Model, ZooInput, network_from_json, network_to_json,
};
use edbatch::{Engine, EngineOptions, RunOptions, interpret, load};
use edbatch_graph::{Dag, Graph, Network, NodeId, RecordId, Shape, Source, Value};
use edbatch_policy::PolicyChoice;
use edbatch_runtime::{Parameters, Precision};
use edbatch_testing::networks::{Random, random_graph, random_network};
use rand::{RngExt, SeedableRng};

use crate::examples;
use crate::small::goldens;

fn round_trip(network: &Network) -> Network {
    let text = network_to_json(network).unwrap();
    let again = network_from_json(&text).unwrap();
    assert_eq!(&again, network);
    assert_eq!(network_to_json(&again).unwrap(), text);
    again
}

#[test]
fn texts_of_random_networks_give_equal_networks() {
    for seed in 0..1000 {
        let (network, _) = random_network(&mut Random::seed_from_u64(seed));
        round_trip(&network);
    }
}

#[test]
fn texts_of_all_examples_give_equal_networks() {
    use examples::*;

    let (words, hidden) = (11, 8);
    for network in [
        own_model::Summary::new().unwrap().network(),
        train::Sum::new().unwrap().network(),
        attention_decoder::Decoder::new(words, hidden).unwrap().network(),
        child_sum::ChildSum::new(words).unwrap().network(),
        crf::Crf::new(words, 4).unwrap().network(),
        dag::Circuits::new(9).unwrap().network(),
        dagnn::Dagnn::new(words, hidden).unwrap().network(),
        early_exit::EarlyExit::new(words).unwrap().network(),
        tree_transformer::TreeTransformer::new(words, hidden).unwrap().network(),
        word_vectors::Joined::new().unwrap().network(),
    ] {
        round_trip(network);
    }
}

/// Returns the calls of a graph as a list that emits some of its values, and gives others.
fn list_of(graph: &Graph, rng: &mut Random) -> CallList {
    let network = graph.network();
    let mut list = CallList::new(network.clone());
    // Given values replace some values of the first record.
    let width: usize =
        network.fields(RecordId(0)).fields.iter().map(|field| field.shape.elements()).sum();
    let given: Vec<Value> = (0..rng.random_range(0..3))
        .map(|_| {
            let row: Vec<f32> = (0..width).map(|_| rng.random_range(-1.0..1.0)).collect();
            list.give(RecordId(0), &row).unwrap()
        })
        .collect();
    let mut values: Vec<Value> = Vec::new();
    for node in (0..graph.nodes()).map(NodeId::new) {
        let arguments = graph.values(node).map(|value| match value.source() {
            Source::Node(node) => values[node.index()],
            Source::Given(index) => network.initial_value(index).expect("graphs give no values"),
        });
        let mut arguments: Vec<Value> = arguments.collect();
        for argument in &mut arguments {
            if list.graph().record_of(*argument) == Some(RecordId(0)) && rng.random_bool(0.2) {
                *argument = given.first().copied().unwrap_or(*argument);
            }
        }
        let made = list.call(graph.kind(node), graph.rows(node), &arguments).unwrap();
        values.push(made);
        if rng.random_bool(0.5) {
            list.emit(made).unwrap();
        }
    }
    if let Some(&value) = given.last() {
        list.emit(value).unwrap();
    }
    list
}

/// A model that makes the calls of a list one by one.
#[derive(Clone)]
struct Wired(Arc<Network>);

impl Model for Wired {
    type Input = CallList;

    fn network(&self) -> &Arc<Network> {
        &self.0
    }

    async fn build(&self, build: &Build<'_>, list: &CallList) -> Result<(), BuildError> {
        let (graph, line) = (list.graph(), list.to_json().expect("finite elements"));
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let mut given = Vec::new();
        for row in line["give"].as_array().into_iter().flatten() {
            let elements: Vec<f32> =
                row[1].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
            given.push(build.give(RecordId(0), &elements)?);
        }
        let initial = self.0.initial_values().len();
        let mut values = Vec::new();
        let moved = |values: &[Value], value: Value| match value.source() {
            Source::Node(node) => values[node.index()],
            Source::Given(index) if index < initial => value,
            Source::Given(index) => given[index - initial],
        };
        for node in (0..graph.nodes()).map(NodeId::new) {
            let arguments: Vec<Value> =
                graph.values(node).map(|value| moved(&values, value)).collect();
            values.push(build.call(graph.kind(node), graph.rows(node), &arguments)?);
        }
        list.emitted().iter().for_each(|&value| build.emit(moved(&values, value)));
        Ok(())
    }
}

/// Returns the bits of all outputs of a model, with one policy and number of threads.
fn bits<M: Model<Input = CallList> + Clone>(
    model: &M,
    parameters: &Parameters,
    lists: &[CallList],
    policy: &str,
    threads: usize,
) -> Vec<Vec<u32>> {
    let policy = policy.parse::<PolicyChoice>().unwrap();
    let policy = policy.open(&model.network().kind_names()).unwrap();
    let options = EngineOptions::new().policy(policy).threads(threads);
    let mut engine = Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
    let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    let rows = engine.run_each(lists, &RunOptions::new()).unwrap();
    rows.iter().map(|rows| rows.as_ref().unwrap().iter().flatten().map(bits).collect()).collect()
}

#[test]
fn wired_read_and_appended_inputs_have_the_same_bits() {
    for seed in 0..12 {
        let mut rng = Random::seed_from_u64(seed);
        let (network, initial) = random_network(&mut rng);
        let network = Arc::new(round_trip(&network));
        let parameters = Parameters::random(&network, &mut rng);
        let kept: Vec<CallList> = (0..13)
            .map(|_| list_of(&random_graph(&network, initial, &mut rng), &mut rng))
            .chain([CallList::new(network.clone())])
            .collect();
        let model = CallLists::new(network.clone());
        let read: Vec<CallList> =
            kept.iter().map(|list| model.read(&list.to_json().unwrap()).unwrap()).collect();
        assert_eq!(read, kept);
        let mut first = None;
        for policy in ["depth", "agenda", "sufficient", "critical", "by-depth"] {
            for threads in [1, 2, 3] {
                for got in [
                    bits(&Wired(network.clone()), &parameters, &kept, policy, threads),
                    bits(&model, &parameters, &read, policy, threads),
                    bits(&model, &parameters, &kept, policy, threads),
                ] {
                    let expected = first.get_or_insert_with(|| got.clone());
                    assert_eq!(&got, expected, "seed {seed}, {policy}, {threads} threads");
                }
            }
        }
        let interpreted = interpret(&model, &parameters, &kept, Precision::F32).unwrap().outputs;
        for (expected, got) in interpreted.iter().zip(first.unwrap()) {
            let expected: Vec<f32> = expected.iter().flatten().copied().collect();
            assert_eq!(expected.len(), got.len());
            for (e, g) in expected.iter().zip(got.into_iter().map(f32::from_bits)) {
                assert!((e - g).abs() <= 1e-3 * e.abs().max(1.0), "expected {e}, got {g}");
            }
        }
    }
}

/// A chain of lists, with an await of one kind between two of them, and any number of carried
/// values.
#[derive(Clone)]
struct Chain {
    list: CallList,
    last: Value,
    initial: Value,
    awaits: bool,
}

impl Model for Chain {
    type Input = usize;

    fn network(&self) -> &Arc<Network> {
        self.list.network()
    }

    async fn build(&self, build: &Build<'_>, steps: &usize) -> Result<(), BuildError> {
        let mut carried = vec![self.initial; 2];
        for step in 0..*steps {
            let last = self.list.append_to(build, &carried)?.value(self.last);
            carried = vec![carried[1], last];
            if self.awaits {
                carried = match step % 3 {
                    0 => build.fetch_vec(last, &carried).await.1,
                    1 => {
                        let (each, carried) = build.fetch_each_vec(&[last, last], &carried).await;
                        assert_eq!(each[0], each[1]);
                        carried
                    }
                    _ => build.arg_max_vec(last, &carried).await.1,
                };
                assert_eq!(carried.len(), 2);
            }
        }
        build.emit(carried[1]);
        Ok(())
    }
}

#[test]
fn lists_continue_from_carried_values() {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(5))]).unwrap();
    let initial = network.initial(state, &["h0"]).unwrap();
    let cell = network.cell("step", state, |cell| {
        let [a] = cell.one("a", state);
        let [b] = cell.one("b", state);
        let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[5, 5]));
        vec![(w.matmul(a) + u.matmul(b)).tanh()]
    });
    let cell = cell.unwrap();
    let network = Arc::new(network);
    let mut list = CallList::new(network.clone());
    let [a, b] = [list.carried(state).unwrap(), list.carried(state).unwrap()];
    let given = list.give(state, &[0.5; 5]).unwrap();
    let middle = list.call(cell, &[], &[a, given]).unwrap();
    let last = list.call(cell, &[], &[b, middle]).unwrap();
    list.emit(middle).unwrap();

    let parameters = Parameters::random(&network, &mut Random::seed_from_u64(1));
    let run = |awaits| {
        let model = Chain { list: list.clone(), last, initial, awaits };
        let mut engine = Engine::new(model, parameters.clone()).unwrap();
        engine.run(&[0, 1, 7, 2, 5]).unwrap()
    };
    assert_eq!(run(true), run(false));

    // A list with carried values is no input of its own.
    let mut engine = Engine::new(CallLists::new(network.clone()), parameters).unwrap();
    let error = engine.run(&[list.clone()]).unwrap_err().to_string();
    assert!(error.contains("an appended call list: expected 2 values, got 0"), "{error}");
    // An input of another network is an error.
    let other = CallList::new(Arc::new(Network::new()));
    let error = engine.run(&[other]).unwrap_err().to_string();
    assert!(error.contains("expected calls of the same network"), "{error}");
}

#[test]
fn texts_of_all_models_give_equal_networks() {
    let mut models = 0;
    for folder in std::fs::read_dir(goldens()).unwrap() {
        let loaded = load(folder.unwrap().path()).unwrap();
        let network = round_trip(loaded.model.network());
        models += 1;
        if loaded.model.awaits() {
            let inputs = loaded.folder.inputs(&loaded.folder.input()).unwrap();
            let errors = inputs.filter_map(|input| {
                CallList::record(&loaded.model, &input.unwrap()).err().map(|e| e.to_string())
            });
            let errors: Vec<String> = errors.collect();
            assert!(
                errors.iter().all(|e| e.contains("awaits computed values")) && !errors.is_empty()
            );
            continue;
        }
        let network = Arc::new(network);
        let inputs = loaded.folder.inputs(&loaded.folder.input()).unwrap();
        let inputs: Vec<ZooInput> = inputs.map(Result::unwrap).collect();
        let lists = CallLists::new(network);
        let read: Vec<CallList> = inputs
            .iter()
            .map(|input| CallList::record(&loaded.model, input).unwrap().to_json().unwrap())
            .map(|line| lists.read(&line).unwrap())
            .collect();
        let parameters = loaded.parameters;
        let expected = Engine::new(loaded.model, parameters.clone()).unwrap().run(&inputs).unwrap();
        // Parameters of an equal network fit.
        let got = Engine::new(lists, parameters).unwrap().run(&read).unwrap();
        assert_eq!(got, expected);
    }
    assert_eq!(models, 9);
}

//! `EngineOptions::check_finite`: the first call of an input that makes something not finite is
//! found, wherever it comes from, and changes nothing for other inputs. Compared with a naive
//! search of the interpreter's values.

use std::sync::Arc;

use edbatch::{
    Engine, EngineOptions, InputError, NotFiniteCall, NotFiniteCause, Rows, RunError, RunOptions,
    interpret_finite,
};
use edbatch_datasets::{Sentence, fixtures};
use edbatch_graph::{Dag, Kind, Network, NodeId, ParameterId, Shape};
use edbatch_models::*;
use edbatch_policy::{Agenda, Depth};
use edbatch_runtime::{NotFinite, Parameters, initial_values};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use safetensors::tensor::{Dtype, TensorView};

/// The same weights but for one element.
fn planted(
    network: &Network,
    weights: &Parameters,
    (id, element, value): (ParameterId, usize, f32),
) -> Parameters {
    let bytes = (0_u32..).zip(network.parameters()).map(|(index, _)| {
        let mut values = weights.get(ParameterId(index)).to_vec();
        if index == id.0 {
            values[element] = value;
        }
        values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()
    });
    let bytes: Vec<_> = bytes.collect();
    let views = network.parameters().iter().zip(&bytes).map(|(parameter, bytes)| {
        let view = TensorView::new(Dtype::F32, parameter.dims.clone(), bytes).unwrap();
        (parameter.name.as_str(), view)
    });
    let file = safetensors::serialize(views, None).unwrap();
    Parameters::from_safetensors(network, &file).unwrap()
}

fn weights(network: &Network) -> Parameters {
    Parameters::random(network, &mut Xoshiro256PlusPlus::seed_from_u64(5))
}

/// By hand: all calls of an input, node by node, and the first element that is not finite.
fn naive<M: Model<Input: Clone> + Clone>(
    model: &M,
    weights: &Parameters,
    input: &M::Input,
) -> Option<(usize, String, String, Vec<usize>, NotFinite)> {
    let mut engine = Engine::new(model.clone(), self::weights(model.network())).unwrap();
    let graphs = engine.graphs(std::slice::from_ref(input)).unwrap();
    let [graph] = &graphs[..] else { return None };
    let initial = initial_values(model.network(), weights);
    let nodes = edbatch_runtime::interpret(graph, weights, &initial);
    for (node, fields) in nodes.iter().enumerate() {
        let cell = &model.network()[graph.kind(NodeId::new(node))];
        let record = model.network().fields(cell.record());
        for (field, tensor) in record.fields.iter().zip(fields) {
            for ((row, column), &element) in tensor.indexed_iter() {
                let index = match field.shape {
                    Shape::Vector(_) => vec![row],
                    Shape::Matrix(..) => vec![row, column],
                };
                let value = match element {
                    _ if element.is_finite() => continue,
                    f32::INFINITY => NotFinite::Infinity,
                    f32::NEG_INFINITY => NotFinite::MinusInfinity,
                    _ => NotFinite::NaN,
                };
                return Some((node, cell.name().into(), field.name.clone(), index, value));
            }
        }
    }
    None
}

fn found(error: &InputError) -> &NotFiniteCall {
    let InputError::NotFinite(call) = error else { panic!("not another error: {error}") };
    call
}

fn bits(rows: &Rows) -> Vec<u32> {
    rows.iter().flatten().map(|x| x.to_bits()).collect()
}

/// Plants NaN and infinities in each tensor, and looks what becomes of every input.
fn check_every_weight<M: Model<Input: Clone> + Clone>(model: &M, inputs: &[M::Input]) {
    let network = model.network();
    let good = weights(network);
    let (mut failed, mut passed) = (0, 0);
    for (id, parameter) in (0..).map(ParameterId).zip(network.parameters()) {
        for (place, value) in [(0, f32::NAN), (1, f32::INFINITY), (2, f32::NEG_INFINITY)] {
            let element = place * (parameter.elements() - 1) / 2;
            let weights = planted(network, &good, (id, element, value));
            let plain = Engine::new(model.clone(), weights.clone()).unwrap().run(inputs).unwrap();
            let options = EngineOptions::new().check_finite();
            let mut engine = Engine::with_options(model.clone(), weights.clone(), options).unwrap();
            let results = engine.run_each(inputs, &RunOptions::new()).unwrap();
            for ((input, result), plain) in inputs.iter().zip(&results).zip(&plain) {
                let expected = naive(model, &weights, input);
                let reference = interpret_finite(model, &weights, std::slice::from_ref(input));
                match (result, expected) {
                    (Ok(rows), None) => {
                        assert_eq!(bits(rows), bits(plain), "{}", parameter.name);
                        assert!(reference.is_ok());
                        passed += 1;
                    }
                    (Err(error), Some(expected)) => {
                        let got = found(error);
                        let NotFiniteCall { call, cell, field, index, value, cause } = got.clone();
                        assert_eq!((call, cell, field, index, value), expected);
                        let NotFiniteCause::Weight(weight) = &cause else {
                            panic!("{}: {cause:?}", parameter.name)
                        };
                        assert_eq!(weight.name, parameter.name);
                        let RunError::Input { error: other, .. } = reference.unwrap_err() else {
                            panic!("an input failed")
                        };
                        assert_eq!(&other, error, "the interpreter agrees");
                        assert!(error.to_string().contains(&weight.to_string()), "{error}");
                        failed += 1;
                    }
                    (got, expected) => panic!("{}: {got:?}, {expected:?}", parameter.name),
                }
            }
        }
    }
    assert!(failed > 0 && passed > 0, "{failed} failed, {passed} passed");
}

#[test]
fn what_is_planted_in_a_weight_is_found_where_the_interpreter_finds_it() {
    let trees: Vec<_> = fixtures::binary_trees();
    let mut words = edbatch_datasets::Vocabulary::new();
    trees.iter().flat_map(|tree| tree.tokens()).for_each(|token| _ = words.insert(token));
    let trees: Vec<_> =
        trees.iter().take(4).map(|tree| tree.map(|_| 0, |token| words.id(token))).collect();
    let vocabulary = words.len();
    let sizes = TreeSizes { vocabulary, embed: 4, hidden: 4, classes: 3 };
    check_every_weight(&TreeLstm::new(sizes).unwrap(), &trees);
    check_every_weight(&TreeGru::new(sizes).unwrap(), &trees);
    check_every_weight(
        &MvRnn::new(MvRnnSizes { vocabulary, hidden: 3, classes: 3 }).unwrap(),
        &trees,
    );
    let sizes = TaggerSizes { vocabulary: 9, embed: 4, hidden: 4, layers: 1, mlp: 4, tags: 3 };
    let sentences = [&[1, 2, 3][..], &[4], &[], &[5, 1]].map(sentence);
    check_every_weight(&BiLstmTagger::new(sizes).unwrap(), &sentences);
}

fn sentence(words: &[u32]) -> Sentence<u32> {
    Sentence { words: words.to_vec(), tags: vec![None; words.len()] }
}

/// Values that grow over all bounds, and one that is within them again.
#[derive(Clone)]
struct Squashed {
    network: Arc<Network>,
    start: Kind,
    grow: Kind,
    squash: Kind,
}

impl Squashed {
    fn new() -> Self {
        let mut network = Network::new();
        let state = network.record("state", [("a", Shape::Vector(3)), ("h", Shape::Vector(20))]);
        let state = state.unwrap();
        let out = network.record("out", [("y", Shape::Vector(20))]).unwrap();
        let start = network.cell("start", state, |cell| {
            vec![cell.constant(1.0, Shape::Vector(3)), cell.lookup("x", "embed", &[9, 20])]
        });
        let grow = network.cell("grow", state, |cell| {
            let [a, h] = cell.one("from", state);
            vec![a, h.scale(1e30)]
        });
        let squash = network.cell("squash", out, |cell| {
            let [_, h] = cell.one("from", state);
            vec![h.tanh()]
        });
        let (start, grow, squash) = (start.unwrap(), grow.unwrap(), squash.unwrap());
        Self { network: Arc::new(network), start, grow, squash }
    }
}

impl Model for Squashed {
    /// How often a value grows: from the second time on it is infinite.
    type Input = usize;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, times: &usize) -> Result<(), BuildError> {
        let mut state = build.call(self.start, &[4], &[])?;
        for _ in 0..*times {
            state = build.call(self.grow, &[], &[state])?;
        }
        build.emit(build.call(self.squash, &[], &[state])?);
        Ok(())
    }
}

#[test]
fn an_overflow_is_found_though_the_output_is_finite() {
    let model = Squashed::new();
    let weights = weights(&model.network);
    let inputs: Vec<usize> = (0..24).map(|input| input % 4).collect();
    let plain = Engine::new(model.clone(), weights.clone()).unwrap().run(&inputs).unwrap();
    let finite = |rows: &Rows| rows.iter().flatten().all(|x| x.is_finite());
    assert!(plain.iter().all(finite), "nothing is seen of it in the results");
    let new = || EngineOptions::new().check_finite();
    let all = [
        new(),
        new().policy(Box::new(Depth::new())),
        new().policy(Box::new(Agenda::new())),
        new().plan_cache(1 << 20),
        new().fold_tables(1 << 20),
        new().threads(2),
    ];
    for options in all {
        let mut engine = Engine::with_options(model.clone(), weights.clone(), options).unwrap();
        // The second time, plans may come from the cache.
        for inputs in [&inputs[..], &inputs[..], &inputs[..3]] {
            let results = engine.run_each(inputs, &RunOptions::new()).unwrap();
            for ((input, result), plain) in inputs.iter().zip(&results).zip(&plain) {
                let expected = naive(&model, &weights, input);
                assert_eq!(expected.is_some(), *input >= 2);
                match result {
                    Ok(rows) => assert!(expected.is_none() && bits(rows) == bits(plain)),
                    Err(error) => {
                        let got = found(error).clone();
                        assert_eq!(got.cause, NotFiniteCause::Operations);
                        let got = (got.call, got.cell, got.field, got.index, got.value);
                        assert_eq!(Some(got), expected);
                        assert_eq!(found(error).call, 2, "it grew once before");
                    }
                }
            }
        }
        let mut another = engine.fork();
        assert!(another.run(&inputs).is_err(), "what is checked is checked by others too");
    }
    let error = Engine::with_options(model.clone(), weights.clone(), new()).unwrap().run(&[1, 3]);
    let said = error.unwrap_err().to_string();
    assert!(said.starts_with("input 1: expected finite values, got "), "{said}");
    assert!(
        said.contains("of field h of cell grow, call 2 of the input, counted from 0"),
        "{said}"
    );
    assert!(said.contains("one of its operations overflows or is undefined"), "{said}");
}

#[test]
fn a_row_of_a_table_fails_the_one_input_that_reads_it() {
    let sizes = TaggerSizes { vocabulary: 20, embed: 4, hidden: 4, layers: 1, mlp: 4, tags: 3 };
    let model = BiLstmTagger::new(sizes).unwrap();
    let (network, good) = (model.network().clone(), weights(model.network()));
    let table = |p: &edbatch_graph::Parameter| p.dims == [20, 4];
    let id = ParameterId(network.parameters().iter().position(table).unwrap() as u32);
    let bad = planted(&network, &good, (id, 17 * 4 + 2, f32::NAN));
    let inputs = [&[1, 2][..], &[3, 17, 4], &[5]].map(sentence);
    let plain = Engine::new(model.clone(), good).unwrap().run(&inputs).unwrap();
    for fold in [0, u64::MAX] {
        let options = EngineOptions::new().check_finite().fold_tables(fold);
        let mut engine = Engine::with_options(model.clone(), bad.clone(), options).unwrap();
        let results = engine.run_each(&inputs, &RunOptions::new()).unwrap();
        for other in [0, 2] {
            assert_eq!(bits(results[other].as_ref().unwrap()), bits(&plain[other]));
        }
        let call = found(results[1].as_ref().unwrap_err());
        let NotFiniteCause::Weight(weight) = &call.cause else { panic!("{:?}", call.cause) };
        assert_eq!((&weight.index[..], weight.value), (&[17, 2][..], NotFinite::NaN));
        assert_eq!(weight.name, network.parameter(id).name);
        let (call_number, ..) = naive(&model, &bad, &inputs[1]).unwrap();
        assert_eq!(call.call, call_number);
    }
}

/// An input that fails while it waits goes on no more, and the others do.
#[test]
fn an_input_that_waits_fails_too() {
    let sizes = NmtSizes { source: 12, target: 9, embed: 4, hidden: 4 };
    let model = LstmNmt::new(sizes).unwrap();
    let (network, good) = (model.network().clone(), weights(model.network()));
    let source =
        |words: &[u32], steps| SourceSentence { words: words.to_vec(), stop: Stop::After(steps) };
    let inputs = [source(&[3, 4], 5), source(&[5, 11, 6], 7), source(&[7], 2)];
    let plain = Engine::new(model.clone(), good.clone()).unwrap().run(&inputs).unwrap();
    let tables = |rows: usize| {
        let table = |p: &edbatch_graph::Parameter| p.dims == [rows, 4];
        ParameterId(network.parameters().iter().position(table).unwrap() as u32)
    };
    // One fails in its first graph; a word that is written fails those that go on behind it.
    let written: Vec<(ParameterId, usize)> = (0..9).map(|word| (tables(9), word * 4)).collect();
    let mut calls = Vec::new();
    for (id, element) in written.into_iter().chain([(tables(12), 11 * 4)]) {
        let bad = planted(&network, &good, (id, element, f32::NAN));
        for threads in [1, 2] {
            let options = EngineOptions::new().check_finite().threads(threads);
            let mut engine = Engine::with_options(model.clone(), bad.clone(), options).unwrap();
            let results = engine.run_each(&inputs, &RunOptions::new()).unwrap();
            for ((input, result), plain) in inputs.iter().zip(&results).zip(&plain) {
                match (result, interpret_finite(&model, &bad, std::slice::from_ref(input))) {
                    (Ok(rows), Ok(_)) => assert_eq!(bits(rows), bits(plain)),
                    (Err(error), Err(RunError::Input { error: expected, .. })) => {
                        assert_eq!(error, &expected);
                        calls.push(found(error).call);
                    }
                    (got, expected) => panic!("{got:?}, {expected:?}"),
                }
            }
            // Afterwards the engine is as good as new.
            let again = engine.run_each(&inputs, &RunOptions::new()).unwrap();
            assert_eq!(again, results);
        }
    }
    // Calls are counted on from graph to graph.
    assert!(calls.iter().any(|&call| call > 4) && calls.contains(&1), "{calls:?}");
}

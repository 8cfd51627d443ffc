//! `interpret_finite` finds the same first call with a NaN or an infinity as a naive search of all
//! values.

use std::sync::Arc;

use edbatch::models::*;
use edbatch::{
    Engine, InputError, NotFiniteCall, NotFiniteCause, RunError, interpret, interpret_finite,
};
use edbatch_datasets::fixtures;
use edbatch_graph::{Dag, Network, NodeId, ParameterId, Shape};
use edbatch_runtime::{NotFinite, Parameters, Precision, initial_values};

use crate::fn_model::{FnModel, random};
use crate::small::{changed, sentence, tagger};

/// Returns the weights with one element changed.
fn planted(
    network: &Network,
    weights: &Parameters,
    (id, element, value): (ParameterId, usize, f32),
) -> Parameters {
    changed(network, weights, |values| values[id.0 as usize][element] = value)
}

fn weights(network: &Network) -> Parameters {
    random(network, 5)
}

/// Searches all values of an input for the first element that is not finite. The model must not
/// await values.
fn naive<M: Model<Input: Clone> + Clone>(
    model: &M,
    weights: &Parameters,
    input: &M::Input,
) -> Option<(usize, String, String, Vec<usize>, NotFinite)> {
    let mut engine = Engine::new(model.clone(), self::weights(model.network())).unwrap();
    let graphs = engine.graphs(std::slice::from_ref(input)).unwrap();
    let [graph] = &graphs[..] else { return None };
    let initial = initial_values(model.network(), weights);
    let nodes = edbatch_runtime::interpret(graph, weights, &initial, Precision::F32);
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

/// Runs an input with `interpret_finite`. Returns its rows as bits, or the call that the error
/// reports.
fn check<M: Model<Input: Clone>>(
    model: &M,
    weights: &Parameters,
    input: &M::Input,
) -> Result<Vec<u32>, Box<NotFiniteCall>> {
    match interpret_finite(model, weights, std::slice::from_ref(input), Precision::F32) {
        Ok(interpreted) => {
            Ok(interpreted.outputs[0].iter().flatten().map(|x| x.to_bits()).collect())
        }
        Err(RunError::Input { instance: 0, error: InputError::NotFinite(call) }) => Err(call),
        Err(error) => panic!("{error}"),
    }
}

/// Runs an input with `interpret`. Returns its rows as bits.
fn plain<M: Model<Input: Clone>>(model: &M, weights: &Parameters, input: &M::Input) -> Vec<u32> {
    let interpreted =
        interpret(model, weights, std::slice::from_ref(input), Precision::F32).unwrap();
    interpreted.outputs[0].iter().flatten().map(|x| x.to_bits()).collect()
}

/// Sets elements of each tensor to a NaN or an infinity, and checks every input.
fn check_every_weight<M: Model<Input: Clone> + Clone>(model: &M, inputs: &[M::Input]) {
    let network = model.network();
    let good = weights(network);
    let (mut failed, mut passed) = (0, 0);
    for (id, parameter) in (0..).map(ParameterId).zip(network.parameters()) {
        for (place, value) in [(0, f32::NAN), (1, f32::INFINITY), (2, f32::NEG_INFINITY)] {
            let element = place * (parameter.elements() - 1) / 2;
            let weights = planted(network, &good, (id, element, value));
            let mut first = None;
            for (instance, input) in inputs.iter().enumerate() {
                match (check(model, &weights, input), naive(model, &weights, input)) {
                    (Ok(rows), None) => {
                        assert_eq!(rows, plain(model, &weights, input), "{}", parameter.name);
                        passed += 1;
                    }
                    (Err(got), Some(expected)) => {
                        let said = got.to_string();
                        first = first.or(Some((instance, got.clone())));
                        let NotFiniteCall { call, cell, field, index, value, cause } = *got;
                        assert_eq!((call, cell, field, index, value), expected);
                        let NotFiniteCause::Weight(weight) = &cause else {
                            panic!("{}: {cause:?}", parameter.name)
                        };
                        assert_eq!(weight.name, parameter.name);
                        assert!(said.contains(&weight.to_string()), "{said}");
                        failed += 1;
                    }
                    (got, expected) => panic!("{}: {got:?}, {expected:?}", parameter.name),
                }
            }
            // In a mini-batch, the first input that fails is reported.
            let got = match interpret_finite(model, &weights, inputs, Precision::F32) {
                Ok(_) => None,
                Err(RunError::Input { instance, error: InputError::NotFinite(call) }) => {
                    Some((instance, call))
                }
                Err(error) => panic!("{error}"),
            };
            assert_eq!(got, first);
        }
    }
    assert!(failed > 0 && passed > 0, "{failed} failed, {passed} passed");
}

#[test]
fn a_weight_that_is_not_finite_is_found() {
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
    let sentences = [&[1, 2, 3][..], &[4], &[], &[5, 1]].map(sentence);
    check_every_weight(&tagger(1), &sentences);
}

/// A value that overflows, and then a tanh that makes it finite again. The input is the number of
/// times that the value grows. The second time, it becomes infinite.
fn squashed() -> impl Model<Input = usize> + Clone {
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
    FnModel::new(network, move |build: &Build<'_>, times: &usize| {
        let mut state = build.call(start, &[4], &[])?;
        for _ in 0..*times {
            state = build.call(grow, &[], &[state])?;
        }
        build.emit(build.call(squash, &[], &[state])?);
        Ok(())
    })
}

#[test]
fn an_overflow_is_found_if_the_output_is_finite() {
    let model = squashed();
    let weights = weights(model.network());
    for times in 0..4 {
        let rows = plain(&model, &weights, &times);
        assert!(rows.iter().all(|&bits| f32::from_bits(bits).is_finite()));
        match check(&model, &weights, &times) {
            Ok(got) => {
                assert!(times < 2 && got == rows && naive(&model, &weights, &times).is_none())
            }
            Err(got) => {
                let said = got.to_string();
                assert!(said.starts_with("expected finite values, got "), "{said}");
                let place = "of field h of cell grow, call 2 of the input, counted from 0";
                assert!(said.contains(place), "{said}");
                assert!(said.contains("one of its operations overflows or is undefined"), "{said}");
                assert_eq!(got.cause, NotFiniteCause::Operations);
                let got = (got.call, got.cell, got.field, got.index, got.value);
                assert_eq!((times >= 2, Some(got)), (true, naive(&model, &weights, &times)));
            }
        }
    }
}

/// A constant is data of the network, not a result of large weights.
#[test]
fn a_constant_that_is_not_finite_is_the_cause() {
    for (number, factor, operation) in [(f32::INFINITY, 1.0, 0), (2.0, f32::NEG_INFINITY, 1)] {
        let mut network = Network::new();
        let one = network.record("one", [("x", Shape::Vector(1))]).unwrap();
        let constant = network.cell("constant", one, |cell| {
            vec![cell.constant(number, Shape::Vector(1)).scale(factor)]
        });
        let constant = constant.unwrap();
        let network = Arc::new(network);
        let mut list = CallList::new(network.clone());
        let call = list.call(constant, &[], &[]).unwrap();
        list.emit(call).unwrap();
        let got = check(&CallLists::new(network.clone()), &weights(&network), &list).unwrap_err();
        let value = NotFinite::first([number * factor]).unwrap().1;
        assert_eq!(got.cause, NotFiniteCause::Constant { operation, value });
        let (said, expected) = (got.to_string(), format!("v{operation} has the constant {value}"));
        assert!(said.contains(&expected) && !said.contains("weights"), "{said}");
    }
}

#[test]
fn a_row_of_a_table_fails_only_the_inputs_that_read_it() {
    let sizes = TaggerSizes { vocabulary: 20, embed: 4, hidden: 4, layers: 1, mlp: 4, tags: 3 };
    let model = BiLstmTagger::new(sizes).unwrap();
    let (network, good) = (model.network().clone(), weights(model.network()));
    let table = |p: &edbatch_graph::Parameter| p.dims == [20, 4];
    let id = ParameterId(network.parameters().iter().position(table).unwrap() as u32);
    let bad = planted(&network, &good, (id, 17 * 4 + 2, f32::NAN));
    for words in [&[1, 2][..], &[5]] {
        let input = sentence(words);
        assert_eq!(check(&model, &bad, &input), Ok(plain(&model, &good, &input)));
    }
    let call = check(&model, &bad, &sentence([3, 17, 4])).unwrap_err();
    let NotFiniteCause::Weight(weight) = &call.cause else { panic!("{:?}", call.cause) };
    assert_eq!((&weight.index[..], weight.value), (&[17, 2][..], NotFinite::NaN));
    assert_eq!(weight.name, network.parameter(id).name);
}

/// A decoder has a graph for each step. Calls are counted over all graphs.
#[test]
fn an_input_that_awaits_values_may_fail_at_any_step() {
    let sizes = NmtSizes { source: 12, target: 9, embed: 4, hidden: 4 };
    let model = LstmNmt::new(sizes).unwrap();
    let (network, good) = (model.network().clone(), weights(model.network()));
    let source =
        |words: &[u32], steps| SourceSentence { words: words.to_vec(), stop: Stop::After(steps) };
    let inputs = [source(&[3, 4], 5), source(&[5, 11, 6], 7), source(&[7], 2)];
    let table = |rows: usize| {
        let table = |p: &edbatch_graph::Parameter| p.dims == [rows, 4];
        ParameterId(network.parameters().iter().position(table).unwrap() as u32)
    };
    let target_words = (0..9).map(|word| (table(9), word * 4));
    let mut calls = Vec::new();
    for (id, element) in target_words.chain([(table(12), 11 * 4)]) {
        let bad = planted(&network, &good, (id, element, f32::NAN));
        for input in &inputs {
            match check(&model, &bad, input) {
                Ok(rows) => assert_eq!(rows, plain(&model, &good, input)),
                Err(call) => {
                    let NotFiniteCause::Weight(weight) = &call.cause else {
                        panic!("{:?}", call.cause)
                    };
                    assert_eq!(weight.name, network.parameter(id).name);
                    calls.push(call.call);
                }
            }
        }
    }
    assert!(calls.iter().any(|&call| call > 4) && calls.contains(&1), "{calls:?}");
}

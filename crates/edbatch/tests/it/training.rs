//! Gradients of the reference against PyTorch's autograd, and against central differences.
//!
//! The folders in `gradients/` next to this file have weights, examples, and the loss and gradients
//! that PyTorch computed in float64.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::models::{
    LatticeGru, LatticeLstm, LatticeSizes, LstmNmt, Model, ModelConfig, ModelName, MvRnn,
    MvRnnSizes, NmtSizes, SourceSentence, Stop, TreeGru, TreeLstm, TreeSizes, Zoo, ZooInput,
    build_vocabularies, inputs,
};
use edbatch::{Engine, Loss, LossGradients, TrainError, Trainer, interpret_gradients, load};
use edbatch_graph::{
    CellBuilder, Dag, Graph, Network, NodeId, ParameterId, Shape, Tensor, TrainingNetwork, Value,
    Values, training_network,
};
use edbatch_runtime::{Parameters, ReferenceTensor, interpret_as};
use edbatch_testing::networks::{Random, random_graph, random_network, with_second_lookups};
use edbatch_testing::shared;
use rand::{RngExt, SeedableRng};

#[test]
fn gradients_equal_those_of_pytorch() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gradients");
    let mut folders: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert_eq!(folders.len(), 9);
    for dir in folders {
        let loaded = load(&dir).unwrap();
        let examples = loaded.folder.examples(&loaded.folder.input(), None).unwrap();
        let examples: Vec<_> = examples.collect::<Result<_, _>>().unwrap();
        let pairs = examples.iter().map(|(input, targets)| (input, targets.as_slice()));
        let reference = interpret_gradients(&loaded.model, &loaded.parameters, pairs).unwrap();
        compare(&dir, loaded.model.network(), &reference);
        let network = loaded.model.network().clone();
        let mut trainer = Trainer::new(loaded.model, loaded.parameters).unwrap();
        let (inputs, targets): (Vec<_>, Vec<_>) = examples.into_iter().unzip();
        let weight = 1.0 / inputs.len() as f32;
        let Loss { loss, terms } = trainer.accumulate(&inputs, &targets, weight).unwrap();
        let gradients = trainer.gradients().unwrap().to_dense(&network);
        let double = |values: &Vec<f32>| values.iter().map(|&g| f64::from(g)).collect();
        let parameters = gradients.iter().map(double).collect();
        let got = LossGradients { loss, terms, parameters, ..reference };
        compare(&dir, &network, &got);
    }
}

/// Compares a loss and its gradients with those in a folder.
fn compare(dir: &Path, network: &Network, got: &LossGradients) {
    let text = fs::read_to_string(dir.join("loss.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let loss = expected["loss"].as_f64().unwrap();
    assert!((got.loss - loss).abs() <= 1e-6 * loss, "{dir:?}: {loss}, got {}", got.loss);
    assert_eq!(got.terms, expected["terms"].as_u64().unwrap(), "{dir:?}");
    assert_eq!(got.instances, expected["instances"].as_u64().unwrap(), "{dir:?}");

    let bytes = fs::read(dir.join("gradients.safetensors")).unwrap();
    let expected = Parameters::from_safetensors(network, &bytes).unwrap();
    for (index, parameter) in network.parameters().iter().enumerate() {
        let expected = expected.get(ParameterId(index as u32));
        let greatest = expected.iter().fold(1e-5f64, |max, &g| max.max(f64::from(g).abs()));
        for (element, (&expected, &got)) in expected.iter().zip(&got.parameters[index]).enumerate()
        {
            assert!(
                (f64::from(expected) - got).abs() <= 1e-5 * greatest,
                "{dir:?}: {}[{element}]: expected {expected}, got {got}",
                parameter.name
            );
        }
    }
}

/// A graph with an objective: the sum of all elements of all nodes, each with a random factor.
struct Objective {
    training: TrainingNetwork,
    graph: Graph,
    factors: Vec<Vec<ReferenceTensor<f64>>>,
}

/// A point or a direction: parameters and given values.
#[derive(Clone)]
struct Point {
    parameters: Vec<Vec<f64>>,
    given: Vec<Vec<ReferenceTensor<f64>>>,
}

impl Objective {
    fn new(training: TrainingNetwork, graph: Graph, rng: &mut Random) -> Self {
        let nodes = (0..graph.nodes()).map(|node| {
            let record = graph.network()[graph.kind(NodeId::new(node))].record();
            let fields = &graph.network().fields(record).fields;
            fields.iter().map(|field| random_tensor(field.shape, rng)).collect()
        });
        let factors = nodes.collect();
        Self { training, graph, factors }
    }

    /// Returns a random point; the given values that are parameters follow the parameters.
    fn random_point(&self, rng: &mut Random) -> Point {
        let network = self.graph.network();
        let values = |elements| (0..elements).map(|_| rng.random_range(-1.0..1.0)).collect();
        let parameters = network.parameters().iter().map(|p| p.elements()).map(values).collect();
        let given = self.graph.given().iter().map(|&record| {
            let fields = &network.fields(record).fields;
            fields.iter().map(|field| random_tensor(field.shape, rng)).collect()
        });
        let mut point = Point { given: given.collect(), parameters };
        self.copy_initial(&mut point);
        point
    }

    fn copy_initial(&self, point: &mut Point) {
        for (initial, given) in self.graph.network().initial_values().iter().zip(&mut point.given) {
            for (parameter, given) in initial.parameters.iter().zip(given) {
                let values = &point.parameters[parameter.0 as usize];
                given.iter_mut().zip(values).for_each(|(given, &value)| *given = value);
            }
        }
    }

    fn value(&self, point: &Point) -> f64 {
        let parameters: Vec<&[f64]> = point.parameters.iter().map(Vec::as_slice).collect();
        let network = self.graph.network();
        let nodes = interpret_as(network, &self.graph, &parameters, &point.given);
        let products = nodes.iter().zip(&self.factors).flat_map(|(fields, factors)| {
            fields.iter().zip(factors).map(|(field, factor)| (field * factor).sum())
        });
        products.sum()
    }

    /// Returns the derivative in a direction by the adjoint cells.
    fn derivative(&self, point: &Point, direction: &Point) -> f64 {
        let parameters: Vec<&[f64]> = point.parameters.iter().map(Vec::as_slice).collect();
        let outputs: Vec<(Value, Vec<ReferenceTensor<f64>>)> = (0..self.graph.nodes())
            .map(|node| (NodeId::new(node).into(), self.factors[node].clone()))
            .collect();
        let gradients = edbatch_runtime::interpret_gradients(
            &self.training,
            &self.graph,
            &parameters,
            &point.given,
            &outputs,
        );
        let of_parameters = gradients.parameters.iter().flatten();
        let mut sum: f64 =
            of_parameters.zip(direction.parameters.iter().flatten()).map(|(g, d)| g * d).sum();
        // Initial values are parameters, whose gradients are summed above.
        let own = self.graph.network().initial_values().len();
        for (gradients, direction) in gradients.given.iter().zip(&direction.given).skip(own) {
            sum += gradients.iter().zip(direction).map(|(g, d)| (g * d).sum()).sum::<f64>();
        }
        sum
    }

    /// Returns the point at a distance in a direction.
    fn moved(&self, point: &Point, direction: &Point, by: f64) -> Point {
        let mut moved = point.clone();
        for (to, from) in moved.parameters.iter_mut().zip(&direction.parameters) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += by * from);
        }
        for (to, from) in moved.given.iter_mut().flatten().zip(direction.given.iter().flatten()) {
            to.scaled_add(by, from);
        }
        self.copy_initial(&mut moved);
        moved
    }

    /// Returns the derivative by central differences, or `None` if there is a kink nearby: there,
    /// the differences to both sides do not agree.
    fn difference(&self, point: &Point, direction: &Point, step: f64) -> Option<f64> {
        let at = |by| self.value(&self.moved(point, direction, by));
        // Five points: the error is of fourth order.
        let difference = |step: f64| {
            (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step)
        };
        let (wide, narrow) = (difference(4.0 * step), difference(step));
        ((wide - narrow).abs() <= 1e-7 * (1.0 + narrow.abs())).then_some(narrow)
    }
}

fn random_tensor(shape: Shape, rng: &mut Random) -> ReferenceTensor<f64> {
    ReferenceTensor::from_shape_fn(shape.rows_and_columns(), |_| rng.random_range(-1.0..1.0))
}

/// Checks gradients against differences in random directions. Returns false near a kink.
fn check(objective: &Objective, tolerance: f64, rng: &mut Random) -> bool {
    let (point, direction) = (objective.random_point(rng), objective.random_point(rng));
    let Some(expected) = objective.difference(&point, &direction, 2e-4) else { return false };
    let got = objective.derivative(&point, &direction);
    assert!(
        (expected - got).abs() <= tolerance * (1.0 + expected.abs()),
        "expected {expected}, got {got}\n{}",
        objective.graph
    );
    true
}

/// The cell of a rule: `a` and `b` are given, of these shapes.
type Rule =
    (&'static str, Shape, Shape, for<'c> fn(&'c CellBuilder, Tensor<'c>, Tensor<'c>) -> Tensor<'c>);

#[test]
fn every_rule_equals_central_differences() {
    use Shape::{Matrix, Vector};
    let one = Vector(1);
    let rules: [Rule; 62] = [
        ("add", Vector(4), Vector(4), |_, a, b| a + b),
        ("add broadcast", Vector(4), one, |_, a, b| a + b),
        ("add to a broadcast", one, Matrix(2, 3), |_, a, b| a + b),
        ("add columns", Matrix(3, 4), Vector(3), |_, a, b| a + b),
        ("subtract", Vector(4), Vector(4), |_, a, b| a - b),
        ("subtract broadcast", Matrix(3, 4), Vector(3), |_, a, b| a - b),
        ("subtract from a broadcast", one, Vector(3), |_, a, b| a - b),
        ("multiply", Vector(4), Vector(4), |_, a, b| a * b),
        ("multiply broadcast", Vector(4), one, |_, a, b| a * b),
        ("multiply columns", Vector(3), Matrix(3, 4), |_, a, b| a * b),
        ("square", Vector(4), one, |_, a, b| a * a * b),
        ("divide", Vector(4), Vector(4), |_, a, b| a / b.exp()),
        ("divide broadcast", Matrix(2, 3), one, |_, a, b| a / b.exp()),
        ("divide a broadcast", one, Matrix(2, 3), |_, a, b| a / b.exp()),
        ("divide columns", Matrix(3, 2), Vector(3), |_, a, b| a / b.exp()),
        ("negate", Vector(4), one, |_, a, b| -a * b),
        ("scale", Vector(4), one, |_, a, b| a.scale(-0.75) * b),
        ("sigmoid", Vector(4), one, |_, a, b| (a * b).sigmoid()),
        ("tanh", Matrix(2, 3), one, |_, a, b| (a * b).tanh()),
        ("relu", Vector(9), one, |_, a, b| (a * b).relu()),
        ("exp", Vector(4), one, |_, a, b| (a * b).exp()),
        ("log", Vector(4), one, |_, a, b| (a.exp() + b.exp()).log()),
        ("softmax", Vector(4), one, |_, a, b| (a * b).softmax()),
        ("softmax of one", one, one, |_, a, b| (a * b).softmax() + a),
        ("log-softmax", Vector(4), one, |_, a, b| (a * b).log_softmax()),
        ("concatenate", Vector(4), Vector(3), |cell, a, b| {
            cell.concat(&[a, b, a.tanh()]) * cell.parameter("w", &[11])
        }),
        ("concatenate matrices", Matrix(2, 3), Matrix(1, 3), |cell, a, b| cell.concat(&[a, b])),
        ("slice", Vector(6), one, |_, a, b| a.slice(1, 3) * b),
        ("slices of all", Vector(6), one, |cell, a, b| {
            cell.concat(&[a.slice(4, 2).tanh(), a.slice(0, 4) * b])
        }),
        ("slices that overlap", Vector(6), one, |cell, a, b| {
            cell.concat(&[a.slice(0, 4).tanh(), a.slice(2, 3) * b, a])
        }),
        ("slice of a matrix", Matrix(4, 2), one, |_, a, b| a.slice(1, 2) * b),
        ("transpose", Matrix(2, 3), Matrix(3, 2), |_, a, b| a.transpose() * b),
        ("parameter times vector", Vector(4), one, |cell, a, b| {
            cell.parameter("w", &[3, 4]).matmul(a * b)
        }),
        ("parameter times matrix", Matrix(4, 2), one, |cell, a, b| {
            cell.parameter("w", &[3, 4]).matmul(a * b)
        }),
        ("transposed parameter times vector", Vector(3), one, |cell, a, b| {
            cell.parameter("w", &[3, 4]).transpose().matmul(a * b)
        }),
        ("transposed parameter times matrix", Matrix(3, 2), one, |cell, a, b| {
            cell.parameter("w", &[3, 4]).transpose().matmul(a * b)
        }),
        ("matrix times vector", Matrix(3, 4), Vector(4), |_, a, b| a.matmul(b)),
        ("matrix times matrix", Matrix(3, 4), Matrix(4, 2), |_, a, b| a.tanh().matmul(b)),
        ("transposed matrix times vector", Matrix(3, 4), Vector(3), |_, a, b| {
            a.transpose().matmul(b)
        }),
        ("matrix times parameter", Matrix(3, 4), one, |cell, a, b| {
            a.matmul(cell.parameter("w", &[4, 2])) * b
        }),
        ("product used twice", Vector(4), one, |cell, a, b| {
            let y = cell.parameter("w", &[4, 4]).matmul(a).tanh();
            cell.parameter("w", &[4, 4]).matmul(y * b) + y
        }),
        ("bias", Vector(3), Matrix(3, 2), |cell, a, b| {
            a.tanh() + cell.parameter("b", &[3]) + b.matmul(cell.parameter("v", &[2]))
        }),
        ("softmax of rows", Matrix(3, 4), Vector(3), |_, a, b| (a * b).softmax()),
        ("log-softmax of rows", Matrix(3, 4), Vector(3), |_, a, b| (a * b).log_softmax()),
        ("square root", Vector(4), one, |_, a, b| (a * b).exp().sqrt()),
        ("error function", Vector(4), one, |_, a, b| (a * b).erf()),
        ("gelu", Vector(4), one, |_, a, b| (a * b).gelu()),
        ("silu", Vector(4), one, |_, a, b| (a * b).silu()),
        ("maximum", Vector(9), Vector(9), |_, a, b| a.maximum(b)),
        ("maximum broadcast", Matrix(3, 4), Vector(3), |_, a, b| b.maximum(a * b)),
        ("minimum", Vector(9), one, |_, a, b| (a * b).minimum(b)),
        ("absolute value", Vector(9), one, |_, a, b| (a * b).abs()),
        ("leaky relu", Vector(9), one, |_, a, b| (a * b).leaky_relu(0.25)),
        ("layer norm", Vector(9), one, |_, a, b| (a * b + a).layer_norm(0.25)),
        ("layer norm of rows", Matrix(3, 4), Vector(3), |_, a, b| (a + b).tanh().layer_norm(0.25)),
        ("RMS norm", Vector(9), one, |_, a, b| (a * b).rms_norm(0.25)),
        ("RMS norm of rows", Matrix(3, 4), Vector(3), |_, a, b| (a + b).rms_norm(0.25)),
        ("inner product", Vector(4), Vector(4), |_, a, b| a.tanh().dot(b) + a.dot(a)),
        ("inner products of rows", Matrix(3, 4), Matrix(3, 4), |_, a, b| a.dot(b)),
        ("reshape", Vector(6), Matrix(3, 2), |_, a, b| {
            a.tanh().reshape(Matrix(2, 3)).matmul(b) * a.slice(0, 2)
        }),
        ("select", Vector(5), Matrix(5, 3), |cell, a, b| {
            let index = cell.index("index", 5);
            a.tanh().select(index) * b.select(index) * a.select(index)
        }),
        ("lookup", Vector(3), one, |cell, a, b| {
            let e = cell.lookup("token", "table", &[5, 4]);
            let f = cell.lookup("other", "others", &[5, 3]);
            let w = cell.parameter("w", &[3, 4]);
            w.matmul(e).tanh() * a + e.slice(1, 3) * b + f
        }),
    ];
    let mut rng = Random::seed_from_u64(1);
    for (name, a, b, rule) in rules {
        let mut network = Network::new();
        let record_a = network.record("a", [("a", a)]).unwrap();
        let record_b = network.record("b", [("b", b)]).unwrap();
        // The shape of the result is inferred, so declare the cell once to see it.
        let mut shape = None;
        let _ = network.clone().cell(name, record_a, |cell| {
            let ([a], [b]) = (cell.one("a", record_a), cell.one("b", record_b));
            let y = rule(cell, a, b);
            shape = Some(y.shape());
            vec![y]
        });
        let result = network.record("y", [("y", shape.unwrap())]).unwrap();
        let kind = network
            .cell(name, result, |cell| {
                let ([a], [b]) = (cell.one("a", record_a), cell.one("b", record_b));
                vec![rule(cell, a, b)]
            })
            .unwrap();
        let training = training_network(&network, |_| true, |_| true).unwrap();
        let network = Arc::new(network);
        let mut graph = Graph::new(network.clone());
        let (a, b) = (graph.give(record_a), graph.give(record_b));
        let rows: Vec<u32> = network[kind].tables().iter().map(|_| 3).collect();
        graph.call(kind, &rows, &[a, b]).unwrap();
        graph.call(kind, &rows, &[a, b]).unwrap();
        let objective = Objective::new(training, graph, &mut rng);
        let checked = (0..20).filter(|_| check(&objective, 1e-7, &mut rng)).count();
        assert!(checked >= 15, "{name}: {checked} of 20 points without a kink");
    }
}

/// The cell of a rule over a port, whose values have the fields s `[2]`, k `[6]` and v `[4]`.
type PortRule = (&'static str, for<'c> fn(Tensor<'c>, Values<'c>) -> Vec<Tensor<'c>>);

#[test]
fn every_rule_over_a_port_equals_central_differences() {
    let rules: [PortRule; 8] = [
        ("max", |_, values| values.max::<3>().into()),
        ("log-sum-exp", |_, values| values.log_sum_exp::<3>().into()),
        ("attention", |q, values| vec![values.attention(q, "k", "v", 1, 0.7)]),
        ("attention of heads", |q, values| vec![values.attention(q, "k", "v", 2, -1.5)]),
        ("attention to the keys", |q, values| vec![values.attention(q, "k", "k", 3, 0.5)]),
        ("softmax-sum", |_, values| vec![values.softmax_sum("s", "v")]),
        ("softmax-sum of the scores", |q, values| vec![values.softmax_sum("s", "s") + q.dot(q)]),
        ("all at once", |q, values| {
            let [_, k, v] = values.sum();
            let of_keys = values.attention(q, "k", "v", 2, 0.5) * v;
            vec![of_keys + values.softmax_sum("s", "v"), values.max::<3>()[1] * k]
        }),
    ];
    let mut rng = Random::seed_from_u64(3);
    for (name, rule) in rules {
        let mut network = Network::new();
        let [s, k, v] = [2, 6, 4].map(Shape::Vector);
        let record = network.record("value", [("s", s), ("k", k), ("v", v)]).unwrap();
        let query = network.record("query", [("q", k)]).unwrap();
        // The shapes of the results are inferred, so declare the cell once to see them.
        let mut shapes = Vec::new();
        let _ = network.clone().cell(name, query, |cell| {
            let [q] = cell.one("query", query);
            let found = rule(q.tanh(), cell.many("values", record));
            shapes.extend(found.iter().map(|tensor| tensor.shape()));
            found
        });
        let names = ["a", "b", "c"].into_iter().zip(shapes.iter().copied());
        let result = network.record("y", names).unwrap();
        let kind = network.cell(name, result, |cell| {
            let [q] = cell.one("query", query);
            rule(q.tanh(), cell.many("values", record))
        });
        let kind = kind.unwrap();
        let training = training_network(&network, |_| true, |_| true).unwrap();
        let mut graph = Graph::new(Arc::new(network));
        let q = graph.give(query);
        let values: Vec<Value> = (0..5).map(|_| graph.give(record)).collect();
        graph.call(kind, &[], &[&[q], &values[..]].concat()).unwrap();
        graph.call(kind, &[], &[q, values[1], values[3], values[1]]).unwrap();
        graph.call(kind, &[], &[q, values[4]]).unwrap();
        let objective = Objective::new(training, graph, &mut rng);
        let checked = (0..20).filter(|_| check(&objective, 1e-7, &mut rng)).count();
        assert!(checked >= 15, "{name}: {checked} of 20 points without a kink");
    }
}

/// Values that are the maximum together share its gradient, as in PyTorch's `amax`.
#[test]
fn equal_values_share_the_gradient_of_their_maximum() {
    let mut network = Network::new();
    let one = network.record("one", [("x", Shape::Vector(2))]).unwrap();
    let kind = network.cell("max", one, |cell| cell.many("values", one).max::<1>().into()).unwrap();
    let training = training_network(&network, |_| true, |_| true).unwrap();
    let mut graph = Graph::new(Arc::new(network));
    let values = [graph.give(one), graph.give(one), graph.give(one)];
    let max = graph.call(kind, &[], &values).unwrap();
    let tensor = |x: [f64; 2]| vec![ReferenceTensor::from_shape_vec((2, 1), x.to_vec()).unwrap()];
    let given = [[1.0, 5.0], [3.0, 5.0], [3.0, 2.0]].map(tensor);
    let outputs = [(max, tensor([1.0, 4.0]))];
    let found =
        edbatch_runtime::interpret_gradients(&training, &graph, &[], &given, &outputs).given;
    let expected = [[0.0, 2.0], [0.5, 2.0], [0.5, 0.0]].map(tensor);
    assert_eq!(found, expected);
}

#[test]
fn gradients_of_random_networks_equal_central_differences() {
    let (mut checked, mut kinks, mut seed) = (0, 0, 0);
    while checked < 200 {
        seed += 1;
        let mut rng = Random::seed_from_u64(seed);
        let (network, initial) = random_network(&mut rng);
        let network = with_second_lookups(&network, &mut Random::seed_from_u64(seed));
        let training = training_network(&network, |_| true, |_| true).unwrap();
        let graph = random_graph(&Arc::new(network), initial, &mut rng);
        let objective = Objective::new(training, graph, &mut rng);
        match check(&objective, 1e-6, &mut rng) {
            true => checked += 1,
            false => kinks += 1,
        }
    }
    println!("{checked} networks checked, {kinks} near a kink");
    assert!(kinks < 200, "{kinks} networks near a kink");
}

impl Point {
    /// Multiplies all elements by a factor.
    fn scale(&mut self, factor: f64) {
        self.parameters.iter_mut().flatten().for_each(|element| *element *= factor);
        self.given.iter_mut().flatten().flatten().for_each(|element| *element *= factor);
    }
}

/// Real inputs at a real size, along directions of length 1.
#[test]
fn gradients_of_nine_models_on_real_inputs_equal_central_differences() {
    use ModelName::*;
    const TREES: &[&str] = &["sst/test.txt.gz"];
    const SENTENCES: &[&str] = &["wikigold/wikigold.txt.gz"];
    const LATTICES: &[&str] = &["newswire/test.arcs.txt.gz"];
    let sets = [
        (TreeLstm, TREES),
        (TreeLstm2Type, TREES),
        (TreeGru, TREES),
        (MvRnn, TREES),
        (BiLstmTagger, SENTENCES),
        (BiLstmTaggerChar, SENTENCES),
        (LatticeLstm, LATTICES),
        (LatticeGru, LATTICES),
        (LstmNmt, &["iwslt15/tst2013.en.gz", "iwslt15/tst2013.vi.gz"]),
    ];
    let mut rng = Random::seed_from_u64(7);
    for (name, files) in sets {
        let paths = files.iter().map(|file| shared(Path::new("datasets").join(file)));
        let Some(paths) = paths.collect::<Option<Vec<PathBuf>>>() else { return };
        let gathered = build_vocabularies(name.family(), &paths, None).unwrap();
        // Each word of MV-RNN has a matrix.
        let hidden = if name == MvRnn { 32 } else { 128 };
        let config = ModelConfig::new(name, hidden, None, gathered.outputs);
        let lexicon = Arc::new(gathered.lexicon);
        let model = Zoo::new(&config, &lexicon).unwrap();
        let mut inputs: Vec<ZooInput> =
            inputs(&lexicon, &paths[0]).unwrap().take(2).map(Result::unwrap).collect();
        for input in &mut inputs {
            if let ZooInput::Source(source) = input {
                source.stop = Stop::Forced([5, 9, 7].into());
            }
        }
        let parameters = Parameters::random(model.network(), &mut rng);
        let network = model.network().clone();
        let graph = Engine::new(model, parameters).unwrap().graphs(&inputs).unwrap().remove(0);
        let training = training_network(&network, |_| true, |_| false).unwrap();
        let objective = Objective::new(training, graph, &mut rng);
        let mut point = objective.random_point(&mut rng);
        point.scale(0.1);
        let mut direction = objective.random_point(&mut rng);
        let elements = direction.parameters.iter().map(Vec::len).sum::<usize>();
        direction.scale((3.0 / elements as f64).sqrt());
        let expected = objective.difference(&point, &direction, 2e-3).expect("no kink");
        let got = objective.derivative(&point, &direction);
        let error = (expected - got).abs() / expected.abs().max(1e-3);
        assert!(error <= 1e-6, "{name:?}: expected {expected}, got {got}");
    }
}

#[test]
fn forward_calls_save_what_is_expensive_to_compute_again() {
    // By cell: the saved elements, as a multiple of H.
    type Saved = (Arc<Network>, Vec<(&'static str, usize)>);
    const H: usize = 8;
    let tree = TreeSizes { vocabulary: 9, embed: 5, hidden: H, classes: 3 };
    let lattice = LatticeSizes { chars: 9, words: 9, embed: 5, hidden: H, classes: 3 };
    let nmt = NmtSizes { source: 9, target: 9, embed: 5, hidden: H };
    let mv_rnn = MvRnnSizes { vocabulary: 9, hidden: H, classes: 3 };
    let networks: [Saved; 6] = [
        (
            TreeLstm::new(tree).unwrap().network().clone(),
            vec![("leaf", 3), ("node", 5), ("output", 0)],
        ),
        (
            TreeGru::new(TreeSizes { embed: H, ..tree }).unwrap().network().clone(),
            vec![("node", 6)],
        ),
        (MvRnn::new(mv_rnn).unwrap().network().clone(), vec![("node", 2)]),
        (LstmNmt::new(nmt).unwrap().network().clone(), vec![("encoder", 4), ("decoder", 4)]),
        (LatticeLstm::new(lattice).unwrap().network().clone(), vec![("char", 6), ("word", 6)]),
        (LatticeGru::new(lattice).unwrap().network().clone(), vec![("char", 4), ("word", 4)]),
    ];
    for (network, cells) in networks {
        let training = training_network(&network, |_| true, |_| false).unwrap();
        for (name, multiple) in cells {
            let cell = network.cells().iter().position(|cell| cell.name() == name).unwrap();
            let cell = &training.network.cells()[cell];
            let elements = |record| -> usize {
                training.network.fields(record).fields.iter().map(|f| f.shape.elements()).sum()
            };
            let saved = elements(cell.row()) - elements(cell.record());
            assert_eq!(saved, multiple * H, "{}", cell.display(&training.network));
        }
    }
}

#[test]
fn frozen_parameters_and_their_cells_have_no_gradients() {
    let sizes = TreeSizes { vocabulary: 9, embed: 5, hidden: 4, classes: 3 };
    let network = TreeLstm::new(sizes).unwrap().network().clone();
    let is_out = |id: ParameterId| network.parameter(id).name.starts_with("out.");
    let training = training_network(&network, is_out, |_| false).unwrap();
    let has_adjoint: Vec<bool> = training.adjoints.iter().map(Option::is_some).collect();
    assert_eq!(network.kind_names(), ["leaf", "node", "output"]);
    assert_eq!(has_adjoint, [false, false, true]);
    let output = training.adjoints[2].as_ref().unwrap();
    assert_eq!(output.contributions, [[None, None]]);
}

fn failure(examples: &[(SourceSentence, Vec<Option<u32>>)]) -> TrainError {
    let sizes = NmtSizes { source: 9, target: 9, embed: 3, hidden: 3 };
    let model = LstmNmt::new(sizes).unwrap();
    let mut rng = Random::seed_from_u64(1);
    let parameters = Parameters::random(model.network(), &mut rng);
    let pairs = examples.iter().map(|(input, targets)| (input, targets.as_slice()));
    interpret_gradients(&model, &parameters, pairs).unwrap_err()
}

#[test]
fn invalid_examples_are_errors_that_name_the_input() {
    let forced =
        |words: &[u32]| SourceSentence { words: vec![4], stop: Stop::Forced(words.into()) };
    let good = (forced(&[5, 6]), vec![Some(5), None, Some(2)]);
    let text = |bad| failure(&[good.clone(), bad]).to_string();
    assert_eq!(
        text((forced(&[5]), vec![Some(5)])),
        "input 1: expected a target or none for each of 2 emitted rows, got 1"
    );
    assert_eq!(
        text((forced(&[5]), vec![Some(5), Some(9)])),
        "input 1, row 1: expected a target below 9, got 9"
    );
    assert_eq!(
        text((SourceSentence { words: vec![4], stop: Stop::AtEnd }, vec![])),
        "input 1 awaits a computed value, which has no gradient: train translators with \
         Stop::Forced"
    );
    assert!(text((forced(&[99]), vec![None, None])).starts_with("input 1: call of decoder:"));
}

#[test]
fn translations_along_given_words_emit_a_row_for_each_word_and_the_end() {
    let sizes = NmtSizes { source: 9, target: 9, embed: 3, hidden: 3 };
    let model = LstmNmt::new(sizes).unwrap();
    let mut rng = Random::seed_from_u64(1);
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut engine = Engine::new(model, parameters).unwrap();
    let greedy = SourceSentence { words: vec![4, 5], stop: Stop::After(4) };
    let rows = engine.run(std::slice::from_ref(&greedy)).unwrap().remove(0);
    let words: Vec<u32> = rows.iter().map(edbatch::models::arg_max).collect();
    // Along its own translation, a translator computes the same scores.
    let stop = Stop::Forced(words[..3].into());
    let graphs = engine.statistics().graphs;
    let forced = engine.run(&[SourceSentence { stop, ..greedy }]).unwrap().remove(0);
    assert_eq!(forced, rows);
    assert_eq!(engine.statistics().graphs - graphs, 1, "nothing is awaited");
}

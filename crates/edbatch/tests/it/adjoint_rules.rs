//! The gradient of every operation against central differences.

use std::sync::Arc;

use edbatch_graph::{CellBuilder, Graph, Network, Shape, Tensor, Value, Values, training_network};
use edbatch_testing::networks::Random;
use rand::SeedableRng;

use crate::differences::{Objective, check};

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

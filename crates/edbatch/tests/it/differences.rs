//! Derivatives of random objectives by adjoint cells and by central differences.

use edbatch_graph::{Dag, Graph, NodeId, Shape, TrainingNetwork, Value};
use edbatch_runtime::{ReferenceTensor, interpret_as};
use edbatch_testing::networks::Random;
use rand::RngExt;

/// A graph with an objective: the sum of all elements of all nodes, each with a random factor.
pub(crate) struct Objective {
    training: TrainingNetwork,
    graph: Graph,
    factors: Vec<Vec<ReferenceTensor<f64>>>,
}

/// A point or a direction: parameters and given values.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) parameters: Vec<Vec<f64>>,
    given: Vec<Vec<ReferenceTensor<f64>>>,
}

impl Objective {
    pub(crate) fn new(training: TrainingNetwork, graph: Graph, rng: &mut Random) -> Self {
        let nodes = (0..graph.nodes()).map(|node| {
            let record = graph.network()[graph.kind(NodeId::new(node))].record();
            let fields = &graph.network().fields(record).fields;
            fields.iter().map(|field| random_tensor(field.shape, rng)).collect()
        });
        let factors = nodes.collect();
        Self { training, graph, factors }
    }

    /// Returns a random point; the given values that are parameters follow the parameters.
    pub(crate) fn random_point(&self, rng: &mut Random) -> Point {
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
    pub(crate) fn derivative(&self, point: &Point, direction: &Point) -> f64 {
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
    pub(crate) fn difference(&self, point: &Point, direction: &Point, step: f64) -> Option<f64> {
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
pub(crate) fn check(objective: &Objective, tolerance: f64, rng: &mut Random) -> bool {
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

impl Point {
    /// Multiplies all elements by a factor.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.parameters.iter_mut().flatten().for_each(|element| *element *= factor);
        self.given.iter_mut().flatten().flatten().for_each(|element| *element *= factor);
    }
}

//! Running one graph node by node.

use edbatch_graph::{Graph, Network, Source, Value};
use edbatch_runtime::{Parameters, Tensor, initial_values, interpret};

use crate::Rows;

/// Node by node.
pub(crate) struct Interpreted {
    parameters: Parameters,
    initial: Vec<Vec<Tensor>>,
    /// The wanted values of the graph that ran.
    results: Rows,
}

impl Interpreted {
    pub(crate) fn new(network: &Network, parameters: Parameters) -> Self {
        let initial = initial_values(network, &parameters);
        Self { parameters, initial, results: Rows::new() }
    }

    /// Runs a graph whose given values are the network's initial ones and then `carried`.
    pub(crate) fn run(&mut self, graph: &Graph, carried: &Rows, wanted: &[Value]) {
        let records = &graph.given()[self.initial.len()..];
        let carried = records.iter().zip(carried.iter()).map(|(&record, row)| {
            let mut rest = row;
            let shapes = graph.network().fields(record).fields.iter().map(|field| field.shape);
            shapes
                .map(|shape| {
                    let (elements, behind) = rest.split_at(shape.elements());
                    rest = behind;
                    Tensor::from_shape_vec(shape.rows_and_columns(), elements.to_vec())
                        .expect("as many elements as the shape has")
                })
                .collect()
        });
        let given: Vec<Vec<Tensor>> = self.initial.iter().cloned().chain(carried).collect();
        let nodes = interpret(graph, &self.parameters, &given);
        self.results.clear();
        for value in wanted {
            self.results.push(&flatten(match value.source() {
                Source::Node(node) => &nodes[node.index()],
                Source::Given(index) => &given[index],
            }));
        }
    }

    /// A wanted value of the graph that ran last, field after field.
    pub(crate) fn row(&self, wanted: usize) -> &[f32] {
        self.results.row(wanted)
    }

    /// The same on memory of its own.
    pub(crate) fn another(&self) -> Self {
        let (parameters, initial) = (self.parameters.clone(), self.initial.clone());
        Self { parameters, initial, results: Rows::new() }
    }
}

/// All elements of some tensors, one after the other.
pub(crate) fn flatten(tensors: &[Tensor]) -> Vec<f32> {
    tensors.iter().flatten().copied().collect()
}

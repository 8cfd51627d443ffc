//! Finds the first call of an input that produces a NaN or an infinity, and the cause.

use std::ops::Range;

use edbatch_graph::{Dag, Graph, NodeId, Op, ParameterId, Shape, Source};
use edbatch_runtime::{NotFinite, NotFiniteWeight, Parameters, ReferenceTensor};

use crate::{NotFiniteCall, NotFiniteCause};

/// Calls that have run, and the values that they read.
pub(crate) struct Calls<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) weights: &'a Parameters,
    /// The elements of the values that inputs gave in this round. They are the last of the graph's
    /// given values.
    pub(crate) host: &'a [f32],
    /// The fields of each node.
    pub(crate) nodes: &'a [Vec<ReferenceTensor>],
}

impl Calls<'_> {
    /// Returns the first of the calls `nodes` that produced a NaN or an infinity. All are calls of
    /// one input, which made `before` calls in earlier rounds.
    pub(crate) fn not_finite(
        &self,
        mut nodes: Range<usize>,
        before: usize,
    ) -> Option<Box<NotFiniteCall>> {
        let first = nodes.start;
        nodes.find_map(|node| {
            let mut fields = self.nodes[node].iter().enumerate();
            let (field, (element, value)) = fields.find_map(|(field, elements)| {
                Some((field, NotFinite::first(elements.iter().copied())?))
            })?;
            let (network, id) = (self.graph.network(), NodeId::new(node));
            let cell = &network[self.graph.kind(id)];
            let field = &network.fields(cell.record()).fields[field];
            Some(Box::new(NotFiniteCall {
                call: before + node - first,
                cell: cell.name().into(),
                field: field.name.clone(),
                index: match field.shape {
                    Shape::Vector(_) => vec![element],
                    Shape::Matrix(_, columns) => {
                        vec![element / columns as usize, element % columns as usize]
                    }
                },
                value,
                cause: self.cause(id),
            }))
        })
    }

    fn cause(&self, node: NodeId) -> NotFiniteCause {
        let (graph, network) = (self.graph, self.graph.network());
        let cell = &network[graph.kind(node)];
        let operations = cell.instructions().iter();
        let parameters = operations.filter_map(|instruction| match instruction.op {
            Op::Parameter(id) => self.weight(id, 0..self.weights.get(id).len()),
            _ => None,
        });
        let rows = cell.tables().iter().zip(graph.rows(node)).filter_map(|(table, &row)| {
            let parameter = table.parameter.filter(|_| row < table.rows)?;
            let width = self.weights.get(parameter).len() / table.rows as usize;
            self.weight(parameter, row as usize * width..(row as usize + 1) * width)
        });
        let given = graph.values(node).filter_map(|value| match value.source() {
            Source::Given(index) => self.given(index),
            Source::Node(_) => None,
        });
        let operations = cell.instructions().iter().enumerate();
        let constants = operations.filter_map(|(operation, instruction)| match instruction.op {
            Op::Constant(number) | Op::Scale(number) => NotFinite::first([number])
                .map(|(_, value)| NotFiniteCause::Constant { operation, value }),
            _ => None,
        });
        let causes = parameters.chain(rows).map(NotFiniteCause::Weight).chain(given);
        let mut causes = causes.chain(constants);
        causes.next().unwrap_or(NotFiniteCause::Operations)
    }

    fn weight(&self, id: ParameterId, elements: Range<usize>) -> Option<NotFiniteWeight> {
        self.weights.not_finite_within(id, elements)
    }

    /// Returns the cause if a given value is not finite. The network's initial values are weights.
    fn given(&self, index: usize) -> Option<NotFiniteCause> {
        let network = self.graph.network();
        if let Some(initial) = network.initial_values().get(index) {
            let weights = initial.parameters.iter();
            let mut weights =
                weights.filter_map(|&id| self.weight(id, 0..self.weights.get(id).len()));
            return weights.next().map(NotFiniteCause::Weight);
        }
        let elements = |&record| -> usize {
            network.fields(record).fields.iter().map(|field| field.shape.elements()).sum()
        };
        let after: usize = self.graph.given()[index + 1..].iter().map(elements).sum();
        // Values from an earlier graph were checked when they were computed.
        let end = self.host.len().checked_sub(after)?;
        let start = end.checked_sub(elements(&self.graph.given()[index]))?;
        NotFinite::first(self.host[start..end].iter().copied()).map(|_| NotFiniteCause::Given)
    }
}

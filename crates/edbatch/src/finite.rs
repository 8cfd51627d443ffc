//! Which call of an input makes something that is not finite, and why.
//!
//! A backend overwrites values that no later step reads, and a device keeps them to itself. Where
//! calls are to be looked at, the elements of all of them are wanted, so that every backend keeps
//! them and hands them out; their bits are the same.

use std::ops::Range;

use edbatch_graph::{Dag, Graph, NodeId, Op, ParameterId, Shape, Source, Value};
use edbatch_layout::Want;
use edbatch_runtime::{NotFinite, NotFiniteWeight, Parameters};

use crate::{InputError, NotFiniteCall, NotFiniteCause};

/// What is wanted, and behind it the elements of every call.
pub(crate) fn with_every_call(wanted: &[(Value, Want)], graph: &Graph) -> Vec<(Value, Want)> {
    let calls = (0..graph.nodes()).map(|node| (NodeId::new(node).into(), Want::Elements));
    wanted.iter().copied().chain(calls).collect()
}

/// Calls that have run, and what they read.
pub(crate) struct Calls<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) weights: &'a Parameters,
    /// The elements of the values that the caller gave, the last ones of the graph's given values.
    pub(crate) host: &'a [f32],
}

impl Calls<'_> {
    /// What is wrong with an input that made these calls, after so many `before`: the first with
    /// an element that is not finite. `fields` has the fields of a call.
    pub(crate) fn not_finite<F, E>(
        &self,
        mut nodes: Range<usize>,
        before: usize,
        fields: impl Fn(usize) -> F,
    ) -> Option<InputError>
    where
        F: Iterator<Item = E>,
        E: IntoIterator<Item = f32>,
    {
        let first = nodes.start;
        nodes.find_map(|node| {
            let mut fields = fields(node).enumerate();
            let (field, (element, value)) =
                fields.find_map(|(field, elements)| Some((field, NotFinite::first(elements)?)))?;
            let (network, id) = (self.graph.network(), NodeId::new(node));
            let cell = &network[self.graph.kind(id)];
            let field = &network.fields(cell.record()).fields[field];
            Some(InputError::NotFinite(Box::new(NotFiniteCall {
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
            })))
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
            let width = self.weights.get(table.parameter).len() / table.rows as usize;
            self.weight(table.parameter, row as usize * width..(row as usize + 1) * width)
        });
        let given = graph.values(node).filter_map(|value| match value.source() {
            Source::Given(index) => self.given(index),
            Source::Node(_) => None,
        });
        let mut causes = parameters.chain(rows).map(NotFiniteCause::Weight).chain(given);
        causes.next().unwrap_or(NotFiniteCause::Operations)
    }

    fn weight(&self, id: ParameterId, elements: Range<usize>) -> Option<NotFiniteWeight> {
        self.weights.not_finite_within(id, elements)
    }

    /// What is not finite in a given value: the network's own is made of weights.
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
        let behind: usize = self.graph.given()[index + 1..].iter().map(elements).sum();
        // What stayed from an earlier graph was looked at when it was made.
        let end = self.host.len().checked_sub(behind)?;
        let start = end.checked_sub(elements(&self.graph.given()[index]))?;
        NotFinite::first(self.host[start..end].iter().copied()).map(|_| NotFiniteCause::Given)
    }
}

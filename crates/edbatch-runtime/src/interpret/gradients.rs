//! Gradients by the reference interpreter: node by node, without plans and batches.

use std::collections::BTreeMap;

use edbatch_graph::{
    Adjoint, Dag, Graph, Kind, NodeId, ParameterSum, Source, TrainingNetwork, Value,
};
use ndarray::{Array2, NdFloat};

use super::{PortValues, ReferenceTensor, call, from_slice, interpret_as, ports};
use crate::Precision;

/// The gradients of a graph.
#[derive(Clone, PartialEq, Debug)]
pub struct ReferenceGradients<T> {
    /// For each parameter, the gradients of its elements, row-major. Zero if it is not trained.
    pub parameters: Vec<Vec<T>>,
    /// For each given value of the graph, the gradients of its fields; empty fields if they are not
    /// needed.
    pub given: Vec<Vec<ReferenceTensor<T>>>,
}

/// Computes the gradients of parameters and given values, node by node from last to first, by the
/// adjoint cells of `training`.
///
/// `outputs` are values of the graph with the gradients of their fields. `graph` belongs to the
/// network that `training` was derived from; `parameters` and `given` are as for [`interpret_as`].
///
/// # Panics
/// If `parameters`, `given` or `outputs` do not match the graph.
#[must_use]
pub fn interpret_gradients<T: NdFloat>(
    training: &TrainingNetwork,
    graph: &Graph,
    parameters: &[&[T]],
    given: &[Vec<ReferenceTensor<T>>],
    outputs: &[(Value, Vec<ReferenceTensor<T>>)],
) -> ReferenceGradients<T> {
    let network = &*training.network;
    let fields = |record| network.fields(record).fields.len();
    // By value and field, all terms of its gradient.
    let of_node = |node| vec![Vec::new(); fields(network[graph.kind(NodeId::new(node))].record())];
    let mut terms = Terms {
        nodes: (0..graph.nodes()).map(of_node).collect(),
        given: graph.given().iter().map(|&record| vec![Vec::new(); fields(record)]).collect(),
    };
    for (value, gradients) in outputs {
        for (field, gradient) in gradients.iter().enumerate() {
            terms.of(value.source())[field].push(gradient.clone());
        }
    }
    let forward = interpret_as(network, graph, parameters, given);
    let pass = BackwardPass { training, graph, parameters, given, forward };
    let mut sums: Vec<Vec<T>> =
        parameters.iter().map(|values| vec![T::zero(); values.len()]).collect();
    pass.sum(&pass.run(&mut terms), &mut sums);
    let given_gradients = terms.given.iter().zip(given).map(|(terms, record)| {
        terms.iter().zip(record).map(|(terms, value)| {
            terms.iter().fold(Array2::zeros(value.dim()), |sum: Array2<T>, term| sum + term)
        })
    });
    let given: Vec<Vec<_>> = given_gradients.map(Iterator::collect).collect();
    for (initial, gradients) in network.initial_values().iter().zip(&given) {
        for (parameter, gradient) in initial.parameters.iter().zip(gradients) {
            if training.trained[parameter.0 as usize] {
                add(&mut sums[parameter.0 as usize], gradient);
            }
        }
    }
    ReferenceGradients { parameters: sums, given }
}

/// The facts that all adjoint calls of a graph share.
struct BackwardPass<'a, T> {
    training: &'a TrainingNetwork,
    graph: &'a Graph,
    parameters: &'a [&'a [T]],
    given: &'a [Vec<ReferenceTensor<T>>],
    /// The result of each node.
    forward: Vec<Vec<ReferenceTensor<T>>>,
}

impl<T: NdFloat> BackwardPass<'_, T> {
    fn call(
        &self,
        cell: Kind,
        rows: &[u32],
        ports: &[PortValues<'_, T>],
    ) -> Vec<ReferenceTensor<T>> {
        call(&self.training.network[cell], (self.parameters, Precision::F32), rows, ports)
    }

    /// Runs the adjoints of all nodes whose gradients have terms, from last to first, and adds the
    /// terms that they contribute. Returns the result of each adjoint call, by node.
    fn run(&self, terms: &mut Terms<T>) -> Vec<Option<Vec<ReferenceTensor<T>>>> {
        let &Self { training, graph, given, ref forward, .. } = self;
        let mut backward = vec![None; graph.nodes()];
        for node in (0..graph.nodes()).rev().map(NodeId::new) {
            let gradients = std::mem::take(&mut terms.nodes[node.index()]);
            let Some(adjoint) = &training.adjoints[graph.kind(node).index()] else { continue };
            if gradients.iter().all(Vec::is_empty) {
                continue;
            }
            let cell = &training.network[graph.kind(node)];
            let mut ports = ports(cell, graph, node, forward, given);
            ports.push(vec![&forward[node.index()]]);
            let gradients = gradients.iter();
            ports.extend(gradients.map(|terms| terms.chunks(1).collect::<PortValues<'_, T>>()));
            let row = self.call(adjoint.cell, graph.rows(node), &ports);
            for (index, value) in graph.values(node).enumerate() {
                // All further values are at the last port, which takes any number of them.
                let last = adjoint.contributions.len() - 1;
                terms.add(value.source(), &adjoint.contributions[index.min(last)], &row);
                if let Some(pair) = adjoint.pair.as_ref().filter(|_| index >= last) {
                    let record = match value.source() {
                        Source::Node(node) => &forward[node.index()],
                        Source::Given(index) => &given[index],
                    };
                    let ports = [vec![&record[..]], vec![&row[..]]];
                    let row = self.call(pair.cell, &[], &ports);
                    terms.add(value.source(), &pair.contributions, &row);
                }
            }
            backward[node.index()] = Some(row);
        }
        backward
    }

    /// Adds the gradients of parameters to which adjoint calls contribute: call by call, then row
    /// by row of the tables.
    fn sum(&self, backward: &[Option<Vec<ReferenceTensor<T>>>], sums: &mut [Vec<T>]) {
        let mut rows: BTreeMap<(usize, usize, u32), Vec<ReferenceTensor<T>>> = BTreeMap::new();
        for (node, row) in backward.iter().enumerate() {
            let Some(row) = row else { continue };
            let node = NodeId::new(node);
            let kind = self.graph.kind(node).index();
            let adjoint = adjoint_of(self.training, kind);
            add_sums(&adjoint.sums, row, sums);
            for (table, &named) in self.graph.rows(node).iter().enumerate() {
                let Some(table_adjoint) = &adjoint.tables[table] else { continue };
                let fields = table_adjoint.fields.clone().map(|field| &row[usize::from(field)]);
                rows.entry((kind, table, named))
                    .and_modify(|sums| {
                        sums.iter_mut().zip(fields.clone()).for_each(|(s, f)| *s += f);
                    })
                    .or_insert_with(|| fields.cloned().collect());
            }
        }
        for ((kind, table, named), summed) in rows {
            let declared = &self.training.network.cells()[kind].tables()[table];
            let adjoint = adjoint_of(self.training, kind).tables[table].as_ref();
            let adjoint = adjoint.expect("it has sums");
            let row = match adjoint.cell {
                None => summed,
                Some(cell) => {
                    let row = self.call(cell, &[named], &[vec![&summed]]);
                    add_sums(&adjoint.sums, &row, sums);
                    row
                }
            };
            if let Some(field) = adjoint.row {
                let gradient = &row[usize::from(field)];
                let start = named as usize * gradient.len();
                let parameter = declared.parameter.expect("an index has no gradient");
                let of_table = &mut sums[parameter.0 as usize];
                add(&mut of_table[start..start + gradient.len()], gradient);
            }
        }
    }
}

fn adjoint_of(training: &TrainingNetwork, kind: usize) -> &Adjoint {
    training.adjoints[kind].as_ref().expect("an adjoint has run")
}

/// For each value and each of its fields, the terms of its gradient.
struct Terms<T> {
    nodes: Vec<Vec<Vec<ReferenceTensor<T>>>>,
    given: Vec<Vec<Vec<ReferenceTensor<T>>>>,
}

impl<T: Clone> Terms<T> {
    /// Adds the terms to which a call contributes, by the index of its field, to a value's.
    fn add(&mut self, to: Source, contributions: &[Option<u16>], row: &[ReferenceTensor<T>]) {
        for (terms, contribution) in self.of(to).iter_mut().zip(contributions) {
            terms.extend(contribution.map(|field| row[usize::from(field)].clone()));
        }
    }

    fn of(&mut self, source: Source) -> &mut Vec<Vec<ReferenceTensor<T>>> {
        match source {
            Source::Node(node) => &mut self.nodes[node.index()],
            Source::Given(index) => &mut self.given[index],
        }
    }
}

/// Adds what one call of an adjoint contributes to the gradients of parameters.
fn add_sums<T: NdFloat>(sums: &[ParameterSum], row: &[ReferenceTensor<T>], to: &mut [Vec<T>]) {
    for sum in sums {
        let of = &mut to[sum.parameter().0 as usize];
        match *sum {
            ParameterSum::Elements { from, .. } => add(of, &row[usize::from(from)]),
            ParameterSum::Products { delta, x, pairs, .. } => {
                // Row p of each matrix belongs to pair p.
                let pairs = |field: u16| {
                    let elements = row[usize::from(field)].iter().copied().collect::<Vec<T>>();
                    let width = elements.len() / pairs as usize;
                    from_slice((pairs as usize, width), &elements)
                };
                add(of, &pairs(delta).t().dot(&pairs(x)));
            }
        }
    }
}

fn add<T: NdFloat>(to: &mut [T], from: &Array2<T>) {
    assert_eq!(to.len(), from.len(), "a gradient has the shape of its parameter");
    to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
}

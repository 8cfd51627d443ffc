//! Replays one instance's graph of cell calls as calls of single operations.

use edbatch::models::{Build, BuildError};
use edbatch_graph::{Dag, Graph, NodeId, Source, Value};

use crate::measure::vanilla::explosion::{Operand, Recipe, Step};

/// The calls of operations that replace the calls of a graph.
pub(super) struct Calls {
    /// Fields of all given values, then of all nodes. Fields of value `v` start at `first[v]`.
    fields: Vec<Value>,
    first: Vec<usize>,
    given: usize,
}

impl Calls {
    pub(super) fn new(
        recipes: &[Recipe],
        build: &Build<'_>,
        graph: &Graph,
        given: &[Value],
    ) -> Result<Self, BuildError> {
        let mut calls = Self { fields: given.into(), first: vec![0], given: graph.given().len() };
        for &record in graph.given() {
            let fields = graph.network().fields(record).fields.len();
            calls.first.push(calls.first[calls.first.len() - 1] + fields);
        }
        let (mut results, mut many) = (Vec::new(), Vec::new());
        for node in (0..graph.nodes()).map(NodeId::new) {
            let recipe = &recipes[graph.kind(node).index()];
            results.clear();
            for step in &recipe.steps {
                let operand = |operand: &Operand| calls.operand(*operand, &results, graph, node);
                let result = match step {
                    Step::Lookup { kind, table } => {
                        build.call(*kind, &[graph.rows(node)[usize::from(*table)]], &[])?
                    }
                    Step::Reduce { kind, port, field } => {
                        many.clear();
                        let values = graph.values(node).skip(usize::from(*port));
                        many.extend(values.map(|v| calls.fields(v)[usize::from(*field)]));
                        match many[..] {
                            [single] => single,
                            _ => build.call(*kind, &[], &many)?,
                        }
                    }
                    Step::Apply { kind, operands } => {
                        many.clear();
                        many.extend(operands.iter().map(operand));
                        build.call(*kind, &[], &many)?
                    }
                };
                results.push(result);
            }
            for &output in &recipe.outputs {
                let value = calls.operand(output, &results, graph, node);
                calls.fields.push(value);
            }
            calls.first.push(calls.fields.len());
            debug_assert_eq!(calls.fields(node.into()).len(), recipe.fields);
        }
        Ok(calls)
    }

    fn operand(&self, operand: Operand, results: &[Value], graph: &Graph, node: NodeId) -> Value {
        match operand {
            Operand::Step(step) => results[step],
            Operand::Input { port, field } => {
                self.fields(graph.value(node, usize::from(port)))[usize::from(field)]
            }
        }
    }

    /// Returns the fields of a value of the graph.
    pub(super) fn fields(&self, value: Value) -> &[Value] {
        let index = match value.source() {
            Source::Given(index) => index,
            Source::Node(node) => self.given + node.index(),
        };
        &self.fields[self.first[index]..self.first[index + 1]]
    }
}

//! The simplest [`Dag`]: kinds, arguments, and the names of kinds; a cell as such a graph.

use std::collections::HashMap;
use std::fmt;

use crate::dag::check_node;
use crate::{Arguments, Cell, Dag, DagError, Instruction, Kind, NodeId, Var};

/// A DAG without a network: kinds and arguments in flat arrays. For tests of policies and for text
/// files.
///
/// ```
/// use edbatch_graph::{Kind, NodeId, PlainDag};
///
/// let mut dag = PlainDag::new(["leaf", "inner"]);
/// let a = dag.push(Kind(0), &[])?;
/// let b = dag.push(Kind(0), &[])?;
/// dag.push(Kind(1), &[a, b])?;
/// assert_eq!(dag.to_string(), "n0 = leaf()\nn1 = leaf()\nn2 = inner(n0, n1)\n");
/// # Ok::<(), edbatch_graph::DagError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlainDag {
    names: Vec<String>,
    kinds: Vec<Kind>,
    /// The arguments of node `v`: `arguments[first[v]..first[v + 1]]`.
    first: Vec<u32>,
    arguments: Vec<NodeId>,
}

impl PlainDag {
    /// Creates a graph without nodes, over kinds with these names.
    #[must_use]
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { names, kinds: Vec::new(), first: vec![0], arguments: Vec::new() }
    }

    /// Appends a node and returns its id.
    ///
    /// # Errors
    /// If the kind is unknown or an argument is not an earlier node.
    pub fn push(&mut self, kind: Kind, arguments: &[NodeId]) -> Result<NodeId, DagError> {
        let node = NodeId::new(self.kinds.len());
        check_node(node, kind, self.names.len(), arguments.iter().copied())?;
        self.kinds.push(kind);
        self.arguments.extend_from_slice(arguments);
        self.first.push(u32::try_from(self.arguments.len()).expect("fewer than 2^32 edges"));
        Ok(node)
    }

    /// Returns the names of the kinds.
    #[must_use]
    pub fn kind_names(&self) -> &[String] {
        &self.names
    }
}

impl Dag for PlainDag {
    fn nodes(&self) -> usize {
        self.kinds.len()
    }

    fn kinds(&self) -> usize {
        self.names.len()
    }

    #[inline]
    fn kind(&self, node: NodeId) -> Kind {
        self.kinds[node.index()]
    }

    #[inline]
    fn arguments(&self, node: NodeId) -> Arguments<'_> {
        let (start, end) = (self.first[node.index()], self.first[node.index() + 1]);
        Arguments::of_nodes(&self.arguments, start as usize, end as usize)
    }
}

impl fmt::Display for PlainDag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for v in 0..self.nodes() {
            let node = NodeId::new(v);
            write!(f, "{node} = {}(", self.names[self.kind(node).index()])?;
            for (i, argument) in self.arguments(node).enumerate() {
                write!(f, "{}{argument}", if i == 0 { "" } else { ", " })?;
            }
            writeln!(f, ")")?;
        }
        Ok(())
    }
}

impl Cell {
    /// Returns the operations as a graph for batching policies, and the variable of each node.
    ///
    /// [Sources](crate::Op::is_source), such as inputs and parameters, are not nodes, because
    /// policies need not schedule them. Operations with the same name and shapes have the same
    /// kind.
    #[must_use]
    pub fn dag(&self) -> (PlainDag, Vec<Var>) {
        let mut names: Vec<String> = Vec::new();
        let mut kind_of: HashMap<String, usize> = HashMap::new();
        let mut node_of = vec![None; self.instructions().len()];
        let mut nodes = Vec::new();
        for (v, instruction) in self.instructions().iter().enumerate() {
            if instruction.op.is_source() {
                continue;
            }
            let name = self.signature(instruction);
            let kind = *kind_of.entry(name.clone()).or_insert(names.len());
            if kind == names.len() {
                names.push(name);
            }
            let arguments: Vec<NodeId> = instruction
                .operands
                .iter()
                .filter_map(|operand| node_of[operand.index()])
                .collect();
            node_of[v] = Some(NodeId::new(nodes.len()));
            nodes.push((Kind::new(kind), arguments, Var(v as u32)));
        }
        let mut dag = PlainDag::new(names);
        let mut vars = Vec::with_capacity(nodes.len());
        for (kind, arguments, var) in nodes {
            dag.push(kind, &arguments).expect("operands precede their readers");
            vars.push(var);
        }
        (dag, vars)
    }

    /// Names an operation and the shapes of its operands: `matmul [64, 32] [32]`.
    fn signature(&self, instruction: &Instruction) -> String {
        let mut name = instruction.op.to_string();
        for operand in &instruction.operands {
            name.push_str(&format!(" {}", self.instruction(*operand).shape));
        }
        name
    }
}

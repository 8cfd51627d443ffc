//! Live memory: the least that a schedule must hold, values that are still to be read or returned.

use edbatch_graph::{Cell, Dag, Graph, NodeId, Op, RecordId, Schedule, Source, Value};

/// The bytes of all values that exist at the worst point of a schedule.
///
/// A value is one field of what a node makes. It exists from the batch that makes it to the last
/// batch that reads it, both included, or to the end if it is `wanted`. Initial values are weights
/// and do not count; values carried over from an earlier graph exist from the start.
///
/// *Cost*: O(nodes + edges).
#[must_use]
pub fn live_bytes(graph: &Graph, schedule: &Schedule, wanted: &[Value]) -> u64 {
    let fields_read: Vec<_> = graph.network().cells().iter().map(fields_read).collect();
    let mut lives = Lives::new(graph);
    for (now, batch) in schedule.batches().enumerate() {
        for &node in batch.nodes {
            lives.begin(node, now);
            let ports = &fields_read[batch.kind.index()];
            for (position, value) in graph.values(node).enumerate() {
                // A port of any number of values is the last one: all further values are its.
                for &field in &ports[position.min(ports.len() - 1)] {
                    lives.extend(value, field, now);
                }
            }
        }
    }
    for &value in wanted {
        let record = graph.record_of(value).expect("a wanted value is one of the graph's");
        for field in 0..graph.network().fields(record).fields.len() {
            lives.extend(value, field, schedule.len());
        }
    }
    lives.worst(schedule.len())
}

/// For each port of a cell: the fields that its equations use.
fn fields_read(cell: &Cell) -> Vec<Vec<usize>> {
    let mut used = vec![false; cell.instructions().len()];
    let operands = cell.instructions().iter().flat_map(|instruction| &instruction.operands);
    for var in operands.chain(cell.outputs()) {
        used[var.index()] = true;
    }
    let mut ports = vec![Vec::new(); cell.ports().len()];
    for (instruction, _) in cell.instructions().iter().zip(used).filter(|(_, used)| *used) {
        if let Op::Input { port, field } | Op::Reduce { port, field, .. } = instruction.op {
            ports[usize::from(port)].push(usize::from(field));
        }
    }
    ports
}

/// From when to when each value exists.
struct Lives {
    /// The lives of given value `g` begin at `first[g]`, those of node `v` at `first[given + v]`.
    first: Vec<usize>,
    given: usize,
    lives: Vec<Life>,
}

#[derive(Clone, Copy)]
struct Life {
    from: usize,
    to: usize,
    bytes: u64,
}

impl Lives {
    fn new(graph: &Graph) -> Self {
        let network = graph.network();
        let weights = network.initial_values().len();
        let nodes = (0..graph.nodes()).map(|node| network[graph.kind(NodeId::new(node))].record());
        let records = graph.given().iter().copied().chain(nodes);
        let (mut first, mut lives) = (Vec::new(), Vec::new());
        for (index, record) in records.enumerate() {
            first.push(lives.len());
            for bytes in field_bytes(graph, record) {
                // Initial values come first among the given ones; they are weights.
                let bytes = if index < weights { 0 } else { bytes };
                lives.push(Life { from: 0, to: 0, bytes });
            }
        }
        first.push(lives.len());
        Self { first, given: graph.given().len(), lives }
    }

    /// A node runs.
    fn begin(&mut self, node: NodeId, now: usize) {
        let index = self.given + node.index();
        for life in &mut self.lives[self.first[index]..self.first[index + 1]] {
            (life.from, life.to) = (now, now);
        }
    }

    /// A value is read.
    fn extend(&mut self, value: Value, field: usize, now: usize) {
        let index = match value.source() {
            Source::Given(index) => index,
            Source::Node(node) => self.given + node.index(),
        };
        let life = &mut self.lives[self.first[index] + field];
        life.to = life.to.max(now);
    }

    fn worst(&self, batches: usize) -> u64 {
        // Sums of differences: what begins at a time, and what has ended by then.
        let mut begun = vec![0; batches + 2];
        let mut ended = vec![0; batches + 2];
        for life in &self.lives {
            begun[life.from] += life.bytes;
            ended[life.to + 1] += life.bytes;
        }
        let mut live = 0;
        let at = begun.iter().zip(&ended).map(|(begun, ended)| {
            live = live + begun - ended;
            live
        });
        at.max().unwrap_or(0)
    }
}

fn field_bytes(graph: &Graph, record: RecordId) -> impl Iterator<Item = u64> + '_ {
    let fields = &graph.network().fields(record).fields;
    fields.iter().map(|field| (field.shape.elements() * size_of::<f32>()) as u64)
}

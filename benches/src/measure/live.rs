//! Live memory: the bytes of values still to be read or returned, which every plan must hold.

use edbatch_graph::{Cell, Dag, Graph, NodeId, Op, Schedule, Source, Value};

/// Returns the maximum of the bytes of live values over all batches of a schedule.
///
/// A value is one field of a node's output. It is live from the batch that computes it to the last
/// batch that reads it, both included, or to the end if it is `wanted`. Initial values are weights
/// and are not counted. Values carried over from an earlier graph are live from the start.
///
/// *Cost*: O(nodes + edges).
pub fn live_bytes(graph: &Graph, schedule: &Schedule, wanted: &[Value]) -> u64 {
    let (network, given) = (graph.network(), graph.given().len());
    let fields_read: Vec<_> = network.cells().iter().map(fields_read).collect();
    let nodes = (0..graph.nodes()).map(|node| network[graph.kind(NodeId::new(node))].record());
    let records = graph.given().iter().copied().chain(nodes);
    let values: Vec<_> = records.map(|record| &network.fields(record).fields).collect();
    let index = |value: Value| match value.source() {
        Source::Given(index) => index,
        Source::Node(node) => given + node.index(),
    };
    // The first and the last batch of each field of each value.
    let mut lives: Vec<Vec<_>> = values.iter().map(|fields| vec![(0, 0); fields.len()]).collect();
    for (now, batch) in schedule.batches().enumerate() {
        let ports = &fields_read[batch.kind.index()];
        for &node in batch.nodes {
            lives[given + node.index()].fill((now, now));
            for (position, value) in graph.values(node).enumerate() {
                // All further values belong to the last port, which takes any number.
                for &field in &ports[position.min(ports.len() - 1)] {
                    lives[index(value)][field].1 = now;
                }
            }
        }
    }
    for &value in wanted {
        lives[index(value)].iter_mut().for_each(|life| life.1 = schedule.len());
    }
    // Prefix sums over the bytes that become live or dead at each time.
    let (mut begun, mut ended) = (vec![0; schedule.len() + 2], vec![0; schedule.len() + 2]);
    // Initial values come first; they are weights.
    for (fields, lives) in values.iter().zip(&lives).skip(network.initial_values().len()) {
        for (field, &(from, to)) in fields.iter().zip(lives) {
            let bytes = (field.shape.elements() * size_of::<f32>()) as u64;
            begun[from] += bytes;
            ended[to + 1] += bytes;
        }
    }
    let mut live = 0;
    let at = begun.iter().zip(&ended).map(|(begun, ended)| {
        live = live + begun - ended;
        live
    });
    at.max().unwrap_or(0)
}

/// Returns the fields that the equations of a cell use, for each port.
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

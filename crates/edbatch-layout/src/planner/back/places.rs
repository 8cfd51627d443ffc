//! The places of gradients in the rows of adjoint calls, as a table: planning looks up two of them
//! for each edge of the graph.

use std::ops::Range;

use edbatch_graph::{Graph, Kind, NodeId, Value};

use crate::program::Program;

/// For each field of each port of each cell: the place of its gradient.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// By kind: its ports.
    ports_of: Vec<Range<u32>>,
    /// By port: its first field in `fields`, or `None` if calls do not contribute to its gradient.
    ports: Vec<Option<u32>>,
    fields: Vec<Option<Place>>,
}

/// The place of a gradient.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// At this offset in the row of the adjoint call.
    Own(u32),
    /// At an offset in the row of the call of the pair cell. Successive values at the last port
    /// have rows at the distance `stride`.
    Pair { offset: u32, stride: u32 },
}

impl Places {
    /// Makes the table of a program for training.
    pub(super) fn find(&mut self, program: &Program) {
        let Self { ports_of, ports, fields } = self;
        ports_of.clear();
        ports.clear();
        fields.clear();
        let offset = |cell: Kind, field: u16| {
            program.record(program.network()[cell].record()).offsets[usize::from(field)]
        };
        for kind in 0..program.training().map_or(0, |training| training.adjoints.len()) {
            let first = ports.len() as u32;
            if let Some(adjoint) = program.adjoint(Kind::new(kind)) {
                for (port, of_fields) in adjoint.contributions.iter().enumerate() {
                    ports.push(adjoint.contributes(port).then_some(fields.len() as u32));
                    let is_last = port + 1 == adjoint.contributions.len();
                    let pair = adjoint.pair.as_ref().filter(|_| is_last);
                    fields.extend(of_fields.iter().enumerate().map(|(field, own)| {
                        let own = || own.map(|own| Place::Own(offset(adjoint.cell, own)));
                        let of_pair = pair.and_then(|pair| {
                            let offset = offset(pair.cell, pair.contributions[field]?);
                            let stride = program.signature(pair.cell).stride;
                            Some(Place::Pair { offset, stride })
                        });
                        of_pair.or_else(own)
                    }));
                }
            }
            ports_of.push(first..ports.len() as u32);
        }
    }

    /// Returns the values to whose gradients a call contributes, with the index of each among the
    /// call's arguments.
    pub(super) fn contributions<'a>(
        &'a self,
        graph: &'a Graph,
        node: NodeId,
        kind: Kind,
    ) -> impl Iterator<Item = (Value, u32)> {
        let values = graph.values(node).zip(0..);
        values.filter(move |&(_, argument)| self.port(kind, argument).0.is_some())
    }

    /// Returns the place of the gradient of a field that an argument of a call of this kind has,
    /// and the index of the argument among those at its port.
    pub(super) fn at(&self, kind: Kind, argument: u32, field: u16) -> Option<(Place, u32)> {
        let (first, index) = self.port(kind, argument);
        Some((self.fields[first? as usize + usize::from(field)]?, index))
    }

    /// Returns the first field of an argument's port, and the index of the argument at the port.
    fn port(&self, kind: Kind, argument: u32) -> (Option<u32>, u32) {
        let ports = &self.ports_of[kind.index()];
        // All further values are at the last port, which takes any number of them.
        let port = (ports.start + argument).min(ports.end - 1);
        (self.ports[port as usize], ports.start + argument - port)
    }
}

//! A graph of a network, for tests of backends.

use std::sync::Arc;

use edbatch_graph::{Dag, Graph, Network, NodeId, Schedule, Value};
use edbatch_layout::{CellStyle, MiniBatch, Plan, Planner, Program, Want, check};
use edbatch_policy::{Agenda, AnyPolicy, ByDepth, Critical, Depth, Scheduler, Sufficient};
use edbatch_runtime::{Backend, BackendError, Given, Parameters, Part, Rows, initial_rows};
use rand::SeedableRng;

use crate::networks::{Random, random_graph, random_network};

/// A network with random parameters, a graph of it, and a schedule by depth.
pub struct Subject {
    /// The network.
    pub network: Arc<Network>,
    /// The network's parameters.
    pub parameters: Parameters,
    /// A graph of the network.
    pub graph: Graph,
    /// A schedule of the graph.
    pub schedule: Schedule,
    /// The network's initial values.
    pub initial: Rows,
}

impl Subject {
    /// Creates a random network and a random graph of it.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Random::seed_from_u64(seed);
        let (network, initial) = random_network(&mut rng);
        let network = Arc::new(network);
        let graph = random_graph(&network, initial, &mut rng);
        Self::of(network, graph, &mut rng)
    }

    /// Creates random parameters and a schedule for a graph of a network.
    #[must_use]
    pub fn of(network: Arc<Network>, graph: Graph, rng: &mut Random) -> Self {
        let parameters = Parameters::random(&network, rng);
        let mut schedule = Schedule::new();
        Scheduler::by_depth().schedule(&graph, &mut schedule);
        let initial = initial_rows(&network, &parameters);
        Self { network, parameters, graph, schedule, initial }
    }

    /// Returns the bits of all fields of all nodes, computed by a backend. All NaN have the same
    /// bits.
    ///
    /// # Errors
    /// If the backend fails to run the plan.
    pub fn run(
        &self,
        program: &Program,
        backend: &mut dyn Backend,
    ) -> Result<Vec<u32>, BackendError> {
        let wanted = every_value(&self.graph);
        let plan = self.plan(program, backend, &wanted);
        let given = Given { initial: &self.initial, places: &[], host: &[] };
        backend.run(&[Part { slot: 0, plan: &plan, given }])?;
        let outputs = backend.outputs(0, &plan);
        let fields = (0..wanted.len()).flat_map(|value| outputs.fields(value));
        let bits = |&x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        Ok(fields.flatten().map(bits).collect())
    }

    /// Plans the graph for a backend.
    ///
    /// # Panics
    /// If the graph is too large.
    #[must_use]
    pub fn plan(&self, program: &Program, backend: &dyn Backend, wanted: &[(Value, Want)]) -> Plan {
        let (graph, schedule) = (&self.graph, &self.schedule);
        let mini_batch = MiniBatch { program, graph, schedule, wanted };
        planned(&mut Planner::new(backend.lifetimes()), &mini_batch)
    }
}

/// All styles of cells.
pub const STYLES: [CellStyle; 5] = [
    CellStyle::Hoisted,
    CellStyle::Planned,
    CellStyle::Paper,
    CellStyle::Batched,
    CellStyle::Declaration,
];

/// Returns the policies that need no training and search nothing, by name.
#[must_use]
pub fn policies() -> [(&'static str, AnyPolicy); 5] {
    [
        ("depth", Box::new(Depth::new())),
        ("agenda", Box::new(Agenda::new())),
        ("sufficient", Box::new(Sufficient::new())),
        ("critical", Box::new(Critical::new())),
        ("by depth", Box::new(ByDepth::default())),
    ]
}

/// Returns the elements of all nodes of a graph as wanted values.
#[must_use]
pub fn every_value(graph: &Graph) -> Vec<(Value, Want)> {
    (0..graph.nodes()).map(|node| (NodeId::new(node).into(), Want::Elements)).collect()
}

/// Returns a checked plan.
///
/// # Panics
/// If the graph is too large, or the plan is wrong.
#[must_use]
pub fn planned(planner: &mut Planner, mini_batch: &MiniBatch<'_>) -> Plan {
    let mut plan = Plan::default();
    planner.plan(mini_batch, &mut plan).expect("graphs of tests are small");
    check(&plan, mini_batch).expect("a legal plan");
    plan
}

//! Valid plans to mutate: of random networks, and of the zoo's models on the small goldens.

use std::path::Path;
use std::sync::Arc;

use edbatch::Engine;
use edbatch::models::{Folder, Model, ModelName};
use edbatch_graph::{Dag, Graph, NodeId, Schedule, Value};
use edbatch_layout::{CellStyle, MiniBatch, Plan, Planner, Program, Want, check};
use edbatch_policy::{Agenda, Critical, Policy, schedule};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Given, Parameters, Part, Precision, Rows};
use rand::SeedableRng;

use super::networks::{Random, random_graph, random_network, with_second_lookups};

/// A mini-batch that can be planned and run.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) program: Arc<Program>,
    pub(crate) graph: Graph,
    pub(crate) schedule: Schedule,
    pub(crate) parameters: Parameters,
    /// The maximum number of table rows that a prologue step computes.
    pub(crate) block: u32,
}

impl Subject {
    /// A random network, and calls of its cells. The seed also selects the style and the policy.
    pub(crate) fn random(seed: u64) -> Self {
        let mut rng = Random::seed_from_u64(seed);
        let (network, initial) = random_network(&mut rng);
        let network = with_second_lookups(&network, &mut Random::seed_from_u64(seed));
        let network = Arc::new(network);
        let parameters = Parameters::random(&network, &mut rng);
        let graph = random_graph(&network, initial, &mut rng);
        let style = [CellStyle::Hoisted, CellStyle::Planned, CellStyle::Hoisted][seed as usize % 3];
        Self::new(format!("random network {seed}"), graph, parameters, style, seed)
    }

    /// For every model of the zoo, the first graph of `inputs` inputs of its small goldens.
    pub(crate) fn zoo(inputs: usize) -> impl Iterator<Item = Self> {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens-small");
        ModelName::ALL.into_iter().enumerate().map(move |(index, name)| {
            let folder = Folder::read(goldens.join(name.name())).unwrap();
            let model = folder.model().unwrap();
            let weights = std::fs::read(folder.weights()).unwrap();
            let parameters = Parameters::from_safetensors(model.network(), &weights).unwrap();
            let read = folder.inputs(&folder.input()).unwrap().take(inputs);
            let read: Vec<_> = read.map(Result::unwrap).collect();
            let mut engine = Engine::new(model, parameters.clone()).unwrap();
            let graph = engine.graphs(&read).unwrap().remove(0);
            Self::new(name.name().into(), graph, parameters, CellStyle::Hoisted, index as u64)
        })
    }

    fn new(
        name: String,
        graph: Graph,
        parameters: Parameters,
        style: CellStyle,
        seed: u64,
    ) -> Self {
        let mut policy: Box<dyn Policy> = if seed.is_multiple_of(2) {
            Box::new(Critical::new())
        } else {
            Box::new(Agenda::new())
        };
        let schedule = schedule(&graph, &mut policy);
        // Fold no table, about half of the tables, or all.
        let folded = [0, 4000, u64::MAX][seed as usize / 3 % 3];
        let program = Program::new(graph.network().clone(), style).unwrap().fold_tables(folded);
        let program = Arc::new(program);
        let block = [1, 2, 256][seed as usize % 3];
        Self { name, program, graph, schedule, parameters, block }
    }

    /// The values of all nodes.
    pub(crate) fn all(&self) -> Vec<(Value, Want)> {
        let nodes = (0..self.graph.nodes()).map(NodeId::new);
        nodes.map(|node| (node.into(), Want::Elements)).collect()
    }

    pub(crate) fn mini_batch<'a>(&'a self, wanted: &'a [(Value, Want)]) -> MiniBatch<'a> {
        let Self { program, graph, schedule, .. } = self;
        MiniBatch { program, graph, schedule, wanted }
    }

    /// Plans the mini-batch, and checks the plan.
    pub(crate) fn plan(&self, wanted: &[(Value, Want)]) -> Plan {
        let mut plan = Plan::default();
        let mini_batch = self.mini_batch(wanted);
        let mut planner = Planner::default().block(self.block);
        planner.plan(&mini_batch, &mut plan).unwrap();
        check(&plan, &mini_batch).unwrap();
        plan
    }

    pub(crate) fn backend(&self) -> Cpu {
        Cpu::new(self.program.clone(), &self.parameters, Level::detect(), Precision::F32).unwrap()
    }

    /// Runs a plan, and returns the bits of all wanted values.
    pub(crate) fn run(&self, backend: &mut Cpu, plan: &Plan) -> Vec<u32> {
        let mut initial = Rows::new();
        for (index, &record) in self.graph.given().iter().enumerate() {
            let widths = &self.program.record(record).widths;
            initial.push_with(|row| {
                for (field, &width) in widths.iter().enumerate() {
                    let number = |i| ((index * 7 + field * 3) as f32 - i as f32) / 16.0;
                    row.extend((0..width).map(number));
                }
            });
        }
        backend
            .run(&[Part {
                slot: 0,
                plan,
                given: Given { initial: &initial, places: &[], host: &[] },
            }])
            .unwrap();
        let outputs = backend.outputs(0, plan);
        let fields = (0..plan.wanted.len()).flat_map(|value| outputs.fields(value));
        fields.flatten().map(|element| element.to_bits()).collect()
    }
}

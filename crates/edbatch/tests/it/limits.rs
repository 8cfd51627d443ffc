//! Limits of 32-bit indices: just below, plans succeed; just above, errors name the limit and say
//! what to do. The tests only plan and count, so they need no memory of that size.

use std::sync::Arc;

use edbatch::models::{Build, CallList, CallLists};
use edbatch::{Engine, EngineOptions, RunError, Trainer};
use edbatch_graph::{Dag, Graph, Kind, Network, NodeId, RecordId, Schedule, Shape, Value};
use edbatch_layout::{
    Addressed, ArenaTooLarge, CellStyle, Lifetimes, MiniBatch, Plan, Planner, Program, TooLarge,
    Want,
};
use edbatch_runtime::{Backend, Count, Given, Part, Rows};
use edbatch_testing::every_value;

use crate::fn_model::{FnModel, random};

/// Elements of a large record. Sixteen of these records exceed the limit by one element.
const LARGE: u32 = 1 << 28;
/// Elements that remain below the limit after fifteen large records, in whole cache lines.
const REST: u32 = LARGE - 16;
const LIMIT: u64 = 1 << 32;

/// A network with a cell for a large record, and a cell for the remaining elements.
struct Huge {
    network: Arc<Network>,
    record: RecordId,
    large: Kind,
    rest: Kind,
}

impl Huge {
    fn new() -> Self {
        let mut network = Network::new();
        let mut cell = |name: &str, elements| {
            let shape = Shape::Vector(elements);
            let record = network.record(name, [("x", shape)]).unwrap();
            (record, network.cell(name, record, |cell| vec![cell.constant(0.5, shape)]).unwrap())
        };
        let (record, large) = cell("large", LARGE);
        let (_, rest) = cell("rest", REST);
        Self { network: Arc::new(network), record, large, rest }
    }

    fn program(&self) -> Arc<Program> {
        Arc::new(Program::new(self.network.clone(), CellStyle::default()).unwrap())
    }
}

/// Plans calls, in batches of at most `width` calls of one kind. `wanted` returns the wanted
/// values.
fn planned(
    planner: &mut Planner,
    program: &Program,
    calls: &[Kind],
    (width, wanted): (usize, impl Fn(&Graph) -> Vec<(Value, Want)>),
) -> Result<Plan, ArenaTooLarge> {
    let mut graph = Graph::new(program.network().clone());
    calls.iter().for_each(|&kind| _ = graph.call(kind, &[], &[]).unwrap());
    let mut schedule = Schedule::new();
    let nodes: Vec<NodeId> = (0..graph.nodes()).map(NodeId::new).collect();
    for same in nodes.chunk_by(|&a, &b| graph.kind(a) == graph.kind(b)) {
        same.chunks(width).for_each(|nodes| schedule.push(graph.kind(nodes[0]), nodes));
    }
    let wanted = wanted(&graph);
    let mini_batch = MiniBatch { program, graph: &graph, schedule: &schedule, wanted: &wanted };
    let mut plan = Plan::default();
    planner.plan(&mini_batch, &mut plan)?;
    Ok(plan)
}

/// Checks that batches write disjoint rows within the arena. `check` would allocate memory of the
/// size of the arena.
fn disjoint(program: &Program, plan: &Plan) {
    let mut end = 0;
    let mut spans: Vec<_> = plan
        .steps
        .iter()
        .map(|step| {
            let stride = program.cell(step.cell).output_stride;
            (u64::from(step.out), u64::from(step.calls) * u64::from(stride))
        })
        .collect();
    spans.sort_unstable();
    for (start, len) in spans {
        assert!(start >= end, "@{start} overlaps the rows before @{end}");
        end = start + len;
    }
    assert_eq!(end, plan.arena as u64);
}

#[test]
fn the_arena_is_limited_to_32_bits() {
    let huge = Huge::new();
    let program = huge.program();
    let below = [&[huge.large; 15][..], &[huge.rest]].concat();
    for lifetimes in [Lifetimes::Reuse, Lifetimes::Distinct] {
        for width in [1, 4, 16] {
            let plan =
                planned(&mut Planner::new(lifetimes), &program, &below, (width, every_value))
                    .unwrap();
            assert_eq!(plan.arena as u64, LIMIT - 16);
            disjoint(&program, &plan);
            let mut count = Count::new(program.clone());
            let given = Given { initial: &Rows::new(), places: &[], host: &[] };
            count.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
            assert_eq!(count.counts().written_bytes, 4 * (LIMIT - 16));

            let error = planned(
                &mut Planner::new(lifetimes),
                &program,
                &[huge.large; 16],
                (width, every_value),
            );
            let error = error.unwrap_err();
            assert_eq!(error, ArenaTooLarge { elements: LIMIT, what: Addressed::Values });
            assert_eq!(
                error.to_string(),
                "the mini-batch needs at least 17179 MB for its values, expected below 17179 MB, \
                 which are 2^32 elements: make mini-batches smaller"
            );
        }
    }
    // Rows that no later step reads are reused.
    let none = |_: &Graph| Vec::new();
    let plan = planned(&mut Planner::default(), &program, &[huge.large; 100], (1, none)).unwrap();
    assert_eq!(plan.arena, LARGE as usize);
}

#[test]
fn given_values_count_for_the_arena() {
    let huge = Huge::new();
    let program = huge.program();
    for (values, fits) in [(15, true), (16, false), (17, false)] {
        let mut graph = Graph::new(huge.network.clone());
        (0..values).for_each(|_| _ = graph.give(huge.record));
        let (schedule, wanted) = (Schedule::new(), []);
        let mini_batch =
            MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
        let planned = Planner::default().plan(&mini_batch, &mut Plan::default());
        assert_eq!(planned.is_ok(), fits, "{values} given values");
    }
}

#[test]
fn an_engine_checks_the_limit_before_allocation() {
    let huge = Huge::new();
    let program = huge.program();
    let parameters = random(&huge.network, 1);
    // The input is the number of large values that it emits.
    let model = FnModel::new(huge.network, |build: &Build<'_>, count: &usize| {
        for _ in 0..*count {
            build.emit(build.call(huge.large, &[], &[])?);
        }
        Ok(())
    });
    let count = Box::new(Count::new(program.clone()));
    let options = EngineOptions::new;
    let counting =
        Engine::with_backend(model.clone(), &parameters, program, count, options()).unwrap();
    let on_cpu = Engine::with_options(model, parameters, options()).unwrap();
    for mut engine in [counting, on_cpu] {
        let error = engine.run(&[9, 0, 7]).unwrap_err();
        assert!(matches!(error, RunError::Arena(_)), "{error}");
        assert!(error.to_string().ends_with("2^32 elements: make mini-batches smaller"), "{error}");
        assert!(engine.run(&[0]).is_ok(), "the engine remains usable");
    }
}

/// Compiles a network.
fn compiled(declare: impl FnOnce(&mut Network)) -> Result<Program, TooLarge> {
    let mut network = Network::new();
    declare(&mut network);
    Program::new(Arc::new(network), CellStyle::default())
}

#[test]
fn cells_tables_and_records_have_limits() {
    let cell = |elements| {
        compiled(|network| {
            let shape = Shape::Vector(elements);
            let record = network.record("r", [("x", shape)]).unwrap();
            network.cell("c", record, |cell| vec![cell.constant(1.0, shape)]).unwrap();
        })
    };
    // Three vectors of `max` elements, each with a cache line of padding, are below 2³¹.
    let max = ((1_u64 << 31) - 1) / 3 - 16;
    assert!(cell(max as u32).is_ok());
    let error = cell(max as u32 + 1).unwrap_err();
    assert!(error.elements >= 1 << 31 && error.what == "cell c", "{error}");

    let table = |dims: [usize; 2]| {
        compiled(|network| {
            let record = network.record("r", [("x", Shape::Vector(dims[1] as u32))]).unwrap();
            network.cell("c", record, |cell| vec![cell.lookup("t", "embed", &dims)]).unwrap();
        })
    };
    assert!(table([65_537, 65_535]).is_ok(), "2^32 - 1 elements");
    let error = table([65_536, 65_536]).unwrap_err();
    assert_eq!((error.what.as_str(), error.elements as u64), ("table embed", LIMIT));
    assert!(
        error.to_string().contains("expected fewer than 2^32 for a table or a record"),
        "{error}"
    );

    let record = |last| {
        compiled(|network| {
            let shapes = [(1 << 31) - 16, (1 << 31) - 16, last];
            let fields = ["a", "b", "c"].into_iter().zip(shapes.map(Shape::Vector));
            network.record("r", fields).unwrap();
        })
    };
    assert!(record(16).is_ok(), "2^32 - 16 elements");
    let error = record(17).unwrap_err();
    assert_eq!((error.what.as_str(), error.elements as u64), ("record r", LIMIT));
}

#[test]
fn folded_tables_are_limited_to_32_bits() {
    let folded = |rows: usize| {
        let program = compiled(|network| {
            let record = network.record("r", [("x", Shape::Vector(4))]).unwrap();
            let cell = network.cell("c", record, |cell| {
                let [h] = cell.one("h", record);
                let x = cell.lookup("t", "embed", &[rows, 1]);
                let product = cell.parameter("w", &[4, 1]).matmul(x);
                vec![(product + cell.parameter("u", &[4, 4]).matmul(h)).tanh()]
            });
            cell.unwrap();
        });
        program.unwrap().fold_tables(u64::MAX).folded_elements() as u64
    };
    assert_eq!(folded((1 << 28) - 1), LIMIT - 16);
    assert_eq!(folded(1 << 28), 0, "hoisted for each mini-batch instead");
}

#[test]
fn shapes_and_parameters_have_limits() {
    let mut network = Network::new();
    let max = (1 << 31) - 1;
    assert!(network.record("below", [("x", Shape::Vector(max))]).is_ok());
    let error = network.record("above", [("x", Shape::Vector(max + 1))]).unwrap_err();
    assert!(error.to_string().contains("at least one element and fewer than 2^31"), "{error}");
    let square = |side: u32| [("x", Shape::Matrix(side, side))];
    assert!(network.record("square", square(46_340)).is_ok());
    assert!(network.record("larger", square(46_341)).is_err());
    let max = max as usize;
    assert!(network.add_parameter("below", &[max]).is_ok());
    let error = network.add_parameter("above", &[max + 1]).unwrap_err();
    assert!(error.to_string().contains("dimensions below 2^31"), "{error}");
    assert!(network.add_parameter("in memory", &[1 << 30, 1 << 30]).is_ok());
    assert!(network.add_parameter("in none", &[max, max]).is_err());
}

/// The rows of an input are not moved while they grow: there is memory for all of them, and for no
/// more.
#[test]
fn rows_of_an_input_are_reserved_at_once() {
    for count in [10, 5000] {
        let mut network = Network::new();
        let record = network.record("row", [("x", Shape::Vector(3))]).unwrap();
        let leaf = network.cell("leaf", record, |cell| vec![cell.lookup("x", "t", &[7, 3])]);
        let (network, leaf) = (Arc::new(network), leaf.unwrap());
        let parameters = random(&network, 1);
        let mut list = CallList::new(network.clone());
        for row in 0..count {
            let value = list.call(leaf, &[row % 7], &[]).unwrap();
            list.emit(value).unwrap();
        }
        let model = CallLists::new(network);
        let rows = Engine::new(model.clone(), parameters.clone()).unwrap().run(&[list.clone()]);
        let trained = Trainer::new(model, parameters.clone()).unwrap().forward(&[list]);
        for rows in [rows.unwrap(), trained.unwrap()] {
            let (elements, ends) = rows.into_iter().next().unwrap().into_parts();
            let table = parameters.named("t").unwrap();
            let expected: Vec<f32> =
                (0..count as usize).flat_map(|row| table[row % 7 * 3..][..3].to_vec()).collect();
            assert_eq!((ends.len(), &elements), (count as usize, &expected));
            assert_eq!(elements.capacity(), elements.len());
        }
    }
}

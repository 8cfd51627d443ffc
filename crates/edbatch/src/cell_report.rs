//! Figures of a cell: the operands that its plans copy, and the times of the plans.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use edbatch_graph::{Kind, Network};
use edbatch_layout::{
    CellStyle, Compared, Copied, Moved, Program, TooLarge, batches_of, compile_cell, paper_rule,
};

use crate::inner_schedules::{cell_schedule, cell_schedules};
use crate::one_batch::{counted, nanoseconds};

/// Number of times that a cell is compiled to measure the compile time.
const REPETITIONS: usize = 15;

/// Figures of a cell, for batches of [`calls`](Self::calls) calls.
#[derive(Clone, PartialEq, Debug)]
pub struct CellReport {
    /// The cell's name.
    pub cell: String,
    /// Calls in a batch.
    pub calls: u64,
    /// Batches inside the cell.
    pub batches: usize,
    /// Memory kernels and bytes by the paper's rule, as declared and as planned.
    pub paper_rule: Compared,
    /// One report for each requested style, in the order of the request.
    pub plans: Vec<CellPlanReport>,
    /// Median time to schedule, lay out and compile the cell.
    pub compile_microseconds: f64,
}

/// Figures of one plan of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct CellPlanReport {
    /// How the cell is compiled.
    pub style: CellStyle,
    /// Memory kernels and bytes that a batch copies.
    pub moved: Moved,
    /// The copied operands of a call.
    pub copied: Vec<Copied>,
    /// Median time of a batch on one core; `None` if it would take too much memory.
    pub nanoseconds: Option<f64>,
}

/// Compiles all cells of a network in several styles, and counts and times batches of `calls`
/// calls. The compile time is measured in the style `compiled`.
///
/// # Errors
/// If a cell is too large.
pub fn cell_reports(
    network: &Arc<Network>,
    styles: &[CellStyle],
    compiled: CellStyle,
    calls: usize,
) -> Result<Vec<CellReport>, TooLarge> {
    let schedules = cell_schedules(network);
    let program = |&style: &CellStyle| -> Result<_, TooLarge> {
        Ok((style, Arc::new(Program::scheduled(network.clone(), style, &schedules)?)))
    };
    let programs = styles.iter().map(program).collect::<Result<Vec<_>, _>>()?;
    let kinds = (0..network.cells().len()).map(Kind::new);
    kinds.map(|kind| report(network, &programs, kind, compiled, calls)).collect()
}

fn report(
    network: &Arc<Network>,
    programs: &[(CellStyle, Arc<Program>)],
    kind: Kind,
    compiled: CellStyle,
    calls: usize,
) -> Result<CellReport, TooLarge> {
    let cell = &network[kind];
    let batches = batches_of(cell, &cell_schedule(cell));
    let plan = |(style, program): &(CellStyle, Arc<Program>)| {
        let counts = counted(program, kind)
            .ok_or_else(|| TooLarge { what: cell.name().into(), elements: usize::MAX })?;
        let bytes = calls as u64 * counts.moved_bytes;
        Ok(CellPlanReport {
            style: *style,
            moved: Moved { bytes, kernels: counts.memory_kernels as usize },
            copied: program.copied(kind),
            nanoseconds: nanoseconds(program, kind, calls),
        })
    };
    Ok(CellReport {
        cell: cell.name().into(),
        calls: calls as u64,
        batches: batches.len(),
        paper_rule: paper_rule(cell, &batches, calls as u64),
        plans: programs.iter().map(plan).collect::<Result<_, TooLarge>>()?,
        compile_microseconds: programs
            .first()
            .map_or(0.0, |(_, program)| compile_time(program, kind, compiled)),
    })
}

/// Returns the median time to schedule, lay out and compile one cell, in microseconds.
fn compile_time(program: &Program, kind: Kind, style: CellStyle) -> f64 {
    let cell = &program.network()[kind];
    let mut times: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let started = Instant::now();
            let batches = match style {
                CellStyle::Paper => batches_of(cell, &cell_schedule(cell)),
                _ => Vec::new(),
            };
            black_box(compile_cell(program, kind, style, &batches));
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

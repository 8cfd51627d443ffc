//! The part `cells`: memory copied by the cells of the paper's table, their latency and compile
//! time.

use std::sync::Arc;
use std::time::Instant;

use edbatch::cell_schedule;
use edbatch_graph::{Kind, Network};
use edbatch_layout::{
    CellStyle, Compared, Moved, PAPER_CELLS, Program, batches_of, paper_cell, paper_rule,
};

use crate::cell_latency::cell_latency;
use crate::record::{Cell, Copies, Rule};
use crate::spread::Spread;
use crate::workload::Failure;

/// The size and the number of calls of the paper's table.
const SIZE: usize = 64;
const CALLS: u64 = 8;
/// How often a cell is compiled.
const REPETITIONS: usize = 15;

/// Plans every cell of the paper's table.
///
/// # Errors
/// If a cell cannot be declared or compiled.
pub fn cell_layouts() -> Result<Vec<Cell>, Failure> {
    let networks = PAPER_CELLS.iter().filter_map(|name| paper_cell(name, SIZE));
    let mut cells = Vec::new();
    for network in networks {
        let network = Arc::new(network?);
        let (program, microseconds) = compile(&network)?;
        let declared = Program::new(network.clone(), CellStyle::Declaration)?;
        for (kind, cell) in network.cells().iter().enumerate() {
            let batches = batches_of(cell, &cell_schedule(cell));
            let moved = |program: &Program| program.cell(Kind::new(kind)).moved(CALLS);
            let own = Compared { declared: moved(&declared), planned: moved(&program) };
            cells.push(Cell {
                cell: cell.name().into(),
                hidden: SIZE,
                calls: CALLS,
                batches: batches.len(),
                paper_rule: rule(paper_rule(cell, &batches, CALLS)),
                own_rule: rule(own),
                microseconds: cell_latency(&network, Kind::new(kind), CALLS)?,
                compile_microseconds: microseconds,
            });
        }
    }
    Ok(cells)
}

/// A compiled network, and the median time for one of its cells.
fn compile(network: &Arc<Network>) -> Result<(Program, f64), Failure> {
    let mut times = Vec::new();
    loop {
        let started = Instant::now();
        let program = Program::new(network.clone(), CellStyle::Planned)?;
        times.push(started.elapsed().as_secs_f64() * 1e6 / network.cells().len() as f64);
        if times.len() == REPETITIONS {
            return Ok((program, Spread::of(&times).median));
        }
    }
}

fn rule(compared: Compared) -> Rule {
    let copies = |moved: Moved| Copies { memory_kernels: moved.kernels, bytes: moved.bytes };
    Rule { declared: copies(compared.declared), planned: copies(compared.planned) }
}

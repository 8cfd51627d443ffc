//! The part `cells`: memory copied by the cells of the paper's table, and their compile time.

use std::sync::Arc;
use std::time::Instant;

use edbatch_graph::{Kind, Network};
use edbatch_layout::{
    CellStyle, Compared, Moved, PAPER_CELLS, Program, cell_costs, inner_batches, paper_cell,
};

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
        for kind in (0..network.cells().len()).map(Kind::new) {
            let costs = cell_costs(&program, kind, &inner_batches(&network[kind]), CALLS);
            cells.push(Cell {
                cell: costs.cell,
                hidden: SIZE,
                calls: CALLS,
                batches: costs.batches,
                paper_rule: rule(costs.paper_rule),
                own_rule: rule(costs.own_rule),
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

//! The part `cells`: the figures of `edbatch cells paper`, for the cells of the paper's table.

use std::sync::Arc;

use edbatch::cell_reports;
use edbatch_layout::{CellStyle, Compared, Moved, PAPER_CELLS, paper_cell};

use crate::Failure;
use crate::record::{Cell, CellLatency, Copies, Rule};

/// Elements of a hidden vector in the paper's table.
const SIZE: usize = 64;
/// Calls in a batch in the paper's table.
const CALLS: usize = 8;

/// The plans that are compared: in the order of declaration, and ours.
const STYLES: [CellStyle; 2] = [CellStyle::Declaration, CellStyle::Planned];

/// Measures every cell of the paper's table.
pub fn cells() -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for network in PAPER_CELLS.iter().filter_map(|name| paper_cell(name, SIZE)) {
        for report in cell_reports(&Arc::new(network?), &STYLES, CellStyle::Planned, CALLS)? {
            let [declared, planned] = [0, 1].map(|plan| &report.plans[plan]);
            let [declared_time, planned_time] =
                [declared, planned].map(|plan| plan.nanoseconds.unwrap_or(f64::NAN) / 1e3);
            let own = Compared { declared: declared.moved, planned: planned.moved };
            cells.push(Cell {
                hidden: SIZE,
                calls: report.calls,
                batches: report.batches,
                paper_rule: rule(report.paper_rule),
                own_rule: rule(own),
                microseconds: CellLatency { declared: declared_time, planned: planned_time },
                compile_microseconds: report.compile_microseconds,
                cell: report.cell,
            });
        }
    }
    Ok(cells)
}

fn rule(compared: Compared) -> Rule {
    let copies = |moved: Moved| Copies { memory_kernels: moved.kernels, bytes: moved.bytes };
    Rule { declared: copies(compared.declared), planned: copies(compared.planned) }
}

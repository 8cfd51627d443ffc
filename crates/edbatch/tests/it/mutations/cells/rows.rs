//! Mutants of steps on the rows of a matrix.

use edbatch_graph::Normalization;
use edbatch_layout::{RowKernel, RowStep};

use super::{Places, others, ports};
use crate::mutations::tally::Sort;

/// All mutants of a step on rows: of its numbers and places that mean something, and of its kernel.
pub(super) fn mutants(step: &RowStep, places: &Places) -> Vec<(Sort, RowStep)> {
    let [of_from, of_rows, of_columns, of_out, of_kernel] = fields(step.kernel);
    let mut made = Vec::new();
    for index in 0..step.operands().len() {
        for (how, other) in places.others(step.from[index]) {
            let mut step = *step;
            step.from[index] = other;
            made.push(((of_from, how), step));
        }
    }
    for (how, rows) in others(step.rows) {
        made.push(((of_rows, how), RowStep { rows, ..*step }));
    }
    if matches!(step.kernel, RowKernel::OneHot(_)) {
        made.clear(); // It has no operand, and one row.
    }
    for (how, columns) in others(step.columns) {
        made.push(((of_columns, how), RowStep { columns, ..*step }));
    }
    for (how, out) in places.others(step.out) {
        made.push(((of_out, how), RowStep { out, ..*step }));
    }
    for (how, kernel) in kernels(step.kernel) {
        made.push(((of_kernel, how), RowStep { kernel, ..*step }));
    }
    made
}

/// The names of a step's operands, rows, columns, result and kernel, by kernel.
fn fields(kernel: RowKernel) -> [&'static str; 5] {
    macro_rules! of {
        ($name:literal) => {
            [
                concat!($name, ".from"),
                concat!($name, ".rows"),
                concat!($name, ".columns"),
                concat!($name, ".out"),
                concat!($name, ".kernel"),
            ]
        };
    }
    match kernel {
        RowKernel::Normalize(_) => of!("Normalize"),
        RowKernel::Dot => of!("Dot"),
        RowKernel::Fold => of!("Fold"),
        RowKernel::Transpose => of!("Transpose"),
        RowKernel::Expand => of!("Expand"),
        RowKernel::Copy => of!("Copy"),
        RowKernel::Fill(_) => of!("Fill"),
        RowKernel::Select(_) => of!("Select"),
        RowKernel::OneHot(_) => of!("OneHot"),
        RowKernel::Share(_) => of!("Share"),
        RowKernel::Ties { .. } => of!("Ties"),
    }
}

/// Other kernels: with other numbers, or another one that reads as many operands.
fn kernels(kernel: RowKernel) -> Vec<(&'static str, RowKernel)> {
    let mut made = match kernel {
        RowKernel::Normalize(_) => {
            let all = [
                Normalization::Softmax,
                Normalization::LogSoftmax,
                Normalization::LayerNorm(0.25),
                Normalization::RmsNorm(0.25),
            ];
            all.map(|by| ("another norm", RowKernel::Normalize(by))).to_vec()
        }
        RowKernel::Fill(value) => vec![
            ("another number", RowKernel::Fill(value + 1.0)),
            ("the negative number", RowKernel::Fill(-value)),
        ],
        RowKernel::Select(table) => with(RowKernel::Select, ports(table)),
        RowKernel::OneHot(table) => with(RowKernel::OneHot, ports(table)),
        RowKernel::Share(port) => with(RowKernel::Share, ports(port)),
        RowKernel::Ties { port, field } => {
            let of_port = with(|port| RowKernel::Ties { port, field }, ports(port));
            let of_field = with(|field| RowKernel::Ties { port, field }, others(field));
            [of_port, of_field].concat()
        }
        _ => Vec::new(),
    };
    if kernel.signature().operands.len() == 1 {
        let other = match kernel {
            RowKernel::Transpose => RowKernel::Copy,
            // A copy has one row, so that its transpose is the same.
            RowKernel::Copy => RowKernel::Fold,
            _ => RowKernel::Transpose,
        };
        made.push(("another kernel", other));
    }
    made.retain(|(_, other)| *other != kernel);
    made
}

fn with<T>(
    kernel: impl Fn(T) -> RowKernel,
    others: impl IntoIterator<Item = (&'static str, T)>,
) -> Vec<(&'static str, RowKernel)> {
    others.into_iter().map(|(how, other)| (how, kernel(other))).collect()
}

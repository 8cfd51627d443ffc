//! The paper's table of cells: memory kernels and bytes, as declared and as planned, by two rules.
//!
//! ```text
//! cargo run --release -p edbatch-layout --example cells -- [--json | --text | --dot] [--hidden N] [--batch N] [CELL…]
//! ```

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use edbatch_graph::Kind;
use edbatch_layout::{
    CellCosts, CellStyle, Compared, Copied, Moved, PAPER_CELLS, Program, cell_costs, cell_dot,
    cell_text, inner_batches, paper_cell,
};

const USAGE: &str = "usage: cells [--json | --text | --dot] [--hidden N] [--batch N] [CELL…]";

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(request) => {
            print!("{}", request.answer());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[derive(Clone, Copy)]
enum Form {
    Table,
    Json,
    Text,
    Dot,
}

struct Request {
    form: Form,
    hidden: usize,
    batch: u64,
    cells: Vec<String>,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let mut request = Request { form: Form::Table, hidden: 64, batch: 8, cells: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().and_then(|value| value.parse().ok());
            value.filter(|&n| n > 0).ok_or_else(|| format!("{argument}: expected a number"))
        };
        match argument.as_str() {
            "--json" => request.form = Form::Json,
            "--text" => request.form = Form::Text,
            "--dot" => request.form = Form::Dot,
            "--hidden" => request.hidden = number()? as usize,
            "--batch" => request.batch = number()?,
            name if PAPER_CELLS.contains(&name) => request.cells.push(name.into()),
            other => {
                return Err(format!("`{other}`: expected one of {}", PAPER_CELLS.join(", ")));
            }
        }
    }
    if request.cells.is_empty() {
        request.cells = PAPER_CELLS.map(String::from).to_vec();
    }
    Ok(request)
}

impl Request {
    fn answer(&self) -> String {
        let parts = self.cells.iter().map(|name| self.one(name));
        match self.form {
            Form::Json => format!("[{}]\n", parts.collect::<Vec<_>>().join(",\n ")),
            Form::Text | Form::Dot => parts.collect(),
            Form::Table => {
                let head = "Memory kernels, and what they move, declared -> planned: the paper's; by its rule; by ours\n";
                [head.into()].into_iter().chain(parts).collect()
            }
        }
    }

    fn one(&self, name: &str) -> String {
        let network = paper_cell(name, self.hidden).expect("the name was checked");
        let network = Arc::new(network.expect("the size is possible"));
        let compile =
            || Program::new(Arc::clone(&network), CellStyle::Planned).expect("the cell is small");
        let program = compile();
        // The median of a few: the first run pays for cold caches.
        let mut times: Vec<f64> = (0..21)
            .map(|_| {
                let start = Instant::now();
                std::hint::black_box(compile());
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        match self.form {
            Form::Text => cell_text(&program, Kind(0)),
            Form::Dot => cell_dot(&program, Kind(0)),
            _ => {
                let batches = inner_batches(&network.cells()[0]);
                let costs = cell_costs(&program, Kind(0), &batches, self.batch);
                let steps = program.cell(Kind(0)).steps.len();
                if matches!(self.form, Form::Json) {
                    json(&costs, times[10])
                } else {
                    row(&costs, steps, times[10])
                }
            }
        }
    }
}

/// Memory kernels and kB of the paper's table, declared and planned, at batch 8 and size 64.
const PAPERS_FIGURES: [(&str, [u64; 4]); 7] = [
    ("GRUCell", [6, 666, 2, 14]),
    ("LSTMCell", [4, 1054, 1, 16]),
    ("MVCell", [2, 260, 2, 260]),
    ("TreeGRU-Internal", [8, 552, 2, 16]),
    ("TreeGRU-Leaf", [4, 268, 2, 8]),
    ("TreeLSTM-Internal", [7, 1064, 3, 22]),
    ("TreeLSTM-Leaf", [3, 396, 1, 6]),
];

fn row(costs: &CellCosts, steps: usize, microseconds: f64) -> String {
    let compared = |Compared { declared, planned }: Compared| {
        format!(
            "{:2} {:4} kB -> {} {:3} kB",
            declared.kernels,
            declared.bytes >> 10,
            planned.kernels,
            planned.bytes >> 10
        )
    };
    let papers = PAPERS_FIGURES.iter().find(|(name, _)| *name == costs.cell);
    let (_, [a, b, c, d]) = papers.expect("every cell is in the paper's table");
    format!(
        "{:18}{:3} batches  {a:2} {b:4} kB -> {c} {d:3} kB   {}   {}  {steps} steps {microseconds:5.0} us\n",
        costs.cell,
        costs.batches,
        compared(costs.paper_rule),
        compared(costs.own_rule),
    )
}

fn json(costs: &CellCosts, microseconds: f64) -> String {
    let moved = |Moved { kernels, bytes }: Moved| {
        format!("{{\"memory_kernels\": {kernels}, \"bytes\": {bytes}}}")
    };
    let compared = |Compared { declared, planned }: Compared| {
        format!("{{\"declared\": {}, \"planned\": {}}}", moved(declared), moved(planned))
    };
    let copied = |copied: &Copied| {
        let Copied { operation, variables, bytes, why } = copied;
        let variables: Vec<String> = variables.iter().map(|name| format!("{name:?}")).collect();
        format!(
            "{{\"operation\": {operation:?}, \"variables\": [{}], \"bytes\": {bytes}, \"why\": {why:?}}}",
            variables.join(", ")
        )
    };
    let mut text = String::new();
    let CellCosts { cell, batches, paper_rule, own_rule, copied: all } = costs;
    let all: Vec<String> = all.iter().map(copied).collect();
    write!(
        text,
        "{{\"cell\": {cell:?}, \"batches\": {batches}, \"paper_rule\": {}, \"own_rule\": {}, \
         \"copied\": [{}], \"compile_microseconds\": {microseconds:.1}}}",
        compared(*paper_rule),
        compared(*own_rule),
        all.join(", ")
    )
    .expect("a string takes everything");
    text
}

//! `edbatch cells`: what the memory of each cell costs, as declared and as planned.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use edbatch_datasets::Vocabulary;
use edbatch_graph::{Kind, Network};
use edbatch_layout::{
    CellCosts, CellStyle, Compared, Moved, PAPER_CELLS, Program, cell_costs, cell_dot, cell_text,
    inner_batches, paper_cell,
};
use edbatch_models::{Family, Folder, Lexicon, Model, ModelConfig, ModelName, Zoo};
use serde_json::{Value, json};

use super::at_least_one;
use super::failure::Failure;

/// Prints, for each cell of a model, the batches inside it and the memory kernels and bytes that
/// they need, with variables in the order of their declaration and as planned.
///
/// Two rules count: the paper's, and what our own plans really do. The seven cells of the paper's
/// table are models by their names there.
#[derive(Args)]
#[command(after_help = "\
Examples:
  edbatch cells LSTMCell
  edbatch cells paper --hidden 64 --batch 8
  edbatch cells tree_lstm --hidden 128 --json
  edbatch cells my-model --picture dot > cells.dot")]
pub(crate) struct Cells {
    /// A model's folder, the name of a model or of one of the paper's cells, or `paper` for all
    /// seven of those.
    model: String,
    /// Elements of a hidden vector, where a name says which model.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    hidden: usize,
    /// Calls in a batch.
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one)]
    batch: usize,
    /// One JSON array instead of a table.
    #[arg(long)]
    json: bool,
    /// Whether variables are planned at all.
    #[arg(long, value_name = "L", value_enum, default_value_t = Layout::Planned)]
    layout: Layout,
    /// A picture of each plan instead of the table: which variable lies where.
    #[arg(long, value_name = "P", value_enum, conflicts_with = "json")]
    picture: Option<Picture>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// By the planner.
    Planned,
    /// In the order of declaration.
    Declaration,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// As text.
    Text,
    /// For Graphviz.
    Dot,
}

impl Cells {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut reports = Vec::new();
        for network in self.networks()? {
            let style = match self.layout {
                Layout::Planned => CellStyle::Planned,
                Layout::Declaration => CellStyle::Declaration,
            };
            let network = Arc::new(network);
            let program = Program::new(network.clone(), style).map_err(Failure::new)?;
            for kind in (0..network.cells().len()).map(Kind::new) {
                match self.picture {
                    Some(Picture::Text) => print!("{}", cell_text(&program, kind)),
                    Some(Picture::Dot) => print!("{}", cell_dot(&program, kind)),
                    None => reports.push(self.report(&program, kind, style)),
                }
            }
        }
        match (self.picture, self.json) {
            (Some(_), _) => {}
            (None, true) => {
                let reports: Vec<Value> = reports.iter().map(Report::json).collect();
                println!("{}", Value::from(reports));
            }
            (None, false) => print_table(&reports),
        }
        Ok(())
    }

    /// The networks whose cells are meant.
    fn networks(&self) -> Result<Vec<Network>, Failure> {
        let paper = |name: &str| paper_cell(name, self.hidden);
        if self.model == "paper" {
            let networks = PAPER_CELLS.iter().filter_map(|name| paper(name));
            return networks.collect::<Result<_, _>>().map_err(Failure::new);
        }
        if let Some(network) = paper(&self.model) {
            return Ok(vec![network.map_err(Failure::new)?]);
        }
        let model = match ModelName::ALL.iter().find(|model| model.name() == self.model) {
            Some(&model) => {
                let config = ModelConfig::of_size(model, self.hidden, None, 1);
                Zoo::new(&config, &small_lexicon(model.family())).map_err(Failure::new)?
            }
            None if Path::new(&self.model).exists() => {
                Folder::read(&self.model).and_then(|dir| dir.model()).map_err(Failure::new)?
            }
            None => {
                let models: Vec<&str> = ModelName::ALL.iter().map(|model| model.name()).collect();
                return Err(Failure::Message(format!(
                    "{}: expected a model's folder, `paper`, one of {}, or one of {}",
                    self.model,
                    PAPER_CELLS.join(", "),
                    models.join(", ")
                )));
            }
        };
        Ok(vec![Network::clone(model.network())])
    }

    fn report(&self, program: &Program, kind: Kind, style: CellStyle) -> Report {
        let batches = inner_batches(&program.network()[kind]);
        let mut costs = cell_costs(program, kind, &batches, self.batch as u64);
        if self.layout == Layout::Declaration {
            costs.paper_rule.planned = costs.paper_rule.declared;
            costs.own_rule.planned = costs.own_rule.declared;
        }
        Report { costs, compile_microseconds: compile_time(program, style) }
    }
}

/// A model by name has no words of its own; its cells do not depend on how many there are.
fn small_lexicon(family: Family) -> Lexicon {
    let words = Vocabulary::from_tokens(["a", "b"]);
    let other = words.clone();
    let tags = vec!["tag".to_string()];
    match family {
        Family::Trees => Lexicon::Trees { words },
        Family::Tagged => Lexicon::Tagged { words, tags },
        Family::Spelled => Lexicon::Spelled { words, chars: other, tags },
        Family::Translation => Lexicon::Translation { source: words, target: other },
        Family::Lattices => Lexicon::Lattices { chars: other, words },
    }
}

/// The median time to compile one of the network's cells, in microseconds.
fn compile_time(program: &Program, style: CellStyle) -> f64 {
    let network = program.network();
    let mut times: Vec<f64> = (0..15)
        .map(|_| {
            let started = Instant::now();
            let compiled = Program::new(network.clone(), style).expect("it compiled before");
            let cells = compiled.cells().len() as f64;
            started.elapsed().as_secs_f64() * 1e6 / cells
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Report {
    costs: CellCosts,
    compile_microseconds: f64,
}

impl Report {
    fn json(&self) -> Value {
        let moved = |moved: Moved| json!({"memory_kernels": moved.kernels, "bytes": moved.bytes});
        let compared =
            |by: Compared| json!({"declared": moved(by.declared), "planned": moved(by.planned)});
        let copied = self.costs.copied.iter().map(|copied| {
            json!({
                "operation": copied.operation,
                "variables": copied.variables,
                "bytes": copied.bytes,
                "why": copied.why,
            })
        });
        json!({
            "cell": self.costs.cell,
            "batches": self.costs.batches,
            "paper_rule": compared(self.costs.paper_rule),
            "own_rule": compared(self.costs.own_rule),
            "copied": copied.collect::<Vec<_>>(),
            "compile_microseconds": self.compile_microseconds,
        })
    }
}

fn print_table(reports: &[Report]) {
    println!(
        "{:18} {:>7} | {:^25} | {:^25} | {:>8}",
        "memory kernels, kB", "batches", "paper rule", "own rule", "compile"
    );
    let compared = |Compared { declared, planned }: Compared| {
        let kilobytes = |moved: Moved| moved.bytes as f64 / 1024.0;
        format!(
            "{:3} {:7.1} -> {:3} {:7.1}",
            declared.kernels,
            kilobytes(declared),
            planned.kernels,
            kilobytes(planned)
        )
    };
    for Report { costs, compile_microseconds } in reports {
        println!(
            "{:18} {:>7} | {} | {} | {compile_microseconds:5.0} us",
            costs.cell,
            costs.batches,
            compared(costs.paper_rule),
            compared(costs.own_rule),
        );
        for copied in &costs.copied {
            println!("    {}: {} ({})", copied.operation, copied.variables.join(" "), copied.why);
        }
    }
}

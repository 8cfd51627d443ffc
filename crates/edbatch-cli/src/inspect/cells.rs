//! `edbatch cells`: the memory traffic and the time of each plan of a cell.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use edbatch::models::{Family, Folder, Lexicon, Model, ModelConfig, ModelName, Zoo};
use edbatch::{CellPlanReport, CellReport, cell_reports, cell_schedules};
use edbatch_datasets::Vocabulary;
use edbatch_graph::{Kind, Network};
use edbatch_layout::{
    CellStyle, Compared, Copied, Moved, PAPER_CELLS, Program, cell_dot, cell_text, paper_cell,
};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::{at_least_one, name_of};

/// Prints figures for each cell of a model: the number of batches inside it, memory kernels and
/// bytes by the paper's rule, and the memory traffic and the measured time of three plans.
///
/// The model can also be a cell of the paper's table, named as in the paper.
#[derive(Args)]
#[command(after_help = "\
Examples:
  edbatch cells LSTMCell
  edbatch cells paper --hidden 64 --batch 8
  edbatch cells tree_lstm --hidden 128 --json
  edbatch cells TreeLSTM-Internal --layout paper --picture text
  edbatch cells my-model --picture dot > cells.dot")]
pub(crate) struct Cells {
    /// A model's folder, the name of a model, the name of one of the paper's cells, or `paper` for
    /// all seven cells of the paper.
    model: String,
    /// Elements of a hidden vector. Not used for a model's folder.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    hidden: usize,
    /// Calls in a batch.
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one)]
    batch: usize,
    /// Print a JSON array instead of a table.
    #[arg(long)]
    json: bool,
    /// The plan whose copies are listed, or that --picture draws.
    #[arg(long, value_name = "L", value_enum, default_value_t = Layout::Ours)]
    layout: Layout,
    /// Print a picture of the memory layout of each cell instead of the table.
    #[arg(long, value_name = "P", value_enum, conflicts_with = "json")]
    picture: Option<Picture>,
}

/// A plan of a cell.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// Batches inside the cell, laid out by the paper's Algorithm 2; one kernel per operation.
    Paper,
    /// One operation at a time, in the order of declaration.
    Declaration,
    /// Stacked products and fused element-wise operations.
    Ours,
}

impl Layout {
    fn style(self) -> CellStyle {
        match self {
            Self::Paper => CellStyle::Paper,
            Self::Declaration => CellStyle::Declaration,
            Self::Ours => CellStyle::Planned,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// Text.
    Text,
    /// DOT, for Graphviz.
    Dot,
}

/// The maximum number of calls in a batch.
const MAX_BATCH: usize = 1 << 30;

impl Cells {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.batch > MAX_BATCH {
            let what = format!("--batch: expected at most {MAX_BATCH}, got {}", self.batch);
            return Err(Failure::Message(what));
        }
        let styles: Vec<_> = Layout::value_variants().iter().map(|plan| plan.style()).collect();
        let mut reports = Vec::new();
        for network in self.networks()? {
            if let Some(picture) = self.picture {
                let (style, schedules) = (self.layout.style(), cell_schedules(&network));
                let program = Program::scheduled(network.clone(), style, &schedules);
                let program = program.map_err(Failure::new)?;
                for kind in (0..network.cells().len()).map(Kind::new) {
                    match picture {
                        Picture::Text => print!("{}", cell_text(&program, kind)),
                        Picture::Dot => print!("{}", cell_dot(&program, kind)),
                    }
                }
                continue;
            }
            let cells = cell_reports(&network, &styles, self.layout.style(), self.batch);
            reports.extend(cells.map_err(Failure::new)?);
        }
        if self.json {
            println!("{}", reports.iter().map(json).collect::<Value>());
        } else if self.picture.is_none() {
            print_table(&reports, self.layout);
        }
        Ok(())
    }

    /// Returns the networks that `model` names.
    fn networks(&self) -> Result<Vec<Arc<Network>>, Failure> {
        let paper = |name: &str| Some(paper_cell(name, self.hidden)?.map(Arc::new));
        if self.model == "paper" {
            let networks = PAPER_CELLS.iter().filter_map(|name| paper(name));
            return networks.collect::<Result<_, _>>().map_err(Failure::new);
        }
        if let Some(network) = paper(&self.model) {
            return Ok(vec![network.map_err(Failure::new)?]);
        }
        let network = match ModelName::ALL.iter().find(|model| model.name() == self.model) {
            Some(&model) => {
                let config = ModelConfig::new(model, self.hidden, None, 1);
                let lexicon = small_lexicon(model.family());
                Zoo::new(&config, &lexicon).map_err(Failure::new)?.network().clone()
            }
            None if Path::new(&self.model).exists() => {
                let model = Folder::read(&self.model).and_then(|dir| dir.model());
                model.map_err(Failure::new)?.network().clone()
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
        Ok(vec![network])
    }
}

/// Returns a small lexicon for a model that is given by name. Cells do not depend on the number of
/// words.
fn small_lexicon(family: Family) -> Lexicon {
    let words = Vocabulary::from_tokens(["a", "b"]);
    let other = words.clone();
    let tags = vec!["tag".to_string()];
    match family {
        Family::Trees => Lexicon::Trees { words, classes: None },
        Family::Tagged => Lexicon::Tagged { words, tags },
        Family::Spelled => Lexicon::Spelled { words, chars: other, tags },
        Family::Translation => Lexicon::Translation { source: words, target: other },
        Family::Lattices => Lexicon::Lattices { chars: other, words, classes: None },
    }
}

fn json(report: &CellReport) -> Value {
    let moved = |moved: Moved| json!({"memory_kernels": moved.kernels, "bytes": moved.bytes});
    let copied = |copied: &Copied| {
        json!({
            "operation": copied.operation,
            "variables": copied.variables,
            "bytes": report.calls * copied.bytes,
            "why": copied.why,
        })
    };
    let plan = |(layout, plan): (&Layout, &CellPlanReport)| {
        let value = json!({
            "memory_kernels": plan.moved.kernels,
            "bytes": plan.moved.bytes,
            "copied": plan.copied.iter().map(copied).collect::<Vec<_>>(),
            "nanoseconds": plan.nanoseconds,
        });
        (name_of(layout), value)
    };
    let plans = Layout::value_variants().iter().zip(&report.plans).map(plan);
    let Compared { declared, planned } = report.paper_rule;
    json!({
        "cell": report.cell,
        "batches": report.batches,
        "paper_rule": {"declared": moved(declared), "planned": moved(planned)},
        "plans": plans.collect::<Map<_, _>>(),
        "compile_microseconds": report.compile_microseconds,
    })
}

/// Prints for each cell two lines by the paper's rule (as declared and as planned), and a line per
/// plan. The operands that the plan `chosen` copies follow its line.
fn print_table(reports: &[CellReport], chosen: Layout) {
    let calls = reports.first().map_or(0, |report| report.calls);
    println!("batches of {calls} calls");
    println!(
        "{:18} {:>7}  {:22} {:>14} {:>10} {:>10} {:>10}",
        "cell", "batches", "plan", "memory kernels", "kB", "us", "compile us"
    );
    for report in reports {
        let Compared { declared, planned } = report.paper_rule;
        let rule = counted_by("paper's rule, declared", declared);
        println!("{:18} {:>7}  {rule}", report.cell, report.batches);
        println!("{:26}  {}", "", counted_by("paper's rule, planned", planned));
        for (&layout, plan) in Layout::value_variants().iter().zip(&report.plans) {
            let CellPlanReport { moved, copied, nanoseconds, .. } = plan;
            let time = nanoseconds.map_or("-".into(), |time| format!("{:.1}", time / 1e3));
            print!("{:26}  {} {time:>10}", "", counted_by(&name_of(&layout), *moved));
            if layout == chosen {
                println!(" {:>10.0}", report.compile_microseconds);
                for Copied { operation, variables, why, .. } in copied {
                    println!("    {operation}: {} ({why})", variables.join(" "));
                }
            } else {
                println!();
            }
        }
    }
}

fn counted_by(plan: &str, moved: Moved) -> String {
    format!("{plan:22} {:>14} {:>10.1}", moved.kernels, moved.bytes as f64 / 1024.0)
}

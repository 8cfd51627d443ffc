//! `edbatch learn`: learns a policy for the graphs of a model, or for graphs from files.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use edbatch::load;
use edbatch_graph::{Dag, NodeId};
use edbatch_policy::{
    Comparison, Encoding, Learned, LearningConfig, TrainingSet, compare, hold_out,
    learn as learn_table, learn_rule, set_aside,
};
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::learning_data::{LearningData, of_graphs, of_model};
use crate::failure::Failure;
use crate::output::{Output, print};
use crate::{at_least_one, memory, progress, same_file};

/// Learns which kind of node to run next and writes the policy to a file.
///
/// A quarter of the mini-batches, at least three, is set aside. On these, the learned policy is
/// compared with the policies that need no learning: critical, critical:pair and critical:soft.
/// With fewer than six mini-batches none is set aside, and the policies are compared on the
/// mini-batches by which the learned one was selected. If a rule of the method pairs is not better
/// than all of these policies, the file names the best of them instead. The same seed always writes
/// the same bytes.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch learn model --input train.txt.gz --output policy.json
  edbatch infer model --policy policy.json --output logits.jsonl
  edbatch learn graphs/*.txt --output table.json --method q --encoding sort")]
pub(crate) struct Learn {
    /// A model's folder, or files of graphs in the text format, one mini-batch each.
    #[arg(value_name = "DIR|GRAPH", required = true)]
    of: Vec<PathBuf>,
    /// File for the policy.
    #[arg(long, value_name = "POLICY.json")]
    output: PathBuf,
    /// Inputs of the model, plain or .gz; by default the file that its config.json names.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Learning method; pairs by default, q if an encoding is given.
    #[arg(long, value_name = "M")]
    method: Option<Method>,
    /// State of the table: base (the ready kinds), max (also the kind with the most ready nodes),
    /// sort (the ready kinds, sorted by their number of ready nodes; the default) or phase (also
    /// how many eighths of the graph have run). With it the method is q.
    #[arg(long, value_name = "E")]
    encoding: Option<Encoding>,
    /// Write an empty table, which makes the same choices as critical, if critical does better on
    /// the mini-batches by which the table was selected. The method pairs always makes such a
    /// comparison.
    #[arg(long)]
    or_critical: bool,
    /// Number of a model's inputs in a mini-batch; 64 by default.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    batch: Option<usize>,
    /// Maximum number of episodes; an episode schedules one mini-batch. The default is 1000 for q
    /// and 3000 for pairs. Learning ends early when there is nothing left to gain.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    episodes: Option<usize>,
    /// Seed of the random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// A learning method.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// A rule with a weight for each pair of kinds: the fewest batches on unseen graphs.
    Pairs,
    /// A finite state machine, learned by tabular Q-learning as in the paper.
    Q,
}

/// A learned policy, and the figures of its report.
struct LearnedPolicy {
    json: String,
    /// The policy that the file names, and its number of batches.
    written: String,
    batches: usize,
    episodes: usize,
    /// The size of the table or the rule.
    size: String,
    /// The comparison on the mini-batches set aside; if none were, on those used for selection.
    compared: Comparison,
}

impl Learn {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.method == Some(Method::Pairs) && self.encoding.is_some() {
            let message = "--encoding needs --method q, got pairs";
            return Err(Failure::Usage(message.into()));
        }
        let loaded = match self.of.as_slice() {
            [dir] if dir.is_dir() => Some(load(dir).map_err(Failure::new)?),
            _ => None,
        };
        let inputs = self.of.iter().chain(&self.input).map(|path| ("the input", path.as_path()));
        let folder = loaded.as_ref().map(|loaded| &loaded.folder);
        same_file::check(folder, inputs, [("--output", self.output.as_path())])?;
        match (loaded, self.of.as_slice()) {
            (Some(loaded), _) => {
                self.learn(of_model(loaded, self.input.as_deref(), self.batch.unwrap_or(64))?)
            }
            (None, graphs) if graphs.iter().any(|path| path.is_dir()) => Err(Failure::Usage(
                "expected one model folder, or files of graphs without any folder".into(),
            )),
            (None, _) if self.input.is_some() || self.batch.is_some() => Err(Failure::Usage(
                "--input and --batch need a model folder: leave them out for files of graphs"
                    .into(),
            )),
            (None, graphs) => self.learn(of_graphs(graphs)?),
        }
    }

    fn method(&self) -> Method {
        let of_encoding = if self.encoding.is_some() { Method::Q } else { Method::Pairs };
        self.method.unwrap_or(of_encoding)
    }

    fn learn<D: Dag>(&self, data: LearningData<D>) -> Result<(), Failure> {
        let mut output = Output::open(Some(&self.output))?;
        let LearningData { kinds, mini_batches, source } = data;
        memory::reserve(&source, mini_batches.iter().map(bytes).sum())?;
        let (learn, unseen) = set_aside(mini_batches);
        let started = Instant::now();
        let bar = progress::over(self.episodes() as u64);
        let learned = match self.method() {
            Method::Pairs => self.rule(&learn, &unseen, &kinds, &source, &bar),
            Method::Q => self.table(learn, &unseen, &kinds, &source, &bar),
        };
        let (learned, seconds) = (learned?, started.elapsed().as_secs_f64());
        bar.finish_and_clear();
        output.write(learned.json.as_bytes())?;
        output.finish()?;
        print(&learned.report(seconds, !unseen.is_empty()))
    }

    fn episodes(&self) -> usize {
        self.episodes.unwrap_or(match self.method() {
            Method::Pairs => 3000,
            Method::Q => 1000,
        })
    }

    fn rng(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.seed)
    }

    /// Learns the constants of a look-ahead rule.
    fn rule<D: Dag>(
        &self,
        train: &[D],
        unseen: &[D],
        kinds: &[String],
        source: &str,
        bar: &ProgressBar,
    ) -> Result<LearnedPolicy, Failure> {
        let set = TrainingSet::new(train, unseen).map_err(Failure::new)?;
        let outcome = learn_rule(&set, self.episodes(), &mut self.rng(), |progress| {
            bar.set_position(progress.episode as u64);
        });
        let compared = outcome.held_out;
        let (best, fewest) = compared.best_unlearned();
        let weights = outcome.rule.as_ref().map_or(0, |rule| rule.weights.len());
        let (written, batches) = match outcome.rule {
            Some(_) => (better("the learned rule", &compared), compared.learned),
            None => {
                (format!("{best}, which needs no learning: no better rule was learned"), fewest)
            }
        };
        Ok(LearnedPolicy {
            json: Learned::rule(&outcome, kinds, source).to_json(),
            written,
            batches,
            episodes: outcome.episodes,
            size: format!("weights: {weights}"),
            compared,
        })
    }

    /// Learns the table of a finite state machine.
    fn table<D: Dag>(
        &self,
        learn: Vec<D>,
        unseen: &[D],
        kinds: &[String],
        source: &str,
        bar: &ProgressBar,
    ) -> Result<LearnedPolicy, Failure> {
        let encoding = self.encoding.unwrap_or(Encoding::Sort);
        let (train, held_out) = hold_out(learn);
        let set = TrainingSet::new(&train, &held_out).map_err(Failure::new)?;
        let config = LearningConfig::new(self.episodes());
        let mut outcome = learn_table(&set, encoding, &config, &mut self.rng(), |progress| {
            bar.set_position(progress.episode as u64);
        });
        if self.or_critical {
            outcome = outcome.or_critical();
        }
        let on = if unseen.is_empty() { set.held_out() } else { unseen };
        let compared = compare(on, &mut outcome.fsm(encoding, kinds.len()));
        let (states, unseen) = (outcome.table.len(), compared.unseen);
        let table = if states > 0 { "the learned table" } else { "an empty table" };
        Ok(LearnedPolicy {
            json: Learned::table(&outcome, encoding, kinds, source, train.len()).to_json(),
            written: better(table, &compared),
            batches: compared.learned,
            episodes: outcome.episodes,
            size: format!("states: {states}\nbatches in unseen states: {unseen}"),
            compared,
        })
    }
}

impl LearnedPolicy {
    /// The printed report.
    fn report(&self, seconds: f64, is_aside: bool) -> String {
        let Self { written, batches, episodes, size, compared, .. } = self;
        let Comparison { mini_batches, critical, learned, bound, .. } = compared;
        let unlearned = compared.unlearned().map(|(policy, batches)| format!("{policy} {batches}"));
        let learned = if *episodes > 0 { format!(", learned {learned}") } else { String::new() };
        let on = match is_aside {
            true => "set aside",
            false => "of the selection (fewer than six: none set aside)",
        };
        format!(
            "episodes: {episodes}\n\
             seconds: {seconds:.3}\n\
             batches before: {critical}\n\
             batches after: {batches}\n\
             bound: {bound}\n\
             {size}\n\
             compared on {mini_batches} mini-batches {on}: {}{learned}\n\
             written: {written}\n",
            unlearned.join(", "),
        )
    }
}

/// An upper bound on the bytes that learning takes for a graph, without the table.
fn bytes(dag: &impl Dag) -> u64 {
    let edges = (0..dag.nodes()).map(|node| dag.arguments(NodeId::new(node)).count());
    256 * dag.nodes() as u64 + 64 * edges.sum::<usize>() as u64
}

/// Describes how the learned policy compares with the best one that needs no learning.
fn better(learned: &str, compared: &Comparison) -> String {
    let (best, fewest) = compared.best_unlearned();
    let percent = 100.0 * fewest.abs_diff(compared.learned) as f64 / fewest.max(1) as f64;
    match compared.learned.cmp(&fewest) {
        Ordering::Less => format!("{learned}, {percent:.1} % fewer batches than {best}"),
        Ordering::Equal => format!("{learned}, as many batches as {best}, which needs no learning"),
        Ordering::Greater => {
            format!("{learned}, {percent:.1} % more batches than {best}, which needs no learning")
        }
    }
}

//! `edbatch learn`: learns a policy for the graphs of a model, or for graphs from files.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use edbatch_graph::Dag;
use edbatch_policy::{
    AnyPolicy, Comparison, Encoding, FsmTable, Learned, LearningConfig, LookAhead, Outcome,
    TrainingSet, compare, hold_out, learn as learn_table, learn_rule, set_aside,
};
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::failure::Failure;
use super::learning_data::{LearningData, of_graphs, of_model};
use super::output::Output;
use super::{at_least_one, progress, same_file};

/// Learns which kind of node to run next and writes the policy to a file.
///
/// A quarter of the mini-batches, at least three, is set aside. The learned policy is compared with
/// the policy critical on these. With fewer than six mini-batches none is set aside, and nothing is
/// compared. The same seed always writes the same bytes.
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
    /// the mini-batches by which the policy was selected; with pairs, also if it does as well.
    #[arg(long)]
    or_critical: bool,
    /// Number of a model's inputs in a mini-batch.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    batch: usize,
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
    policy: AnyPolicy,
    episodes: usize,
    states: usize,
    /// Batches on the mini-batches by which the policy was selected.
    selected: Comparison,
}

impl Learn {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.method == Some(Method::Pairs) && self.encoding.is_some() {
            let message = "--encoding needs --method q, got pairs";
            return Err(Failure::Usage(message.into()));
        }
        let inputs = self.of.iter().chain(&self.input).map(|path| ("the input", path.as_path()));
        same_file::check(inputs, [("--output", self.output.as_path())])?;
        match self.of.as_slice() {
            [dir] if dir.is_dir() => self.learn(of_model(dir, self.input.as_deref(), self.batch)?),
            graphs if graphs.iter().any(|path| path.is_dir()) => Err(Failure::Usage(
                "expected one model folder, or files of graphs without any folder".into(),
            )),
            _ if self.input.is_some() => Err(Failure::Usage(
                "--input needs a model folder: leave it out for files of graphs".into(),
            )),
            graphs => self.learn(of_graphs(graphs)?),
        }
    }

    fn method(&self) -> Method {
        let of_encoding = if self.encoding.is_some() { Method::Q } else { Method::Pairs };
        self.method.unwrap_or(of_encoding)
    }

    fn encoding(&self) -> Encoding {
        self.encoding.unwrap_or(Encoding::Sort)
    }

    fn learn<D: Dag>(&self, data: LearningData<D>) -> Result<(), Failure> {
        let mut output = Output::open(Some(&self.output))?;
        let LearningData { kinds, mini_batches, source } = data;
        let (learn, unseen) = set_aside(mini_batches);
        let started = Instant::now();
        let bar = progress::over(self.episodes() as u64);
        let mut learned = match self.method() {
            Method::Pairs => self.rule(&learn, &kinds, &source, &bar)?,
            Method::Q => self.table(learn, &kinds, &source, &bar)?,
        };
        let seconds = started.elapsed().as_secs_f64();
        bar.finish_and_clear();
        output.write(learned.json.as_bytes())?;
        output.finish()?;
        let unseen = (!unseen.is_empty()).then(|| compare(&unseen, &mut learned.policy));
        let mut report = Output::open(None)?;
        report.write(learned.report(seconds, unseen).as_bytes())?;
        report.finish()
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
        kinds: &[String],
        source: &str,
        bar: &ProgressBar,
    ) -> Result<LearnedPolicy, Failure> {
        let outcome = learn_rule(train, self.episodes(), &mut self.rng(), |progress| {
            bar.set_position(progress.episode as u64);
        });
        let outcome = outcome.map_err(Failure::new)?;
        let (before, after, bound) = (outcome.before, outcome.after, outcome.bound);
        if self.or_critical && after >= before {
            let (table, episodes) = (FsmTable::new(), outcome.episodes);
            let outcome = Outcome { table, episodes, before, after: before, bound };
            return Ok(of_table(&outcome, self.encoding(), kinds, source, train.len()));
        }
        Ok(LearnedPolicy {
            json: Learned::rule(&outcome, kinds, source).to_json(),
            episodes: outcome.episodes,
            states: outcome.rule.weights.len(),
            selected: of_selection(before, after, bound),
            policy: Box::new(LookAhead::new(outcome.rule)),
        })
    }

    /// Learns the table of a finite state machine.
    fn table<D: Dag>(
        &self,
        learn: Vec<D>,
        kinds: &[String],
        source: &str,
        bar: &ProgressBar,
    ) -> Result<LearnedPolicy, Failure> {
        let encoding = self.encoding();
        let (train, held_out) = hold_out(learn);
        let set = TrainingSet::new(&train, &held_out).map_err(Failure::new)?;
        let config = LearningConfig { episodes: self.episodes(), ..LearningConfig::default() };
        let mut outcome = learn_table(&set, encoding, &config, &mut self.rng(), |progress| {
            bar.set_position(progress.episode as u64);
        });
        if self.or_critical {
            outcome = outcome.or_critical();
        }
        Ok(of_table(&outcome, encoding, kinds, source, train.len()))
    }
}

fn of_table(
    outcome: &Outcome,
    encoding: Encoding,
    kinds: &[String],
    source: &str,
    mini_batches: usize,
) -> LearnedPolicy {
    let learned = Learned::table(outcome, encoding, kinds, source, mini_batches);
    LearnedPolicy {
        json: learned.to_json(),
        policy: Box::new(outcome.fsm(encoding, kinds.len())),
        episodes: outcome.episodes,
        states: outcome.table.len(),
        selected: of_selection(outcome.before, outcome.after, outcome.bound),
    }
}

/// The counts on the mini-batches by which a policy was selected.
fn of_selection(critical: usize, learned: usize, bound: usize) -> Comparison {
    Comparison { mini_batches: 0, critical, learned, bound }
}

impl LearnedPolicy {
    /// The printed report, with the counts on unseen mini-batches if there are any.
    fn report(&self, seconds: f64, unseen: Option<Comparison>) -> String {
        let Comparison { critical, learned, bound, .. } = unseen.unwrap_or(self.selected);
        format!(
            "episodes: {}\n\
             seconds: {seconds:.3}\n\
             batches before: {critical}\n\
             batches after: {learned}\n\
             bound: {bound}\n\
             states: {}\n\
             compared with critical: {}\n",
            self.episodes,
            self.states,
            unseen.map_or_else(
                || {
                    "not possible with fewer than six mini-batches; the counts above are on the \
                     mini-batches by which the policy was selected"
                        .into()
                },
                verdict
            )
        )
    }
}

fn verdict(Comparison { mini_batches, critical, learned, .. }: Comparison) -> String {
    let percent = 100.0 * critical.abs_diff(learned) as f64 / critical.max(1) as f64;
    let difference = match learned.cmp(&critical) {
        std::cmp::Ordering::Less => format!("{percent:.1} % fewer batches"),
        std::cmp::Ordering::Equal => "the same number of batches".into(),
        std::cmp::Ordering::Greater => format!("{percent:.1} % more batches"),
    };
    format!("{difference}, on {mini_batches} unseen mini-batches")
}

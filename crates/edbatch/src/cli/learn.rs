//! `edbatch learn`: a policy for a model's graphs, or for any.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use edbatch_graph::Dag;
use edbatch_policy::{
    AnyPolicy, Beam, Comparison, FsmTable, Learned, LearnedRule, LearningConfig, LookAhead,
    NamedEncoding, Outcome, TrainingSet, compare, hold_out, learn_rule, set_aside,
};
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::failure::Failure;
use super::learning_data::{LearningData, of_graphs, of_model};
use super::output::Output;
use super::{at_least_one, progress};

/// Learns which kind of node to run next and writes it to a file.
///
/// A quarter of the mini-batches, three at least, is set aside: nothing is learned or selected on
/// them, and what was learned is compared with the policy critical there. Of fewer than six
/// mini-batches none is set aside, and nothing is compared. The same seed gives the same file, byte
/// by byte.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch learn model --input train.txt.gz --output policy.json
  edbatch infer model --policy policy.json --output logits.jsonl
  edbatch learn graphs/*.txt --output table.json --method q --encoding sort")]
pub(crate) struct Learn {
    /// A model's folder, or graphs in the text format, each of them a mini-batch.
    #[arg(value_name = "DIR|GRAPH", required = true)]
    of: Vec<PathBuf>,
    /// File for the policy.
    #[arg(long, value_name = "POLICY.json")]
    output: PathBuf,
    /// A model's inputs, plain or .gz; by default those that its config.json names.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// What is learned, and how; pairs, unless an encoding is given.
    #[arg(long, value_name = "M")]
    method: Option<Method>,
    /// What a table's state holds: base (the ready kinds), max (also which of them has most nodes),
    /// sort (in what order, by how many; the default), phase (also how many eighths of the graph
    /// have run), critical (what the policy critical sees). With it the method is q, unless it is
    /// distill.
    #[arg(long, value_name = "E")]
    encoding: Option<NamedEncoding>,
    /// Write an empty table, which decides as critical does, where critical is as good on the
    /// mini-batches by which tables or rules are selected.
    #[arg(long)]
    or_critical: bool,
    /// Instances in a mini-batch of a model.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    batch: usize,
    /// Most episodes, each of which schedules a mini-batch; by default 1000 for q and 3000 for
    /// pairs. Learning ends earlier when there is nothing left to gain.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    episodes: Option<usize>,
    /// Seed of the random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// A way to learn.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// What a batch of one kind is worth to the next batch of another, as a weight for each pair of
    /// kinds: the best on graphs that were not learned on.
    Pairs,
    /// A finite state machine, by tabular Q-learning as in the paper.
    Q,
    /// A finite state machine that does in each state what a beam search of width 32 does most
    /// often.
    Distill,
}

/// What was learned, and what its report tells of it.
struct LearnedPolicy {
    json: String,
    policy: AnyPolicy,
    episodes: usize,
    states: usize,
    /// On the mini-batches by which it was selected.
    selected: Comparison,
}

impl Learn {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.method == Some(Method::Pairs) && self.encoding.is_some() {
            let message = "--encoding is for tables: expected --method q or distill, got pairs";
            return Err(Failure::Usage(message.into()));
        }
        match self.of.as_slice() {
            [dir] if dir.is_dir() => self.learn(of_model(dir, self.input.as_deref(), self.batch)?),
            graphs if graphs.iter().any(|path| path.is_dir()) => {
                Err(Failure::Usage("expected one model's folder or files of graphs".into()))
            }
            _ if self.input.is_some() => {
                Err(Failure::Usage("--input is for a model's folder; graphs have none".into()))
            }
            graphs => self.learn(of_graphs(graphs)?),
        }
    }

    fn method(&self) -> Method {
        let of_encoding = if self.encoding.is_some() { Method::Q } else { Method::Pairs };
        self.method.unwrap_or(of_encoding)
    }

    fn encoding(&self) -> NamedEncoding {
        self.encoding.clone().unwrap_or(NamedEncoding::Sort)
    }

    fn learn<D: Dag>(&self, data: LearningData<D>) -> Result<(), Failure> {
        let mut output = Output::open(Some(&self.output))?;
        let LearningData { kinds, mini_batches, source } = data;
        let (learn, unseen) = set_aside(mini_batches);
        let started = Instant::now();
        let bar = match self.method() {
            Method::Pairs | Method::Q => progress::over(self.episodes() as u64),
            Method::Distill => progress::spinner("searching schedules to learn from"),
        };
        let mut learned = match self.method() {
            Method::Pairs => self.rule(&learn, &kinds, &source, &bar)?,
            Method::Q | Method::Distill => self.table(learn, &kinds, &source, &bar)?,
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
            Method::Q | Method::Distill => 1000,
        })
    }

    fn rng(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.seed)
    }

    /// Learns the constants of a rule.
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
            return Ok(of_table(&outcome, &self.encoding(), kinds, source, train.len()));
        }
        Ok(LearnedPolicy {
            json: LearnedRule::new(&outcome, kinds, source).to_json(),
            episodes: outcome.episodes,
            states: outcome.rule.weights.len(),
            selected: of_selection(before, after, bound),
            policy: Box::new(LookAhead::new(outcome.rule)),
        })
    }

    /// Learns a table of states.
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
        let mut outcome = if self.method() == Method::Distill {
            edbatch_policy::distill(&set, &encoding, &mut Beam::new(32))
        } else {
            let episodes = self.episodes();
            let config = LearningConfig { episodes, ..LearningConfig::default() };
            edbatch_policy::learn(&set, &encoding, &config, &mut self.rng(), |progress| {
                bar.set_position(progress.episode as u64);
            })
        };
        if self.or_critical {
            outcome = outcome.or_critical(&encoding);
        }
        Ok(of_table(&outcome, &encoding, kinds, source, train.len()))
    }
}

fn of_table(
    outcome: &Outcome,
    encoding: &NamedEncoding,
    kinds: &[String],
    source: &str,
    mini_batches: usize,
) -> LearnedPolicy {
    let learned = Learned::new(outcome, encoding.clone(), kinds, source, mini_batches);
    LearnedPolicy {
        json: learned.to_json(),
        policy: Box::new(outcome.fsm(encoding.clone(), kinds.len())),
        episodes: outcome.episodes,
        states: outcome.table.len(),
        selected: of_selection(outcome.before, outcome.after, outcome.bound),
    }
}

/// What a method counted on the mini-batches by which it selected.
fn of_selection(critical: usize, learned: usize, bound: usize) -> Comparison {
    Comparison { mini_batches: 0, critical, learned, bound }
}

impl LearnedPolicy {
    /// What is printed; the counts are those on unseen mini-batches, if there are any.
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
                || "could not be: that takes six mini-batches; the batches above are of those that \
                    it was selected on"
                    .into(),
                verdict
            )
        )
    }
}

fn verdict(Comparison { mini_batches, critical, learned, .. }: Comparison) -> String {
    let percent = 100.0 * critical.abs_diff(learned) as f64 / critical.max(1) as f64;
    let difference = match learned.cmp(&critical) {
        std::cmp::Ordering::Less => format!("{percent:.1} % fewer batches"),
        std::cmp::Ordering::Equal => "as many batches".into(),
        std::cmp::Ordering::Greater => format!("{percent:.1} % more batches"),
    };
    format!("{difference}, on {mini_batches} mini-batches that nothing was selected on")
}

//! `edbatch evaluate`: the quality of a model on examples.

use std::path::PathBuf;

use clap::Args;
use edbatch::{EngineOptions, Loaded, load};

use super::metric::Metric;
use crate::device::Device;
use crate::failure::Failure;
use crate::model::examples::Examples;
use crate::output::print;
use crate::precision::Precision;
use crate::{name_of, number_of_threads, threads_or_cores};

/// Computes a metric of a model on examples, and prints one line, such as `accuracy: 0.7312`.
///
/// Targets are the labels of trees, the tags of sentences and the labels of lattices. A translator
/// is forced to write the lines of `--targets`.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch evaluate model --input test.txt --metric accuracy")]
pub(crate) struct Evaluate {
    /// Folder of the model.
    dir: PathBuf,
    /// File of inputs with targets, plain or .gz.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// File of translations, one for each line of the input [default: "target" of config.json].
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// Metric to compute. May be given several times, for a line each.
    #[arg(long, value_enum, value_name = "M", required = true)]
    metric: Vec<Metric>,
    /// Number of threads that share each mini-batch. By default the number of cores.
    #[arg(long, value_name = "N", value_parser = number_of_threads)]
    threads: Option<usize>,
    #[command(flatten)]
    device: Device,
    /// Precision of products of weights and vectors.
    #[arg(long, value_name = "P", value_enum, default_value_t = Precision::F32)]
    precision: Precision,
}

impl Evaluate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.device.check_engine(self.precision)?;
        let Loaded { folder, model, parameters } = load(&self.dir).map_err(Failure::new)?;
        self.metric.iter().try_for_each(|metric| metric.check(&folder))?;
        let targets = self.targets.as_slice();
        let examples = Examples::read(&folder, std::slice::from_ref(&self.input), targets)?;
        self.metric.iter().try_for_each(|metric| metric.check_targets(&folder, &examples))?;
        let threads = threads_or_cores(self.threads);
        let options = EngineOptions::new().threads(threads);
        let mut engine = self.device.engine(model, &parameters, options, self.precision)?;
        for metric in &self.metric {
            let value = metric.evaluate(&mut engine, &parameters, &folder, &examples)?;
            print(&format!("{}: {value:.4}\n", name_of(metric)))?;
        }
        Ok(())
    }
}

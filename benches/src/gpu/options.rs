//! The options of `cargo xtask gpu`, and of the `run` of a pack.

use std::path::PathBuf;

use clap::Parser;
use edbatch_models::ModelName;

use super::device::DeviceKind;
use super::record::Part;
use super::setting::MODELS;
use crate::sets::Source;

/// Verifies the CUDA backend on this machine's GPU, then measures it.
///
/// Ends with tables beside what was predicted, what each figure decides, and a page. Every part
/// ends within minutes, and what it found is written at once; all together take about 32 minutes.
#[derive(Parser)]
#[command(
    name = "edbatch-gpu",
    bin_name = "cargo xtask gpu",
    after_help = "Examples:\n  cargo xtask gpu --only probe,verify,latencies --minutes 10\n  \
                  cargo xtask gpu --pack folder     # then, elsewhere: folder/run"
)]
pub struct Options {
    /// These parts alone, divided by commas; in any case in the order below
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    pub only: Vec<Part>,

    /// Ends after so many minutes: what is left is skipped
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub minutes: Option<f64>,

    /// Makes a folder whose `run` does all this on another machine, with neither compiler, network
    /// nor repository; it must not exist
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = ["only", "minutes", "json", "html", "data"])]
    pub pack: Option<PathBuf>,

    /// The architecture that the kernels of a pack are compiled for
    #[arg(long, value_name = "ARCH", default_value = "sm_90a")]
    pub arch: String,

    /// Which device
    #[arg(long, value_name = "DEVICE", default_value = "cuda")]
    pub device: DeviceKind,

    /// Hidden vectors of 256 and mini-batches of 64 alone
    #[arg(long)]
    pub quick: bool,

    /// These models alone, divided by commas
    #[arg(long, value_delimiter = ',', value_name = "MODEL", value_parser = model)]
    pub models: Vec<String>,

    /// How many random networks are verified [default: 200; emulated: 2; a pack has kernels of: 8]
    #[arg(long, value_name = "N")]
    pub networks: Option<u64>,

    /// Real inputs of a folder, as `cargo xtask data fetch` makes it, in place of generated ones
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Where the records are written [default: gpu.json under target/gpu, or in the pack]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Where the page is written [default: gpu.html beside the records]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Compiles what a pack needs into the user's cache.
    #[arg(long, hide = true)]
    pub compile: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| "expected a number of minutes".to_string())?;
    match minutes > 0.0 && minutes <= 24.0 * 60.0 {
        true => Ok(minutes),
        false => Err("expected more than 0 and at most 1440".into()),
    }
}

fn model(name: &str) -> Result<String, String> {
    let names: Vec<&str> = ModelName::ALL.iter().map(|model| model.name()).collect();
    match names.contains(&name) {
        true => Ok(name.into()),
        false => Err(format!("expected one of: {}", names.join(", "))),
    }
}

impl Options {
    /// Whether a part is wanted.
    #[must_use]
    pub fn takes(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// Whether a model is wanted.
    #[must_use]
    pub fn takes_model(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|wanted| wanted == model)
    }

    /// The workloads that are wanted.
    pub fn workloads(&self) -> impl Iterator<Item = &'static str> {
        MODELS.into_iter().filter(|model| self.takes_model(model))
    }

    /// Whether it is a rehearsal.
    #[must_use]
    pub fn is_rehearsal(&self) -> bool {
        self.device == DeviceKind::Emulated
    }

    /// Sizes of hidden vectors, the one that counts first.
    #[must_use]
    pub fn hidden(&self) -> &'static [usize] {
        match (self.is_rehearsal(), self.quick) {
            (true, _) => &[12],
            (false, true) => &[256],
            (false, false) => &[256, 128, 512],
        }
    }

    /// Sizes of mini-batches, the one that counts first.
    #[must_use]
    pub fn batches(&self) -> &'static [usize] {
        match (self.is_rehearsal(), self.quick) {
            (true, _) => &[8],
            (false, true) => &[64],
            (false, false) => &[64, 1, 8, 256],
        }
    }

    /// How many random networks are verified.
    #[must_use]
    pub fn networks(&self) -> u64 {
        self.networks.unwrap_or(match (self.is_rehearsal(), self.pack.is_some() || self.compile) {
            (true, _) => 2,
            (false, true) => 8,
            (false, false) => 200,
        })
    }

    /// Where inputs come from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.data.clone().map_or(Source::Generated, Source::Folder)
    }
}

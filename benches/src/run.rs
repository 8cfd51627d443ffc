//! A run: its steps, one measurement each, in the order in which people want to know.

mod name;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use edbatch_policy::Fsm;

use crate::backends::devices;
use crate::cell_layouts::cell_layouts;
use crate::counts::{counts, counts_of_file, published};
use crate::families::{FAMILIES, Family};
use crate::growth::{GROWING, growth};
use crate::learning::learning;
use crate::options::{Options, Part};
use crate::paper_table::CORTEX;
use crate::peers::{self, Peers, Program, peers};
use crate::policies::Effort;
use crate::pq_trees::pq_trees;
use crate::record::{Breakdown, Figures, Throughput};
use crate::rounds::LAPS;
use crate::sets::SetError;
use crate::soak::soak;
use crate::systems::System;
use crate::throughput::{self, Setting, learned_by_paper, throughput};
use crate::workload::Failure;

/// One measurement of a run.
pub struct Step<'a> {
    what: What<'a>,
    /// Seconds that it takes on the machine that this was written on, of a run with a limit.
    weight: f64,
}

enum What<'a> {
    Throughput { family: &'a Family, hidden: usize, batch: usize },
    Latency { family: &'a Family, hidden: usize, batch: usize, systems: Vec<System> },
    Paper { family: &'a Family, hidden: usize, batch: usize },
    Counts { family: &'a Family, batch: usize },
    Learn { family: &'a Family, batch: usize },
    Published(PathBuf),
    Growth(&'a Family),
    Peers { family: &'a Family, hidden: usize, batch: usize, programs: Vec<Program> },
    Cells,
    PqTree,
    Soak(&'a [Family]),
}

/// The chosen models on all their sets. A set that is not in the folder is left out with a word
/// about it, unless nothing else is left.
///
/// # Errors
/// If a file is malformed, or there is no set at all.
pub fn families(options: &Options) -> Result<Vec<Family>, Failure> {
    let source = options.source();
    let mut families = Vec::new();
    let mut missing = None;
    for (model, meet) in FAMILIES {
        if options.models.is_empty() || options.models.iter().any(|chosen| chosen == model) {
            match meet(&source) {
                Ok(family) => families.push(family),
                Err(error @ SetError::Missing { .. }) => {
                    eprintln!("{model}: {error}");
                    missing = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    match missing {
        Some(error) if families.is_empty() => Err(error.into()),
        _ => Ok(families),
    }
}

/// All steps of a run.
///
/// # Errors
/// If the folder of published graphs cannot be read.
pub fn steps<'a>(options: &Options, families: &'a [Family]) -> Result<Vec<Step<'a>>, Failure> {
    let mut steps = Vec::new();
    let mut add = |what, weight| steps.push(Step { what, weight });
    let sizes = |family: &Family, batches: Vec<usize>| {
        let hidden = options.hidden(family).into_iter();
        hidden.flat_map(move |hidden| batches.clone().into_iter().map(move |batch| (hidden, batch)))
    };
    if options.wants(Part::Throughput) || options.wants(Part::Breakdown) {
        for family in families {
            for (hidden, batch) in sizes(family, options.batches()) {
                add(What::Throughput { family, hidden, batch }, 6.0);
            }
        }
    }
    let installed = if options.peers { Program::installed() } else { Vec::new() };
    for family in families {
        let knows = |program: &Program| program.knows(family.model);
        let programs: Vec<Program> = installed.iter().copied().filter(knows).collect();
        if !programs.is_empty() {
            for (hidden, batch) in sizes(family, options.batches_of_peers()) {
                let programs = programs.clone();
                add(What::Peers { family, hidden, batch, programs }, 4.0);
            }
        }
    }
    if options.wants(Part::Latency) {
        for family in families {
            // The smallest size, where a mini-batch's costs beside its products weigh most.
            let sizes = if options.hidden.is_empty() { 1 } else { options.hidden.len() };
            for hidden in options.hidden(family).into_iter().take(sizes) {
                for batch in options.batches_of_latency() {
                    let systems = options.systems_of_latency();
                    add(What::Latency { family, hidden, batch, systems }, 2.0);
                }
            }
        }
    }
    if options.wants(Part::Paper) {
        paper_steps(options, families, &mut add);
    }
    for family in families {
        if options.wants(Part::Counts) {
            for batch in options.batches_of_counts() {
                add(What::Counts { family, batch }, 0.5);
            }
        }
        if options.wants(Part::Learn) {
            for batch in options.batches_to_learn() {
                add(What::Learn { family, batch }, 0.6);
            }
        }
    }
    if options.wants(Part::Counts) || options.wants(Part::Paper) {
        published(&options.source())?.into_iter().for_each(|path| add(What::Published(path), 1.0));
    }
    if options.wants(Part::Growth) {
        for model in GROWING {
            let family = families.iter().find(|family| family.model == model);
            family.into_iter().for_each(|family| add(What::Growth(family), 3.0));
        }
    }
    if options.wants(Part::Cells) || options.wants(Part::Paper) {
        add(What::Cells, 0.1);
    }
    if options.wants(Part::PqTree) {
        add(What::PqTree, 2.0);
    }
    if options.wants(Part::Soak) {
        add(What::Soak(families), 1.0);
    }
    // Parts may want the same of a model; it is measured once.
    let mut names = HashSet::new();
    steps.retain(|step| names.insert(step.name(options)));
    Ok(steps)
}

/// What the paper's evaluation has in tables and figures: throughput at all its sizes, latencies
/// beside Cortex's, batches by algorithm, learning.
fn paper_steps<'a>(options: &Options, families: &'a [Family], add: &mut impl FnMut(What<'a>, f64)) {
    for printed in &CORTEX {
        let family = families.iter().find(|family| family.model == printed.model);
        let (hidden, batch) = (printed.hidden, printed.batch);
        if let Some(family) = family {
            let systems = vec![System::Edbatch];
            add(What::Latency { family, hidden, batch, systems }, 3.0);
        }
    }
    for family in families {
        add(What::Counts { family, batch: 64 }, 20.0);
        add(What::Learn { family, batch: 64 }, 10.0);
    }
    for family in families {
        for (hidden, batch) in options.sizes_of_paper(family) {
            let weight = 2.0 + hidden as f64 / 64.0;
            add(What::Paper { family, hidden, batch }, weight);
        }
    }
}

/// What steps of a run share, and what laps have shown of those that have begun.
pub struct Context<'a> {
    options: &'a Options,
    /// Contestants on devices that are there.
    devices: Vec<System>,
    /// What the paper's system has learned, by model, set and mini-batch.
    learned: HashMap<(&'static str, &'static str, usize), Fsm>,
    timed: HashMap<String, throughput::Laps>,
    peers: HashMap<String, peers::Laps>,
}

impl<'a> Context<'a> {
    /// Nothing has been learned yet. Says which of the chosen backends are not there.
    ///
    /// # Errors
    /// If a model cannot be declared.
    pub fn new(options: &'a Options, families: &[Family]) -> Result<Self, Failure> {
        let found = match families.first() {
            Some(family) if !options.backends.is_empty() => devices(&options.backends, family)?,
            _ => Vec::new(),
        };
        let on_device = |system: &System| found.contains(&system.backend());
        let devices = System::DEVICES.into_iter().filter(on_device).collect();
        let (timed, peers) = (HashMap::new(), HashMap::new());
        Ok(Self { options, devices, learned: HashMap::new(), timed, peers })
    }

    /// Contestants for so many seconds that the visit ends in time: setting up takes some, and
    /// counting what was done.
    fn setting(
        &self,
        hidden: usize,
        batch: usize,
        mut systems: Vec<System>,
        seconds: Option<f64>,
    ) -> Setting {
        systems.extend(&self.devices);
        const TIMED: f64 = 0.6;
        let (threads, nominal) = (self.options.threads(), self.options.nominal());
        let contestants = (systems.len() * threads.len()) as f64;
        let usual = self.options.seconds() * contestants / LAPS as f64;
        let seconds = seconds.map_or(usual, |limit| limit * TIMED);
        Setting { hidden, batch, systems, seconds, nominal, threads }
    }

    /// A further lap of a step.
    fn timed(
        &mut self,
        step: String,
        family: &Family,
        setting: &Setting,
        say: impl FnMut(&str),
    ) -> Result<Option<Vec<(Throughput, Breakdown)>>, Failure> {
        let learned = self.learned(family, setting.batch)?;
        let laps = self.timed.entry(step).or_default();
        throughput(family, setting, &learned, laps, say)
    }

    fn learned(&mut self, family: &Family, batch: usize) -> Result<Fsm, Failure> {
        let key = (family.model, family.input, batch);
        if let Some(known) = self.learned.get(&key) {
            return Ok(known.clone());
        }
        let learned = learned_by_paper(family, &self.options.systems(), batch)?;
        Ok(self.learned.entry(key).or_insert(learned).clone())
    }
}

impl Step<'_> {
    /// Whether what it says on the way is to stay on the terminal: it runs for long.
    #[must_use]
    pub fn is_long(&self) -> bool {
        matches!(self.what, What::Soak(_))
    }

    /// Whether it is measured in laps, and not in one visit.
    pub(crate) fn has_laps(&self) -> bool {
        match &self.what {
            What::Throughput { .. }
            | What::Latency { .. }
            | What::Paper { .. }
            | What::Peers { .. } => true,
            What::Counts { .. }
            | What::Learn { .. }
            | What::Published(_)
            | What::Growth(_)
            | What::Cells
            | What::PqTree
            | What::Soak(_) => false,
        }
    }

    /// What a visit weighs.
    pub(crate) fn weight(&self) -> f64 {
        if self.has_laps() { self.weight / LAPS as f64 } else { self.weight }
    }

    /// Measures; before the last lap, there are no figures yet. `seconds` are those in which the
    /// visit should end, if the run has a limit.
    ///
    /// # Errors
    /// If something cannot be measured, or results are wrong.
    pub fn run(
        &self,
        context: &mut Context<'_>,
        seconds: Option<f64>,
        say: impl FnMut(&str),
    ) -> Result<Option<Vec<Figures>>, Failure> {
        let options = context.options;
        let effort = options.effort();
        let name = self.name(options);
        Ok(Some(match &self.what {
            &What::Throughput { family, hidden, batch } => {
                let setting = context.setting(hidden, batch, options.systems(), seconds);
                let wanted = (options.wants(Part::Throughput), options.wants(Part::Breakdown));
                let measured = context.timed(name, family, &setting, say)?;
                return Ok(measured.map(|measured| figures(measured, wanted)));
            }
            &What::Paper { family, hidden, batch } => {
                let setting = context.setting(hidden, batch, options.systems_of_paper(), seconds);
                let measured = context.timed(name, family, &setting, say)?;
                // Its figure of the decomposition of time has this size alone.
                let wanted = (true, (hidden, batch) == (128, 64));
                return Ok(measured.map(|measured| figures(measured, wanted)));
            }
            What::Latency { family, hidden, batch, systems } => {
                let setting = context.setting(*hidden, *batch, systems.clone(), seconds);
                let measured = context.timed(name, family, &setting, say)?.into_iter().flatten();
                let figures = measured.map(|(throughput, _)| Figures::Latency(throughput));
                let figures: Vec<Figures> = figures.collect();
                return Ok(Some(figures).filter(|figures| !figures.is_empty()));
            }
            What::Counts { family, batch } => {
                let counted = counts(family, *batch, effort, say)?;
                counted.into_iter().map(Figures::Counts).collect()
            }
            What::Learn { family, batch } => {
                let learned = learning(family, *batch, effort, say)?;
                learned.into_iter().map(Figures::Learn).collect()
            }
            What::Published(path) => {
                counts_of_file(path, effort)?.into_iter().map(Figures::Counts).collect()
            }
            What::Growth(family) => {
                let effort = if options.quick { Effort::Quick } else { Effort::Full };
                growth(family, effort, say)?.into_iter().map(Figures::Growth).collect()
            }
            What::Peers { family, hidden, batch, programs } => {
                let (hidden, batch, nominal) = (*hidden, *batch, options.nominal());
                let seconds = options.seconds() / LAPS as f64;
                let setting = Peers { programs, hidden, batch, seconds, nominal };
                let mut laps = context.peers.remove(&name).unwrap_or_default();
                let measured = peers(family, setting, &mut laps, say)?;
                context.peers.insert(name, laps);
                return Ok(measured.map(|peers| peers.into_iter().map(Figures::Peer).collect()));
            }
            What::Cells => cell_layouts()?.into_iter().map(Figures::Cells).collect(),
            What::PqTree => {
                let seconds = if effort == Effort::Full { 0.5 } else { 0.1 };
                pq_trees(effort, seconds, say).into_iter().map(Figures::PqTree).collect()
            }
            What::Soak(families) => {
                vec![Figures::Soak(soak(families, options.seconds_of_soak(), say)?)]
            }
        }))
    }
}

/// Speeds, where the time goes, or both.
fn figures(
    measured: Vec<(Throughput, Breakdown)>,
    (throughputs, breakdowns): (bool, bool),
) -> Vec<Figures> {
    let both = measured.into_iter().flat_map(|(throughput, breakdown)| {
        let throughput = throughputs.then_some(Figures::Throughput(throughput));
        let breakdown = breakdowns.then_some(Figures::Breakdown(breakdown));
        throughput.into_iter().chain(breakdown)
    });
    both.collect()
}

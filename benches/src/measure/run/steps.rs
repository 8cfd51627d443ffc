//! The list of a run's steps, by the chosen parts.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{Context, Pace, Say, Step};
use crate::Failure;
use crate::measure::cells::cells;
use crate::measure::counts::{counts, counts_of_file, published};
use crate::measure::families::Family;
use crate::measure::gpu::findings;
use crate::measure::gpu::training::{ON_CUDA, training as on_device};
use crate::measure::growth::{SOME_OF_EACH, growth};
use crate::measure::options::{DeviceKind, Options, Part};
use crate::measure::peers::program::Program;
use crate::measure::peers::{self, Peers, peers};
use crate::measure::policies::{Effort, learning};
use crate::measure::pq_trees::pq_trees;
use crate::measure::rounds::LAPS;
use crate::measure::soak::soak;
use crate::measure::systems::System;
use crate::measure::throughput;
use crate::measure::training::training;
use crate::measure::workload::PEERS;
use crate::paper::CORTEX;
use crate::record::{Breakdown, Figures, Throughput};

/// The steps of a run under construction.
struct Steps<'a> {
    options: &'a Options,
    families: &'a [Family],
    steps: Vec<Step<'a>>,
}

/// Returns all steps of a run.
pub fn steps<'a>(options: &'a Options, families: &'a [Family]) -> Result<Vec<Step<'a>>, Failure> {
    let mut all = Steps { options, families, steps: Vec::new() };
    let wants = |part| options.wants(part);
    Part::DEVICE[..4].iter().filter(|&&part| wants(part)).for_each(|&part| all.on_device(part));
    all.speed();
    for rival in options.rivals() {
        let installed = Program::installed(&[rival]);
        for (family, hidden, batch) in all.sizes(Part::Peers) {
            all.peers(family, hidden, batch, &installed);
        }
    }
    if wants(Part::Latency) {
        all.latency();
    }
    if wants(Part::Paper) {
        all.paper();
    }
    for family in families {
        if wants(Part::Counts) {
            for batch in options.batches(Part::Counts) {
                all.counts(family, batch, 0.5);
            }
        }
        if wants(Part::Learn) {
            for batch in options.batches(Part::Learn) {
                all.learn(family, batch, 0.6);
            }
        }
    }
    if wants(Part::Counts) || wants(Part::Paper) {
        all.counts_of_files()?;
    }
    if wants(Part::Growth) {
        all.growth();
    }
    if wants(Part::Training) {
        all.training();
    }
    if wants(Part::Cells) || wants(Part::Paper) {
        all.once("cells".into(), 0.1, |_| Ok(cells()?.into_iter().map(Figures::Cells).collect()));
    }
    if wants(Part::PqTree) {
        let effort = options.effort();
        let seconds = if effort == Effort::Full { 0.5 } else { 0.1 };
        all.once("pqtree".into(), 2.0, move |say| {
            Ok(pq_trees(effort, seconds, say).into_iter().map(Figures::PqTree).collect())
        });
    }
    if wants(Part::Soak) {
        let seconds = options.seconds_of_soak();
        all.add(format!("soak: {seconds} s"), Pace::Long, 1.0, move |_, _, say| {
            Ok(vec![Figures::Soak(soak(families, seconds, say)?)])
        });
    }
    Part::DEVICE[4..].iter().filter(|&&part| wants(part)).for_each(|&part| all.on_device(part));
    // Two parts may contain the same step; it is measured once.
    let mut names = HashSet::new();
    all.steps.retain(|step| names.insert(step.name.clone()));
    Ok(all.steps)
}

type Visited = Result<Vec<Figures>, Failure>;

impl<'a> Steps<'a> {
    fn add(
        &mut self,
        name: String,
        pace: Pace,
        weight: f64,
        visit: impl FnMut(&mut Context<'a>, Option<f64>, Say<'_>) -> Visited + 'a,
    ) {
        self.steps.push(Step { name, pace, weight, visit: RefCell::new(Box::new(visit)) });
    }

    fn once(&mut self, name: String, weight: f64, mut visit: impl FnMut(Say<'_>) -> Visited + 'a) {
        self.add(name, Pace::Once, weight, move |_, _, say| visit(say));
    }

    /// Returns all workloads in all sizes.
    fn sizes(&self, part: Part) -> Vec<(&'a Family, usize, usize)> {
        let mut sizes = Vec::new();
        for family in self.families {
            for hidden in self.options.hidden(family) {
                let batches = self.options.batches(part).into_iter();
                sizes.extend(batches.map(|batch| (family, hidden, batch)));
            }
        }
        sizes
    }

    /// Adds throughput and breakdowns, which are measured together.
    fn speed(&mut self) {
        let wants = |part| self.options.wants(part);
        let (part, figures): (_, fn(_, _) -> _) =
            match (wants(Part::Throughput), wants(Part::Breakdown)) {
                (true, true) => ("speed", both),
                (true, false) => ("throughput", |speed, _| vec![Figures::Throughput(speed)]),
                (false, true) => ("breakdown", |_, phases| vec![Figures::Breakdown(phases)]),
                (false, false) => return,
            };
        for size in self.sizes(Part::Throughput) {
            let systems = self.options.systems(Part::Throughput, size.2);
            // A device is measured in few sizes.
            let weight = if self.options.gpu { 18.0 } else { 6.0 };
            self.timed(part, size, systems, weight, figures);
        }
    }

    /// Adds latencies at the smallest size, where overheads weigh most.
    fn latency(&mut self) {
        let options = self.options;
        for family in self.families {
            let sizes = if options.hidden.is_empty() { 1 } else { options.hidden.len() };
            for hidden in options.hidden(family).into_iter().take(sizes) {
                for batch in options.batches(Part::Latency) {
                    let systems = options.systems(Part::Latency, batch);
                    self.timed("latency", (family, hidden, batch), systems, 2.0, latency);
                }
            }
        }
    }

    /// Adds a step that is timed in laps; `figures` picks what is recorded.
    fn timed(
        &mut self,
        part: &str,
        (family, hidden, batch): (&'a Family, usize, usize),
        systems: Vec<System>,
        weight: f64,
        figures: fn(Throughput, Breakdown) -> Vec<Figures>,
    ) {
        let (options, mut laps) = (self.options, throughput::Laps::default());
        let setting = options.setting(hidden, batch, systems);
        let name = format!("{part}: {}{}", sized(family, hidden, batch), chosen(options));
        self.add(name, Pace::Laps, weight, move |context, seconds, say| {
            let measured = context.timed(family, &setting, seconds, &mut laps, say)?;
            let each = |(throughput, breakdown)| figures(throughput, breakdown);
            Ok(measured.into_iter().flat_map(each).collect())
        });
    }

    fn peers(&mut self, family: &'a Family, hidden: usize, batch: usize, installed: &[Program]) {
        let knows = |program: &Program| program.knows(family.model);
        let programs: Vec<Program> = installed.iter().copied().filter(knows).collect();
        let Some(first) = programs.first() else { return };
        let (options, mut laps) = (self.options, peers::Laps::default());
        let on_cuda = if first.rival().on_cuda().is_some() { " on cuda" } else { "" };
        let whole = if options.whole { " (whole)" } else { "" };
        let name = format!("peers{on_cuda}: {} or more{whole}", sized(family, hidden, batch));
        let weight = if options.gpu { 45.0 } else { 4.0 };
        self.add(name, Pace::Laps, weight, move |context, _, say| {
            let (device, whole) = (context.device, options.whole);
            let seconds = options.seconds() / LAPS as f64;
            let setting = Peers { programs: &programs, hidden, batch, seconds, whole, device };
            peers(family, setting, &mut laps, say)
        });
    }

    fn counts(&mut self, family: &'a Family, batch: usize, weight: f64) {
        let effort = self.options.effort();
        self.once(format!("counts: {}, batch {batch}", on(family)), weight, move |say| {
            Ok(counts(family, batch, effort, say)?.into_iter().map(Figures::Counts).collect())
        });
    }

    fn counts_of_files(&mut self) -> Result<(), Failure> {
        let effort = self.options.effort();
        for path in published(&self.options.source())? {
            let name = format!("counts: {}", path.file_name().unwrap_or_default().display());
            self.once(name, 1.0, move |_| {
                Ok(counts_of_file(&path, effort)?.into_iter().map(Figures::Counts).collect())
            });
        }
        Ok(())
    }

    fn growth(&mut self) {
        let (options, families) = (self.options, self.families);
        let chosen = families.iter().filter(|family| SOME_OF_EACH.contains(&family.model));
        let mut chosen: Vec<&Family> = chosen.collect();
        chosen.dedup_by_key(|family| family.model);
        for family in chosen {
            self.once(format!("growth: {}", on(family)), 3.0, |say| {
                let effort = if options.quick { Effort::Quick } else { Effort::Full };
                Ok(growth(family, effort, say)?.into_iter().map(Figures::Growth).collect())
            });
        }
    }

    fn learn(&mut self, family: &'a Family, batch: usize, weight: f64) {
        let effort = self.options.effort();
        self.once(format!("learn: {}, batch {batch}", on(family)), weight, move |say| {
            Ok(learning(family, batch, effort, say)?.into_iter().map(Figures::Learn).collect())
        });
    }

    /// Adds the tables and figures of the paper's evaluation: throughput at all sizes, latencies
    /// for the comparison with Cortex, batches by algorithm, and learning.
    fn paper(&mut self) {
        let (options, families) = (self.options, self.families);
        for ((model, hidden, batch), _) in CORTEX {
            let family = families.iter().find(|family| family.model == model);
            if let Some(family) = family {
                let systems = vec![System::Edbatch];
                self.timed("latency", (family, hidden, batch), systems, 3.0, latency);
            }
        }
        for family in families {
            self.counts(family, 64, 20.0);
            self.learn(family, 64, 10.0);
        }
        for family in families {
            for (hidden, batch) in options.sizes_of_paper(family) {
                let systems = options.systems(Part::Paper, batch);
                let weight = 2.0 + hidden as f64 / 64.0;
                // The paper shows the time by phase only for this size.
                let figures = match (hidden, batch) {
                    (128, 64) => both,
                    _ => |speed, _| vec![Figures::Throughput(speed)],
                };
                self.timed("paper", (family, hidden, batch), systems, weight, figures);
            }
        }
    }

    /// Adds a step for each trained model, size and number of threads.
    fn training(&mut self) {
        let (options, families) = (self.options, self.families);
        let trained = families.iter().filter(|family| SOME_OF_EACH.contains(&family.model));
        let mut trained: Vec<&Family> = trained.collect();
        trained.dedup_by_key(|family| family.model);
        let peers = if options.gpu { ON_CUDA } else { PEERS }.into_iter();
        let peers = peers.filter(|_| options.peers && !trained.is_empty());
        // PyTorch rehearses on the processor, too.
        let is_installed = |&program: &Program| match options.device {
            DeviceKind::Emulated => Program::PyTorch.is_installed(),
            DeviceKind::Cuda => program.is_installed(),
        };
        let peers: Vec<Program> = peers.filter(is_installed).collect();
        let suffix = if peers.is_empty() { "" } else { ", peers" };
        for family in trained {
            for (hidden, batch) in options.hidden(family).into_iter().flat_map(|hidden| {
                options.batches(Part::Training).into_iter().map(move |batch| (hidden, batch))
            }) {
                let sized = sized(family, hidden, batch);
                if options.gpu {
                    let (name, peers) = (format!("training: {sized}{suffix}"), peers.clone());
                    self.add(name, Pace::Once, 15.0, move |context, seconds, say| {
                        let device = context.device.ok_or("no device was opened")?;
                        let seconds = seconds.unwrap_or(30.0).min(30.0);
                        let seconds = (!device.is_emulated()).then_some(seconds);
                        let size = (hidden, batch);
                        let findings = on_device(family, size, device, &peers, seconds, say)?;
                        Ok(findings.into_iter().map(Figures::Device).collect())
                    });
                    continue;
                }
                for threads in options.setting(hidden, batch, vec![]).threads {
                    let name = format!("training: {sized}, {threads} threads{suffix}");
                    let peers = peers.clone();
                    self.add(name, Pace::Once, 4.0, move |_, seconds, say| {
                        let seconds = seconds.unwrap_or(30.0);
                        let size = (hidden, batch, threads);
                        let measured = training(family, size, &peers, seconds, say)?;
                        Ok(vec![Figures::Training(measured)])
                    });
                }
            }
        }
    }

    /// Adds a part for a device, with a limit of its duration.
    fn on_device(&mut self, part: Part) {
        let (options, families) = (self.options, self.families);
        // A run of ten minutes has the time of the weights for each part.
        let (weight, max_seconds) = match part {
            Part::Stress if options.device == DeviceKind::Emulated => (2.0, 2.0),
            Part::Probe => (5.0, 60.0),
            Part::Latencies => (10.0, 120.0),
            Part::Waves => (15.0, 120.0),
            Part::Stress => (30.0, 180.0),
            Part::Sanitize => (30.0, 300.0),
            _ => (90.0, 240.0),
        };
        self.add(part.name(), Pace::Long, weight, move |context, seconds, say| {
            let device = context.device.ok_or("no device was opened")?;
            let seconds = seconds.map_or(max_seconds, |seconds| seconds.min(max_seconds));
            let until = Instant::now() + Duration::from_secs_f64(seconds);
            let findings = findings(part, options, device, families, until, say);
            Ok(findings.into_iter().map(Figures::Device).collect())
        });
    }
}

fn both(speed: Throughput, phases: Breakdown) -> Vec<Figures> {
    vec![Figures::Throughput(speed), Figures::Breakdown(phases)]
}

fn latency(speed: Throughput, _: Breakdown) -> Vec<Figures> {
    vec![Figures::Latency(speed)]
}

fn on(family: &Family) -> String {
    format!("{} on {}", family.model, family.input)
}

fn sized(family: &Family, hidden: usize, batch: usize) -> String {
    format!("{}, H {hidden}, batch {batch}", on(family))
}

/// Describes the options that distinguish a step from the same step with other systems.
fn chosen(options: &Options) -> String {
    let mut chosen: Vec<String> = options.systems.iter().map(|system| system.name()).collect();
    chosen.extend(options.ablation.then(|| "ablation".into()));
    chosen.extend(options.whole.then(|| "whole".into()));
    chosen.extend(options.backends.iter().cloned());
    chosen.extend(options.gpu.then(|| "gpu".into()));
    chosen.extend(options.threads.iter().map(|threads| format!("{threads} threads")));
    if chosen.is_empty() { String::new() } else { format!(" ({})", chosen.join(" ")) }
}

//! The steps of a run, one measurement each, the most interesting ones first.

mod steps;

use std::cell::RefCell;
use std::collections::HashMap;

use edbatch_policy::Fsm;

use crate::Failure;
use crate::measure::device::Device;
use crate::measure::families::{FAMILIES, Family};
use crate::measure::options::{Options, Part};
use crate::measure::rounds::LAPS;
use crate::measure::sets::SetError;
use crate::measure::throughput::{self, Setting, learned_by_paper, throughput};
use crate::record::Figures;
pub use steps::steps;

/// One measurement of a run.
pub struct Step<'a> {
    /// The name: unique in a run, and the same in the next run.
    pub name: String,
    /// The number and the length of its visits.
    pub pace: Pace,
    /// Approximate seconds if the run has a time limit.
    weight: f64,
    visit: RefCell<Box<Visit<'a>>>,
}

/// The number and the length of a step's visits: a run works on a step in one or more visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// A visit in every lap.
    Laps,
    /// One visit.
    Once,
    /// One visit that takes minutes, and whose messages stay on the terminal.
    Long,
}

/// Receives the name of each activity.
type Say<'s> = &'s mut dyn FnMut(&str);

/// Runs a visit, in the given seconds if there is a limit. Returns the figures of all laps.
type Visit<'a> =
    dyn FnMut(&mut Context<'a>, Option<f64>, Say<'_>) -> Result<Vec<Figures>, Failure> + 'a;

impl<'a> Step<'a> {
    /// Returns the weight of a visit when the remaining time is divided between visits.
    pub(crate) fn weight(&self) -> f64 {
        if self.pace == Pace::Laps { self.weight / LAPS as f64 } else { self.weight }
    }

    /// Runs a visit, within its `seconds` if it has a limit. Returns the figures of all laps.
    pub fn visit(
        &self,
        context: &mut Context<'a>,
        seconds: Option<f64>,
        say: Say<'_>,
    ) -> Result<Vec<Figures>, Failure> {
        (self.visit.borrow_mut())(context, seconds, say)
    }
}

/// Returns the chosen models with all their sets. Reports and leaves out sets that are missing in
/// the folder, unless all are missing.
pub fn families(options: &Options) -> Result<Vec<Family>, Failure> {
    let source = options.source();
    let mut families = Vec::new();
    let mut missing = None;
    for (model, with_set) in FAMILIES {
        if options.wants_model(model) {
            match with_set(&source) {
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

/// State shared by the steps of a run.
pub struct Context<'a> {
    options: &'a Options,
    device: Option<&'a Device>,
    /// Policies of the paper's system, by model, set and size of mini-batches.
    learned: HashMap<(&'static str, &'static str, usize), Fsm>,
}

impl<'a> Context<'a> {
    /// The context of a run that has measured nothing.
    pub fn new(options: &'a Options, device: Option<&'a Device>) -> Self {
        Self { options, device, learned: HashMap::new() }
    }

    /// Runs a further lap of a step. The visit's `seconds` include setup.
    fn timed(
        &mut self,
        family: &Family,
        setting: &Setting<'_>,
        seconds: Option<f64>,
        laps: &mut throughput::Laps,
        say: Say<'_>,
    ) -> Result<throughput::Measured, Failure> {
        const TIMED: f64 = 0.6;
        let mut setting = Setting { device: self.device, ..setting.clone() };
        setting.systems.retain(|system| self.device.is_some() || system.on_cuda().is_none());
        if setting.systems.is_empty() {
            return Ok(Vec::new());
        }
        let measured = (setting.systems.len() * setting.threads.len()) as f64;
        let usual = self.options.seconds() * measured / LAPS as f64;
        setting.seconds = match seconds {
            // A limit by the user shortens measurements, and never extends them.
            Some(limit) if self.options.minutes.is_some() => usual.min(limit * TIMED),
            Some(limit) => limit * TIMED,
            None => usual,
        };
        let key = (family.model, family.input, setting.batch);
        if !self.learned.contains_key(&key) {
            let systems = self.options.systems(Part::Throughput, setting.batch);
            self.learned.insert(key, learned_by_paper(family, &systems, setting.batch)?);
        }
        throughput(family, &setting, &self.learned[&key], laps, say)
    }
}

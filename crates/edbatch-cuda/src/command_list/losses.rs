//! The losses of a backward plan.

use edbatch_layout::{Plan, Program, ValueRow, Want};

use super::jobs::{enter, fields};
use super::{CommandList, CopyJob, ENTRY, Givens, TILES_ONLY};

/// The widest row of scores that a thread computes: `NARROW` of `kernels/loss.h`. A job has up to
/// `TERMS` of one width, a thread of a warp each; or one wider one, which a block computes.
const NARROW: u32 = 64;
const TERMS: usize = 32;

/// Cross-entropies of wanted values of a forward plan, which ran in the same arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Losses<'a> {
    pub(crate) forward: &'a Plan,
    /// The elements of the forward plan's arena with its scratch, from where on the backward plan
    /// has its own: its unit tiles wait for what nothing else has written.
    pub(crate) before: usize,
    /// For each wanted value: the given row of the backward plan with its gradient, if it has a
    /// loss.
    pub(crate) gradient_of: &'a [Option<u32>],
    /// For each wanted value: its class.
    pub(crate) targets: &'a [u32],
    pub(crate) weight: f32,
    /// For each input: the end of its wanted values.
    pub(crate) ends: &'a [u32],
    /// The number of the first input in the mini-batch.
    pub(crate) first_input: u32,
}

impl Givens<'_> {
    /// Returns the elements of the arena before any scratch, if that is more than the plan's arena.
    pub(super) fn scratch_of_before(self) -> usize {
        match self {
            Givens::Losses(losses) => losses.before,
            Givens::Gradients(before) => before,
            Givens::Host(..) | Givens::Trained(..) | Givens::Borrowed(..) => 0,
        }
    }

    /// Returns the wanted values of a plan that are copied out.
    pub(super) fn wanted(self, plan: &Plan) -> &[(ValueRow, Want)] {
        if let Givens::Trained(_, false) = self { &[] } else { &plan.wanted }
    }

    /// Returns the number of elements with losses, if `elements` are before them.
    pub(super) fn place_losses(self, elements: u64) -> u64 {
        let Givens::Losses(losses) = self else { return elements };
        let doubles = losses.gradient_of.len() + losses.ends.len();
        elements.next_multiple_of(2) + 2 * doubles as u64
    }

    /// Returns the number of waves that a plan has at least: losses are summed after they are
    /// computed.
    pub(super) fn least_waves(self) -> usize {
        if let Givens::Losses(_) = self { 2 } else { 0 }
    }

    pub(super) fn weight(self) -> f32 {
        if let Givens::Losses(losses) = self { losses.weight } else { 0.0 }
    }

    /// Returns the most words of terms, ends and their jobs.
    pub(super) fn words(self) -> usize {
        let Givens::Losses(losses) = self else { return 0 };
        2 * ENTRY * losses.gradient_of.len() + losses.ends.len() + 2 + ENTRY
    }
}

impl CommandList {
    /// Returns the place in the arena of the losses of all wanted values, and of their sums, as the
    /// last plan with losses has them: doubles.
    pub(crate) fn places_of_losses(&self, values: usize, inputs: usize) -> [u32; 2] {
        let sums = self.arena - 2 * inputs;
        [sums - 2 * values, sums].map(|place| place as u32)
    }

    /// Writes the losses of a backward plan: their terms, and the jobs.
    pub(super) fn write_losses(&mut self, program: &Program, back: &Plan, losses: Losses<'_>) {
        let Losses { forward, gradient_of, targets, ends, first_input, .. } = losses;
        let [of_losses, of_sums] = self.places_of_losses(gradient_of.len(), ends.len());
        let scores = |wanted: usize| {
            let mut fields = fields(program, forward.wanted[wanted].0);
            fields.next().expect("scores are a vector")
        };
        let Self { words, terms, .. } = self;
        terms.clear();
        terms.extend(
            (0..).zip(gradient_of).map(|(wanted, gradient)| {
                (gradient.map_or(0, |_| scores(wanted as usize).1), wanted)
            }),
        );
        terms.sort_unstable();
        let mut term = words.len() as u32;
        for &(_, wanted) in &*terms {
            let index = wanted as usize;
            let [start, to] = gradient_of[index]
                .map_or([0; 2], |gradient| [scores(index).0, back.given[gradient as usize].start]);
            words.extend([start, targets[index], to, of_losses + 2 * wanted]);
        }
        let sums = words.len() as u32;
        words.extend([of_losses, of_sums]);
        words.extend(ends);
        let first = words.len();
        for of_width in terms.chunk_by(|a, b| a.0 == b.0) {
            let width = of_width[0].0;
            for of_job in of_width.chunks(if width <= NARROW { TERMS } else { 1 }) {
                words.extend([CopyJob::Loss as u32, term, of_job.len() as u32, width]);
                term += 4 * of_job.len() as u32;
            }
        }
        enter(words, 0, first);
        let last = words[0] as usize - 1;
        // A wave of unit tiles would need a barrier.
        let has_others = |wave: &usize| words[ENTRY * (wave + 1) + 1] & TILES_ONLY == 0;
        let wave = (1..last).find(has_others).unwrap_or(last);
        let first = words.len();
        words.extend([CopyJob::LossSum as u32, sums, ends.len() as u32, first_input]);
        enter(words, wave, first);
    }
}

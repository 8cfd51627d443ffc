//! A step of training on a device: at most seven launches, enqueued at once, and one wait.
//!
//! In order: all parts forward; losses and all parts back; sums of rows, and the loss of the
//! mini-batch; adjoints of tables' rows; sums over calls; gradients and their norm; the update.
//! Each launch runs only if the one before it ended well (`kernels/stage.h`), so the host need not
//! look between them.

use std::slice;
use std::sync::Arc;
use std::time::Instant;

use edbatch_layout::LINE;
use edbatch_runtime::{
    BackPart, BackendError, Given, OutputGradients, Rows, StepResult, TrainingPart, TrainingStep,
};

use super::backend::Cuda;
use super::command_list::{Givens, Losses};
use super::device::Device;
use super::loaded::Loaded;
use super::pass::Placed;
use super::phase_table::SMS;
use super::shapes::{BARRIER, BYTES_OF_SM};
use super::slot::StepParts;
use super::team_pool::TeamKernel;
use super::trained::{Enqueued, Flight, State};
use super::training::next;
use super::update::Changes;

/// The maximum number of floats that a launch clears for a part, and for each wave of both passes:
/// a device writes as many while a barrier takes place, by the constants of `shapes.rs`.
const MAX_CLEARED: usize = 1 << 30;
const CLEARED: usize = (BARRIER as f64 * BYTES_OF_SM) as usize * SMS as usize / size_of::<f32>();

impl<D: Device> Cuda<D> {
    /// Runs a step.
    pub(super) fn run_step(&mut self, step: &TrainingStep<'_>) -> Result<StepResult, BackendError> {
        let trained = self.trained();
        // Results of steps ahead that the caller has not taken are lost.
        trained.state().enqueued.clear();
        trained.state().give_up();
        if let Err(error) = self.enqueue(step) {
            trained.state_ahead().failed = Some(error);
        }
        let result = trained.state_ahead().collect()?;
        Ok(result.expect("it is enqueued"))
    }

    /// Enqueues a step, and returns the result of the one before.
    pub(super) fn run_ahead(
        &mut self,
        step: Option<&TrainingStep<'_>>,
    ) -> Result<Option<StepResult>, BackendError> {
        let trained = self.trained();
        if let Some(step) = step {
            if let Some(error) = trained.state_ahead().give_up() {
                return Err(error);
            }
            let enqueued = self.enqueue(step);
            let mut state = trained.state_ahead();
            match enqueued {
                Ok(()) if state.enqueued.len() == 1 && !state.has_failed() => return Ok(None),
                Ok(()) => {}
                Err(error) => state.failed = Some(error).filter(|_| !state.has_failed()),
            }
        }
        trained.state_ahead().collect()
    }

    /// Enqueues the launches of a step, or runs it if it has no such launches; nothing after a step
    /// that did not end well.
    fn enqueue(&mut self, step: &TrainingStep<'_>) -> Result<(), BackendError> {
        let has_loss = |part: &TrainingPart<'_>| {
            matches!(part.back.outputs, OutputGradients::CrossEntropy { .. })
        };
        let is_given = step.update.is_some_and(|update| update.gradients.is_some());
        let is_empty = step.parts.is_empty() && step.update.is_none();
        let trained = self.trained();
        if is_given || is_empty || !step.parts.iter().all(has_loss) {
            trained.state_ahead().settle();
            if !trained.state_ahead().has_failed() {
                let ended = step.run_by_methods(self);
                trained.state_ahead().enqueued.push_back(Enqueued::Ended(ended));
            }
            return Ok(());
        }
        let began = Instant::now();
        // Launches of a mini-batch in borrowed memory may run.
        if trained.state_ahead().enqueued.is_empty() {
            trained.state_ahead().settle();
        }
        let loaded = self.loaded.clone();
        let device = &*loaded.device;
        let placed = [loaded.placed(), trained.back.placed()];
        let [forward, back] = &placed;
        let waits = loaded.pass.waits_for_rows(forward) || trained.back.waits_for_rows(back);
        self.write_parts(&loaded, &placed, step)?;
        let clears = waits && self.can_clear(step);
        let mut state = trained.state_ahead();
        self.place_parts(&loaded, &state, step, clears);
        let mut kernels = [loaded.team_kernel(forward), trained.back.team_kernel(device, back)];
        kernels.iter_mut().for_each(|kernel| kernel.barriers |= waits && !clears);
        state.moves_lists = !step.parts.is_empty();
        state.turn = 1 - state.turn;
        let enqueued = self.enqueue_launches(&loaded, &mut state, (&kernels, back), step);
        state.moves_lists = false;
        enqueued?;
        if state.has_failed() {
            return Ok(());
        }
        let has_update = step.update.is_some();
        if has_update {
            state.forget(&trained.table);
            self.slots.iter_mut().for_each(|slot| slot.span = 0..0);
        }
        let terms = step.parts.iter().map(|part| part.back.plan.gradient_of.iter().flatten());
        let flight = Flight {
            last: state.number,
            turn: state.turn,
            slots: step.parts.iter().map(|part| part.back.slot).collect(),
            _placed: placed,
            began,
            has_update,
            terms: terms.map(|terms| terms.count() as u64).sum(),
            loss: step.parts.is_empty().then_some(step.loss),
        };
        state.enqueued.push_back(Enqueued::Runs(flight));
        Ok(())
    }

    /// Returns true if the forward launch can clear the arenas of all parts while barriers take
    /// place. Otherwise each wave has a barrier.
    pub(super) fn can_clear(&self, step: &TrainingStep<'_>) -> bool {
        let longest = step.parts.iter().map(|part| self.slots[part.back.slot].span.len()).max();
        let waves = step.parts.iter().map(|part| {
            let own = &self.slots[part.back.slot];
            own.commands.waves() + own.back.as_ref().map_or(0, |back| back.commands.waves())
        });
        let most = waves.max().unwrap_or(0).saturating_mul(CLEARED).min(MAX_CLEARED);
        longest.is_some_and(|floats| floats <= most)
    }

    /// Writes the command lists of all parts. Their arenas follow each other, each with the
    /// scratch of both passes. Parts without losses have borrowed rows.
    pub(super) fn write_parts(
        &mut self,
        loaded: &Loaded<D>,
        [forward, back]: &[Arc<Placed<D>>; 2],
        step: &TrainingStep<'_>,
    ) -> Result<(), BackendError> {
        let (device, trained) = (&*loaded.device, self.trained());
        let (mut end, mut first_input) = (0, 0);
        self.step.losses.clear();
        let slots = step.parts.iter().map(|part| part.back.slot);
        trained.state_ahead().leave_slots(slots);
        for part in step.parts {
            let BackPart { slot, plan, outputs } = part.back;
            let given = part.forward.given;
            let own = self.slot(slot);
            let from = match outputs {
                OutputGradients::CrossEntropy { .. } => Givens::Trained(&trained.starts, false),
                OutputGradients::Rows(_) => {
                    Givens::Borrowed(&trained.starts, given.places, given.host.len() as u32)
                }
            };
            own.commands.write_from(&loaded.program, &forward.table, &plan.forward, from)?;
            loaded.pass.learn(device, own.commands.reads())?;
            own.give(device, &Given { initial: &Rows::new(), ..given })?;
            own.reserve_commands(device)?;
            let before = own.commands.arena().next_multiple_of(LINE);
            let from = match outputs {
                OutputGradients::Rows(_) => Givens::Gradients(before),
                OutputGradients::CrossEntropy { targets, weight } => Givens::Losses(Losses {
                    forward: &plan.forward,
                    before,
                    gradient_of: &plan.gradient_of,
                    targets,
                    weight,
                    ends: part.ends,
                    first_input,
                }),
            };
            let own_back = own.back();
            own_back.commands.write_from(&loaded.program, &back.table, &plan.back, from)?;
            trained.back.learn(device, own_back.commands.reads())?;
            own_back.reserve_commands(device)?;
            let (values, inputs) = (plan.gradient_of.len(), part.ends.len());
            let [_, sums] = own_back.commands.places_of_losses(values, inputs);
            let start = end;
            end = next(start, own_back.commands.arena())?;
            own.span = start..end;
            first_input += inputs as u32;
            self.step.losses.extend([start as u32 + sums, inputs as u32]);
        }
        if self.arena.words() < end {
            trained.state_ahead().settle();
        }
        self.arena.reserve(device, end)
    }

    /// Sets the arguments of all parts. The forward launch clears their arenas if `clears`.
    pub(super) fn place_parts(
        &mut self,
        loaded: &Loaded<D>,
        state: &State<D>,
        step: &TrainingStep<'_>,
        clears: bool,
    ) {
        let (device, trained) = (&*loaded.device, self.trained());
        let [masters, stage] = [&trained.masters, &state.stage].map(|it| device.address(it));
        let StepParts { forward, back, .. } = &mut self.step;
        forward.clear();
        back.clear();
        for part in step.parts {
            let own = &self.slots[part.back.slot];
            let arena = self.arena.address(device) + 4 * own.span.start as u64;
            let places = [arena, masters, stage];
            let cleared = if clears { own.span.len() as u32 } else { 0 };
            forward.push(own.part(loaded, places, cleared));
            let own_back = own.back.as_ref().expect("written before");
            back.push(own_back.part(loaded, places, 0));
        }
    }

    /// Enqueues the launches of a step; the last one tells the host.
    fn enqueue_launches(
        &mut self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        (kernels, back): (&[TeamKernel<'_, D>; 2], &Placed<D>),
        step: &TrainingStep<'_>,
    ) -> Result<(), BackendError> {
        let (device, trained) = (&*loaded.device, self.trained());
        let parts = step.parts.iter().map(|part| part.back);
        let starts =
            parts.map(|BackPart { slot, plan, .. }| (self.slots[slot].span.start as u32, plan));
        let starts: Vec<_> = starts.collect();
        state.plan.clear();
        trained.list_sums(loaded, state, &starts)?;
        let mut changes = Changes::default();
        if let Some(update) = &step.update {
            trained.list_totals(loaded, state, back)?;
            changes = trained.changes(loaded, state, update)?;
        }
        // All memory is allocated before the first launch.
        let arena = self.arena.address(device);
        let sums = trained.sums(device, state, arena)?;
        let (mut totals, mut update) = (None, None);
        if let Some(of_step) = &step.update {
            totals = Some(trained.totals(device, state)?);
            update = Some(trained.update(loaded, state, &changes, of_step.clip)?);
        }
        let (fields, losses) = (trained.table.fields.as_flattened(), &self.step.losses);
        let rows = trained.rows(device, state, fields, (arena, losses, step.loss))?;
        let adjoints = trained.row_adjoints(loaded, state, back);
        let slices = [0, 1].map(|pass: usize| kernels[pass].slices);
        if !state.held.as_ref().is_some_and(|held| held.suits(&slices, step.parts.len())) {
            state.settle();
        }
        if state.has_failed() {
            return Ok(());
        }
        let mut held = match state.held.take() {
            Some(held) => held,
            None => device.team_pool().hold(loaded.device.clone(), &slices, step.parts.len())?,
        };
        let StepParts { forward, back, .. } = &self.step;
        let stream = held.stream();
        let run_all = || {
            state.launch_teams(device, &mut held, &kernels[0], forward)?;
            state.launch_teams(device, &mut held, &kernels[1], back)?;
            let grids = [rows, sums, totals, update];
            let last = grids.iter().rposition(Option::is_some);
            for (index, grid) in grids.iter().enumerate() {
                if let Some((kernel, part)) = adjoints.iter().find(|_| index == 1) {
                    state.launch_teams(device, &mut held, kernel, slice::from_ref(part))?;
                }
                if let Some(grid) = grid {
                    state.enqueue(device, stream, grid, Some(index) == last)?;
                }
            }
            Ok(())
        };
        let enqueued = run_all();
        state.held = Some(held);
        enqueued
    }
}

//! Gradients on a device: runs plans back, and completes the gradients of parameters.

use std::sync::Arc;

use edbatch_layout::{GivenSum, Program, TrainingPlan};
use edbatch_runtime::{
    BackPart, Backend, BackendError, Borrowing, Contributors, Given, Gradient, Gradients,
    OutputGradients, Parameters, Part, Rows, StepResult, Training, TrainingState, TrainingStep,
    Update,
};

use super::CudaError;
use super::backend::Cuda;
use super::command_list::{CommandList, Givens, Losses};
use super::device::Device;
use super::sums::Completed;
use super::team_pool::TeamKernel;
use super::trained::{Trained, double};

impl<D: Device> Cuda<D> {
    /// Returns the trained parameters.
    pub(super) fn trained(&self) -> Arc<Trained<D>> {
        self.trained.clone().expect("the program is for training")
    }

    /// Runs parts forward. Their arenas follow the arenas of slots that are in no part.
    pub(super) fn run_trained(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let (device, placed, trained) = (&*loaded.device, loaded.placed(), self.trained());
        trained.state_ahead().settle();
        let is_kept = |slot: usize| parts.iter().all(|part| part.slot != slot);
        let kept = self.slots.iter().enumerate().filter(|&(slot, _)| is_kept(slot));
        let first = kept.map(|(_, slot)| slot.span.end).max().unwrap_or(0);
        let mut end = first;
        for Part { slot, plan, given } in parts {
            let slot = self.slot(*slot);
            let from = Givens::Trained(&trained.starts, true);
            slot.commands.write_from(&loaded.program, &placed.table, plan, from)?;
            loaded.pass.learn(device, slot.commands.reads())?;
            slot.give(device, &Given { initial: &Rows::new(), ..*given })?;
            slot.reserve_commands(device)?;
            slot.reserve_outputs(device)?;
            slot.span = end..next(end, slot.commands.arena())?;
            end = slot.span.end;
        }
        if first == 0 {
            self.arena.begin(device, end, loaded.pass.waits_for_rows(&placed))?;
        } else {
            self.arena.grow(device, end)?;
            self.arena.is_clear = false;
        }
        let masters = device.address(&trained.masters);
        self.parts.clear();
        for &Part { slot, .. } in parts {
            let own = &self.slots[slot];
            let arena = self.arena.address(device) + 4 * own.span.start as u64;
            self.parts.push(own.part(&loaded, [arena, masters, 0], 0));
        }
        self.run_teams(&loaded.team_kernel(&placed))?;
        for Part { slot, plan, .. } in parts {
            self.slots[*slot].find_wanted(&loaded, plan);
        }
        Ok(())
    }

    /// Runs the parts. Without a barrier, a tile could take what an earlier plan left for a row of
    /// this one.
    fn run_teams(&self, kernel: &TeamKernel<'_, D>) -> Result<(), BackendError> {
        let barriers = kernel.barriers || !self.arena.is_clear;
        kernel.device.team_pool().run(&TeamKernel { barriers, ..*kernel }, &self.parts)?;
        Ok(())
    }

    /// Appends the losses of a part's wanted values.
    fn read_losses(
        &self,
        slot: usize,
        plan: &TrainingPlan,
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError> {
        let (slot, values) = (&self.slots[slot], plan.gradient_of.len());
        let back = slot.back.as_ref().expect("it has run back");
        let [at, _] = back.commands.places_of_losses(values, 0);
        let mut words = vec![0; 2 * values];
        self.arena.read(&self.loaded.device, slot.span.start + at as usize, &mut words)?;
        losses.extend(words.as_chunks::<2>().0.iter().map(|&[low, high]| double(low, high)));
        Ok(())
    }
}

/// Calls `each` for each field of the given values of a plan, without the initial ones: with the
/// index of the value, the place of the field in its elements, the width, and the rows of the
/// adjoints of the calls that read the field.
pub(super) fn each_given_field(
    program: &Program,
    plan: &TrainingPlan,
    mut each: impl FnMut(usize, u32, u32, &[u32]) -> Result<(), CudaError>,
) -> Result<(), CudaError> {
    let initial = program.network().initial_values().len();
    let mut sums = plan.given.iter().peekable();
    while sums.next_if(|sum| (sum.given as usize) < initial).is_some() {}
    for (index, given) in plan.forward.given.iter().enumerate().skip(initial) {
        let mut place = 0;
        for (field, &width) in program.record(given.record).widths.iter().enumerate() {
            let is_own =
                |sum: &&GivenSum| (sum.given as usize, usize::from(sum.field)) == (index, field);
            let rows = sums.next_if(is_own).map_or(&[][..], |sum| plan.list(&sum.rows));
            each(index - initial, place, width, rows)?;
            place += width;
        }
    }
    Ok(())
}

/// Returns the end of some floats in an arena, at a line.
pub(super) fn next(start: usize, floats: usize) -> Result<usize, CudaError> {
    let end = (start + floats).next_multiple_of(edbatch_layout::LINE);
    let (what, elements) = ("values and scratch of all parts", end as u64);
    match u32::try_from(end) {
        Ok(_) => Ok(end),
        Err(_) => Err(CudaError::TooLarge { what, elements }),
    }
}

impl<D: Device> Training for Cuda<D> {
    fn run_back(
        &mut self,
        parts: &[BackPart<'_>],
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let (device, trained) = (&*loaded.device, self.trained());
        let placed = trained.back.placed();
        let mut end = self.arena.used;
        for &BackPart { slot, plan, outputs } in parts {
            let own = &mut self.slots[slot];
            let start = own.span.start;
            let mut given = Given { initial: &Rows::new(), places: &[], host: &[] };
            let from = match outputs {
                OutputGradients::Rows(rows) => {
                    given.host = rows;
                    Givens::Gradients(end - start)
                }
                OutputGradients::CrossEntropy { targets, weight } => Givens::Losses(Losses {
                    forward: &plan.forward,
                    before: end - start,
                    gradient_of: &plan.gradient_of,
                    targets,
                    weight,
                    ends: &[],
                    first_input: 0,
                }),
            };
            let back = own.back();
            back.commands.write_from(&loaded.program, &placed.table, &plan.back, from)?;
            trained.back.learn(device, back.commands.reads())?;
            back.give(device, &given)?;
            back.reserve_commands(device)?;
            end = next(start, back.commands.arena())?;
        }
        self.arena.grow(device, end)?;
        let stage = device.address(&trained.state().stage);
        self.parts.clear();
        for &BackPart { slot, .. } in parts {
            let own = &self.slots[slot];
            let arena = self.arena.address(device) + 4 * own.span.start as u64;
            let back = own.back.as_ref().expect("written above");
            self.parts.push(back.part(&loaded, [arena, 0, stage], 0));
        }
        self.run_teams(&trained.back.team_kernel(device, &placed))?;
        self.arena.is_clear = false;
        for &BackPart { slot, plan, outputs } in parts {
            match outputs {
                OutputGradients::Rows(_) => {
                    losses.resize(losses.len() + plan.gradient_of.len(), 0.0);
                }
                OutputGradients::CrossEntropy { .. } => self.read_losses(slot, plan, losses)?,
            }
        }
        Ok(())
    }

    fn add_sums(&mut self, parts: &[(usize, &TrainingPlan)]) -> Result<(), BackendError> {
        let loaded = &*self.loaded;
        let trained = self.trained();
        let state = &mut *trained.state();
        let starts = parts.iter().map(|&(slot, plan)| (self.slots[slot].span.start as u32, plan));
        let starts: Vec<_> = starts.collect();
        trained.list_sums(loaded, state, &starts)?;
        trained.run_lists(&loaded.device, state, self.arena.address(&loaded.device))
    }

    fn given_gradients(&self, slot: usize, plan: &TrainingPlan) -> Result<Rows, BackendError> {
        let loaded = &*self.loaded;
        let (device, program, trained) = (&*loaded.device, &*loaded.program, self.trained());
        let state = &mut *trained.state();
        // A sum for each field of each row, after all other sums.
        let first = state.added.floats as usize;
        let (mut end, mut fields, mut places) = (first, Vec::new(), Vec::new());
        let start = self.slots[slot].span.start as u32;
        state.lists.clear();
        each_given_field(program, plan, |_, _, width, calls| {
            let number = fields.len() as u32;
            fields.push([0, 0, width]);
            places.push(end - first);
            let calls = calls.iter().map(|row| start + row);
            state.lists.add_row(calls, (end as u32, number..number + 1), true);
            end = next(end + width as usize, 0)?;
            Ok(())
        })?;
        state.memory.grow(device, end)?;
        let arena = self.arena.address(device);
        if let Some(grid) = trained.rows(device, state, fields.as_flattened(), (arena, &[], 0.0))? {
            state.launch(device, &grid)?;
            state.ended(device)?;
        }
        let mut words = vec![0; end - first];
        if let Some(memory) = &state.memory.memory {
            device.read(memory, first, &mut words)?;
        }
        let initial = program.network().initial_values().len();
        let mut places = places.into_iter();
        let mut all = Rows::new();
        for given in plan.forward.given.iter().skip(initial) {
            all.push_with(|row| {
                for &width in &program.record(given.record).widths {
                    let place = places.next().expect("a row for each field");
                    let elements = words[place..][..width as usize].iter();
                    row.extend(elements.map(|&word| f32::from_bits(word)));
                }
            });
        }
        Ok(all)
    }

    fn finish(&mut self) -> Result<f64, BackendError> {
        let loaded = &*self.loaded;
        let (device, trained) = (&*loaded.device, self.trained());
        let state = &mut *trained.state();
        let placed = trained.back.placed();
        state.lists.clear();
        trained.list_totals(loaded, state, &placed)?;
        if let Some((kernel, part)) = trained.row_adjoints(loaded, state, &placed) {
            device.team_pool().run(&kernel, &[part])?;
        }
        trained.run_lists(device, state, 0)?;
        let grid = trained.totals(device, state)?;
        state.launch(device, &grid)?;
        state.squared_norm = state.ended(device)?;
        Ok(state.squared_norm)
    }

    fn gradients(&self) -> Result<Gradients, BackendError> {
        let loaded = &*self.loaded;
        let trained = self.trained();
        let state = &*trained.state();
        let training = loaded.program.training().expect("the program is for training");
        let contributors = Contributors::all(training);
        let mut gradients: Vec<Gradient> = contributors
            .iter()
            .zip(&training.trained)
            .map(|(of, &is_trained)| of.empty_gradient(is_trained))
            .collect();
        for (gradient, complete) in gradients.iter_mut().zip(&state.complete.completed) {
            let Some(Completed { place, elements: count, rows }) = complete else { continue };
            let mut words = vec![0; *count as usize];
            if let Some(memory) = &state.memory.memory {
                loaded.device.read(memory, *place as usize, &mut words)?;
            }
            let elements = words.into_iter().map(f32::from_bits).collect();
            *gradient = match rows {
                None => Gradient::Whole(elements),
                Some((rows, _)) => Gradient::Rows { rows: rows.clone(), elements },
            };
        }
        Ok(Gradients { parameters: gradients })
    }

    fn has_initial_values(&self) -> bool {
        true
    }

    fn bytes_of_passes(&self, plan: &TrainingPlan) -> u64 {
        let (program, trained) = (&self.loaded.program, self.trained());
        let (forward, back) = (self.loaded.placed(), trained.back.placed());
        let (mut commands, mut words) = (CommandList::default(), 0);
        let given = Givens::Trained(&trained.starts, false);
        let mut floats = plan.forward.arena;
        // A plan that is too large for a list fails when it runs.
        if commands.write_from(program, &forward.table, &plan.forward, given).is_ok() {
            (floats, words) = (commands.arena(), commands.words().len());
        }
        let given = Givens::Gradients(floats);
        if commands.write_from(program, &back.table, &plan.back, given).is_ok() {
            (floats, words) = (commands.arena(), words + commands.words().len());
        }
        // The losses of values and of inputs, which are at most as many, are doubles.
        4 * (floats + 4 * plan.gradient_of.len() + words) as u64
    }

    fn step(&mut self, step: &TrainingStep<'_>) -> Result<StepResult, BackendError> {
        self.run_step(step)
    }

    fn step_ahead(
        &mut self,
        step: Option<&TrainingStep<'_>>,
    ) -> Result<Option<StepResult>, BackendError> {
        self.run_ahead(step)
    }

    fn runs_ahead(&self) -> bool {
        true
    }

    fn borrowing(&mut self) -> Option<&mut dyn Borrowing> {
        Some(self)
    }

    fn evaluation(
        &mut self,
        program: &Arc<Program>,
        parameters: &Parameters,
    ) -> Result<Option<Box<dyn Backend>>, BackendError> {
        let loaded = self.trained().evaluation(&self.loaded.device, program, parameters)?;
        Ok(Some(Box::new(Self::alone(loaded))))
    }

    fn forget(&mut self) {
        let trained = self.trained();
        trained.state().forget(&trained.table);
        self.slots.iter_mut().for_each(|slot| slot.span = 0..0);
    }

    fn update(&mut self, update: &Update<'_>) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let trained = self.trained();
        let (device, state) = (&*loaded.device, &mut *trained.state());
        let changes = trained.changes(&loaded, state, update)?;
        let squared_norm = update.gradients.map_or(state.squared_norm, Gradients::squared_norm);
        state.reset(device, squared_norm)?;
        let grid = trained.update(&loaded, state, &changes, update.clip)?;
        state.launch(device, &grid)?;
        state.ended(device)?;
        state.has_moments.clone_from(&state.will_have_moments);
        state.forget(&trained.table);
        self.slots.iter_mut().for_each(|slot| slot.span = 0..0);
        Ok(())
    }

    fn state(&self) -> Result<TrainingState, BackendError> {
        self.trained().copy_state(&self.loaded)
    }

    fn set_state(&mut self, state: &TrainingState) -> Result<(), BackendError> {
        self.trained().replace_state(&self.loaded, state)
    }
}

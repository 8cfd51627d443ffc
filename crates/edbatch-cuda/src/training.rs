//! Gradients on a device: runs plans back, and completes the gradients of parameters.

use edbatch_layout::{GivenSum, TrainingPlan};
use edbatch_runtime::{
    BackPart, BackendError, Clipping, Contributors, Given, Gradient, Gradients, OutputGradients,
    Part, Rows, Training, TrainingState, Update,
};

use super::CudaError;
use super::backend::Cuda;
use super::command_list::{Givens, Losses};
use super::device::{Arguments, Device, TeamPart};
use super::loaded::Loaded;
use super::slot::Slot;
use super::sums::{Completed, Lists};
use super::team_pool::TeamKernel;
use super::trained::{Grid, State, Trained};
use super::update::{Changed, Changes};

/// Floats of shared memory of the blocks of `kernels/sums.cu`: four stages of 16 pairs of two rows
/// of a tile.
const SUMS_FLOATS: usize = 4 * 16 * 2 * 128;

/// Floats of shared memory of the blocks of `kernels/totals.cu`: 1,024 elements or sums, and 256
/// partial sums of 64 bits.
const TOTALS_FLOATS: usize = 1024 + 2 * 256;

/// The rows whose sums a block of `kernels/rows.cu` computes.
const ROWS: usize = 8;

/// Returns the trained parameters of a program.
fn trained<D: Device>(loaded: &Loaded<D>) -> &Trained<D> {
    loaded.trained.as_ref().expect("the program is for training")
}

impl<D: Device> Cuda<D> {
    /// Runs parts forward. Their arenas lie behind those of slots that are in no part.
    pub(super) fn run_trained(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let (device, placed, trained) = (&*loaded.device, loaded.placed(), trained(&loaded));
        let is_kept = |slot: usize| parts.iter().all(|part| part.slot != slot);
        let kept = self.slots.iter().enumerate().filter(|&(slot, _)| is_kept(slot));
        let first = kept.map(|(_, slot)| slot.span.end).max().unwrap_or(0);
        let mut end = first;
        for Part { slot, plan, given } in parts {
            let slot = self.slot(*slot);
            let from = Givens::Trained(&trained.starts);
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
            let Slot { commands, memory, span, .. } = &self.slots[slot];
            let arena = self.arena.address(device) + 4 * span.start as u64;
            let arguments = Arguments { arena, masters, ..memory.arguments(&loaded) };
            let part =
                TeamPart::new(commands, arguments, memory.device_commands.address(device), (0, 0));
            self.parts.push(part);
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
        let doubles = words.as_chunks::<2>().0.iter();
        losses.extend(
            doubles.map(|&[low, high]| f64::from_bits(u64::from(low) | u64::from(high) << 32)),
        );
        Ok(())
    }
}

/// Returns the end of some floats in an arena, at a line.
fn next(start: usize, floats: usize) -> Result<usize, CudaError> {
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
        let (device, trained) = (&*loaded.device, trained(&loaded));
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
            let Slot { commands, memory, .. } = &**own.back.as_ref().expect("written above");
            let arena = self.arena.address(device) + 4 * own.span.start as u64;
            let arguments = Arguments { arena, stage, ..memory.arguments(&loaded) };
            let part =
                TeamPart::new(commands, arguments, memory.device_commands.address(device), (0, 0));
            self.parts.push(part);
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
        let trained = trained(loaded);
        let state = &mut *trained.state();
        let starts = parts.iter().map(|&(slot, plan)| (self.slots[slot].span.start as u32, plan));
        let starts: Vec<_> = starts.collect();
        let State { added, lists, memory, .. } = state;
        lists.add(&loaded.program, &trained.table, &starts, added)?;
        memory.grow(&loaded.device, added.floats as usize)?;
        trained.run_lists(&loaded.device, state, self.arena.address(&loaded.device))
    }

    fn given_gradients(&self, slot: usize, plan: &TrainingPlan) -> Result<Rows, BackendError> {
        let loaded = &*self.loaded;
        let (device, program, trained) = (&*loaded.device, &*loaded.program, trained(loaded));
        let state = &mut *trained.state();
        let initial = program.network().initial_values().len();
        let mut sums = plan.given.iter().peekable();
        while sums.next_if(|sum| (sum.given as usize) < initial).is_some() {}
        // A field of a row of its own for each, behind all sums.
        let first = state.added.floats as usize;
        let (mut end, mut fields) = (first, Vec::new());
        let start = self.slots[slot].span.start as u32;
        state.lists.clear();
        for (index, given) in plan.forward.given.iter().enumerate().skip(initial) {
            for (field, &width) in program.record(given.record).widths.iter().enumerate() {
                let is_own = |sum: &&GivenSum| {
                    (sum.given as usize, usize::from(sum.field)) == (index, field)
                };
                let calls = sums.next_if(is_own).map_or(&[][..], |sum| plan.list(&sum.rows));
                let calls: Vec<u32> = calls.iter().map(|row| start + row).collect();
                let number = fields.len() as u32;
                fields.push([0, 0, width]);
                state.lists.add_row(&calls, (end as u32, number..number + 1), true);
                end = next(end + width as usize, 0)?;
            }
        }
        state.memory.grow(device, end)?;
        let State { lists: Lists { rows, starts, .. }, .. } = &state;
        let (rows, starts) = (rows.clone(), starts.clone());
        trained.run_rows(
            device,
            state,
            [&rows, fields.as_flattened(), &starts],
            self.arena.address(device),
        )?;
        let mut words = vec![0; end - first];
        if let Some(memory) = &state.memory.memory {
            device.read(memory, first, &mut words)?;
        }
        let mut places = rows.as_chunks::<6>().0.iter().map(|row| row[2] as usize - first);
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
        let (device, trained) = (&*loaded.device, trained(loaded));
        let state = &mut *trained.state();
        let (starts, floats) = trained.run_row_adjoints(loaded, state)?;
        let State { added, lists, memory, complete, .. } = state;
        lists.add_row_adjoints(&trained.table, added, &starts);
        complete.list(&trained.table, added, &starts, floats)?;
        memory.grow(device, complete.floats as usize)?;
        trained.run_lists(device, state, 0)?;
        trained.run_totals(device, state)?;
        state.squared_norm = state.ended(device)?;
        Ok(state.squared_norm)
    }

    fn gradients(&self) -> Result<Gradients, BackendError> {
        let loaded = &*self.loaded;
        let trained = trained(loaded);
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

    fn forget(&mut self) {
        let trained = trained(&self.loaded);
        trained.state().forget(&trained.table);
        self.slots.iter_mut().for_each(|slot| slot.span = 0..0);
    }

    fn update(&mut self, update: &Update<'_>) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let trained = trained(&loaded);
        trained.apply(&loaded, update)?;
        self.forget();
        Ok(())
    }

    fn state(&self) -> Result<TrainingState, BackendError> {
        trained(&self.loaded).copy_state(&self.loaded)
    }

    fn set_state(&mut self, state: &TrainingState) -> Result<(), BackendError> {
        trained(&self.loaded).replace_state(&self.loaded, state)
    }
}

impl<D: Device> Trained<D> {
    /// Computes the sums of rows and of calls that lists have, over an arena.
    fn run_lists(&self, device: &D, state: &mut State<D>, arena: u64) -> Result<(), BackendError> {
        let lists = std::mem::take(&mut state.lists);
        let Lists { rows, starts, sums, tiles, lists: calls } = &lists;
        self.run_rows(device, state, [rows, self.table.fields.as_flattened(), starts], arena)?;
        if !tiles.is_empty() {
            let [sums, of_tiles, calls] = state.upload(device, [sums, tiles, calls])?;
            let work = [sums, of_tiles, calls, arena, state.memory.address(device)];
            let (kernel, blocks) = (&self.sums, tiles.len() / 4);
            state.launch(device, &Grid { kernel, blocks, floats: SUMS_FLOATS, work: &work })?;
            state.ended(device)?;
        }
        state.lists = lists;
        Ok(())
    }

    /// Computes the sums of rows, with their fields and the starts of calls, over an arena.
    fn run_rows(
        &self,
        device: &D,
        state: &mut State<D>,
        lists: [&[u32]; 3],
        arena: u64,
    ) -> Result<(), BackendError> {
        let count = lists[0].len() / 6;
        if count == 0 {
            return Ok(());
        }
        let [rows, fields, starts] = state.upload(device, lists)?;
        let work = [rows, count as u64, fields, starts, arena, state.memory.address(device)];
        let (kernel, blocks) = (&self.rows, count.div_ceil(ROWS));
        state.launch(device, &Grid { kernel, blocks, floats: 0, work: &work })?;
        state.ended(device)?;
        Ok(())
    }

    /// Runs the adjoints of all rows of tables that were named, behind the sums. Returns the start
    /// of their rows, by table, and the floats of sums and rows.
    fn run_row_adjoints(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
    ) -> Result<(Vec<u32>, u32), BackendError> {
        let (device, placed) = (&*loaded.device, self.back.placed());
        let State { added, slot, plan, memory, .. } = state;
        let starts = added.plan_of_rows(&self.table, plan)?;
        if plan.steps.is_empty() {
            return Ok((starts, added.floats));
        }
        let waves = vec![0; plan.steps.len()];
        let given = Givens::Host(0, &[]);
        slot.commands.write_in_waves(&loaded.program, &placed.table, plan, &waves, given)?;
        slot.reserve_commands(device)?;
        memory.grow(device, slot.commands.arena())?;
        let arguments =
            Arguments { arena: memory.address(device), ..slot.memory.arguments(loaded) };
        let commands = slot.memory.device_commands.address(device);
        let part = TeamPart::new(&slot.commands, arguments, commands, (0, 0));
        let kernel = self.back.team_kernel(device, &placed);
        device.team_pool().run(&TeamKernel { barriers: true, ..kernel }, &[part])?;
        Ok((starts, plan.arena as u32))
    }

    /// Computes the gradients of all parameters and the sum of their squares.
    fn run_totals(&self, device: &D, state: &mut State<D>) -> Result<(), BackendError> {
        let complete = std::mem::take(&mut state.complete);
        let count = complete.chunks.len() / 2;
        state.squares.reserve(device, 2 * count)?;
        let lists = [&complete.totals[..], &complete.sources, &complete.chunks, &complete.list];
        let uploaded = state.upload(device, lists);
        let [totals, sources, chunks, list] = uploaded?;
        let memory = state.memory.address(device);
        let squares = state.squares.address(device);
        let count = count as u64;
        let work = [totals, sources, chunks, count, list, memory, memory, memory, squares];
        let (kernel, blocks) = (&self.totals, (count as usize).max(1));
        let launched =
            state.launch(device, &Grid { kernel, blocks, floats: TOTALS_FLOATS, work: &work });
        state.complete = complete;
        launched
    }

    /// Updates the parameters by the gradients of the update, or by the complete ones.
    fn apply(&self, loaded: &Loaded<D>, update: &Update<'_>) -> Result<(), BackendError> {
        let (device, network) = (&*loaded.device, loaded.program.network());
        let state = &mut *self.state();
        let is_trained = &loaded.program.training().expect("it is for training").trained;
        let mut changes = Changes::default();
        let count = (update.rule.moments().len(), update.rule.initial_moment());
        let mut is_updated = vec![false; is_trained.len()];
        for index in (0..is_trained.len()).filter(|&index| is_trained[index]) {
            let own;
            let (from, len, rows) = match update.gradients {
                Some(gradients) => {
                    let gradient = &gradients.parameters[index];
                    let from = changes.gradients.len() as u32;
                    changes.gradients.extend(gradient.elements().iter().map(|x| x.to_bits()));
                    let width = network.parameters()[index].dims.iter().skip(1).product::<usize>();
                    own = match gradient {
                        Gradient::None => continue,
                        Gradient::Whole(_) => None,
                        Gradient::Rows { rows, .. } => Some((&rows[..], width as u32)),
                    };
                    (from, gradient.elements().len() as u32, own)
                }
                None => {
                    let complete = state.complete.completed.get(index);
                    let Some(Some(Completed { place, elements, rows })) = complete else {
                        continue;
                    };
                    let rows = rows.as_ref().map(|(rows, width)| (&rows[..], *width));
                    (*place, *elements, rows)
                }
            };
            is_updated[index] = true;
            let change = update.change(index, rows.is_some(), [1.0; 2]);
            let changed = Changed { at: self.starts[index], from, elements: len, rows };
            changes.add(&changed, Some(&change));
        }
        self.reserve_moments(device, state, |index| is_updated[index], count)?;
        let squared_norm = update.gradients.map_or(state.squared_norm, Gradients::squared_norm);
        let gradients = update.gradients.is_none().then(|| state.memory.address(device));
        let limits = match update.clip {
            Clipping::None => [f64::INFINITY; 2],
            Clipping::Norm(norm) => [norm, f64::INFINITY],
            Clipping::Value(limit) => [f64::INFINITY, limit],
        };
        state.reset(device, squared_norm)?;
        self.update(loaded, state, &changes, (gradients, limits))?;
        state.ended(device)?;
        Ok(())
    }
}

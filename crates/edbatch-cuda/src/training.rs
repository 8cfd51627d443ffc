//! Gradients on a device: runs plans back, and completes the gradients of parameters.

use edbatch_layout::{GivenSum, TrainingPlan};
use edbatch_runtime::{
    BackPart, BackendError, Contributors, Given, Gradient, Gradients, OutputGradients, Part, Rows,
    StepResult, Training, TrainingState, TrainingStep, Update,
};

use super::CudaError;
use super::backend::Cuda;
use super::command_list::{Givens, Losses};
use super::device::{Arguments, Device, TeamPart};
use super::loaded::Loaded;
use super::pass::Placed;
use super::slot::Slot;
use super::sums::{Completed, Lists, TotalList};
use super::team_pool::TeamKernel;
use super::trained::{Grid, State, Trained, upload};
use super::update::{Changed, Changes};

/// Floats of shared memory of the blocks of `kernels/sums.cu`: four stages of 16 pairs of two rows
/// of a tile.
const SUMS_FLOATS: usize = 4 * 16 * 2 * 128;

/// Floats of shared memory of the blocks of `kernels/totals.cu`: 1,024 elements or sums, and 256
/// partial sums of 64 bits.
const TOTALS_FLOATS: usize = 1024 + 2 * 256;

/// The rows whose sums a block of `kernels/rows.cu` computes.
const ROWS: usize = 8;

/// The words of a row, of a tile and of a chunk in lists.
const ROW: usize = 6;
const TILE: usize = 4;
const CHUNK: usize = 2;

/// Returns the trained parameters of a program.
pub(super) fn trained<D: Device>(loaded: &Loaded<D>) -> &Trained<D> {
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
        trained.list_sums(loaded, state, &starts)?;
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
        let arena = self.arena.address(device);
        if let Some(grid) = trained.rows(device, state, fields.as_flattened(), (arena, &[], 0.0))? {
            state.launch(device, &grid)?;
            state.ended(device)?;
        }
        let mut words = vec![0; end - first];
        if let Some(memory) = &state.memory.memory {
            device.read(memory, first, &mut words)?;
        }
        let rows = state.lists.rows.as_chunks::<ROW>().0;
        let mut places = rows.iter().map(|row| row[2] as usize - first);
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

    fn step(&mut self, step: &TrainingStep<'_>) -> Result<StepResult, BackendError> {
        self.run_step(step)
    }

    fn forget(&mut self) {
        let trained = trained(&self.loaded);
        trained.state().forget(&trained.table);
        self.slots.iter_mut().for_each(|slot| slot.span = 0..0);
    }

    fn update(&mut self, update: &Update<'_>) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let trained = trained(&loaded);
        let (device, state) = (&*loaded.device, &mut *trained.state());
        let changes = trained.changes(&loaded, state, update)?;
        let squared_norm = update.gradients.map_or(state.squared_norm, Gradients::squared_norm);
        state.reset(device, squared_norm)?;
        let grid = trained.update(&loaded, state, &changes, update.clip)?;
        state.launch(device, &grid)?;
        state.ended(device)?;
        state.end_update(&trained.table);
        self.slots.iter_mut().for_each(|slot| slot.span = 0..0);
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
    /// Lists what parts add to sums, given the starts of their arenas.
    pub(super) fn list_sums(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        parts: &[(u32, &TrainingPlan)],
    ) -> Result<(), BackendError> {
        let State { added, lists, memory, .. } = state;
        lists.add(&loaded.program, &self.table, parts, added)?;
        memory.grow(&loaded.device, added.floats as usize)
    }

    /// Lists the adjoints of rows, the sums over their calls, and the gradients.
    pub(super) fn list_totals(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        placed: &Placed<D>,
    ) -> Result<(), BackendError> {
        let (starts, floats) = self.list_row_adjoints(loaded, state, placed)?;
        let State { added, lists, memory, complete, .. } = state;
        lists.add_row_adjoints(&self.table, added, &starts);
        complete.list(&self.table, added, &starts, floats)?;
        memory.grow(&loaded.device, complete.floats as usize)
    }

    /// Returns the launch that computes sums of rows over an arena, and adds the losses of inputs
    /// to a loss: for each part their place in the arena and their number. `None` if there are
    /// neither.
    pub(super) fn rows(
        &self,
        device: &D,
        state: &mut State<D>,
        fields: &[u32],
        (arena, losses, loss): (u64, &[u32], f64),
    ) -> Result<Option<Grid<'_, D::Program>>, BackendError> {
        let State { lists: Lists { rows, starts, .. }, uploaded, memory, .. } = state;
        let [count, parts] = [rows.len() / ROW, losses.len() / 2];
        if count + parts == 0 {
            return Ok(None);
        }
        let lists = upload(device, &mut uploaded[0], [rows, fields, starts, losses])?;
        let [rows, fields, starts, losses] = lists;
        let sums = memory.address(device);
        let mut work = vec![rows, count as u64, fields, starts, arena, sums];
        work.extend([losses, parts as u64, loss.to_bits()]);
        let blocks = count.div_ceil(ROWS).max(1);
        Ok(Some(Grid { kernel: &self.rows, blocks, floats: 0, work }))
    }

    /// Returns the launch that computes sums over calls, if there are any.
    pub(super) fn sums(
        &self,
        device: &D,
        state: &mut State<D>,
        arena: u64,
    ) -> Result<Option<Grid<'_, D::Program>>, BackendError> {
        let State { lists: Lists { sums, tiles, calls, .. }, uploaded, memory, .. } = state;
        let blocks = tiles.len() / TILE;
        if blocks == 0 {
            return Ok(None);
        }
        let [sums, tiles, calls] = upload(device, &mut uploaded[1], [sums, tiles, calls])?;
        let work = vec![sums, tiles, calls, arena, memory.address(device)];
        Ok(Some(Grid { kernel: &self.sums, blocks, floats: SUMS_FLOATS, work }))
    }

    /// Returns the launch that computes gradients and the sum of their squares.
    pub(super) fn totals(
        &self,
        device: &D,
        state: &mut State<D>,
    ) -> Result<Grid<'_, D::Program>, BackendError> {
        let State { complete, uploaded, memory, squares, .. } = state;
        let TotalList { totals, sources, chunks, list, .. } = complete;
        let blocks = chunks.len() / CHUNK;
        squares.reserve(device, 2 * blocks)?;
        let lists = upload(device, &mut uploaded[2], [&totals[..], sources, chunks, list])?;
        let [totals, sources, chunks, list] = lists;
        let [memory, squares] = [memory, squares].map(|it| it.address(device));
        let count = blocks as u64;
        let work = vec![totals, sources, chunks, count, list, memory, memory, memory, squares];
        Ok(Grid { kernel: &self.totals, blocks: blocks.max(1), floats: TOTALS_FLOATS, work })
    }

    /// Computes the sums that are listed, over an arena.
    fn run_lists(&self, device: &D, state: &mut State<D>, arena: u64) -> Result<(), BackendError> {
        let fields = self.table.fields.as_flattened();
        let rows = self.rows(device, state, fields, (arena, &[], 0.0))?;
        let sums = self.sums(device, state, arena)?;
        for grid in rows.iter().chain(&sums) {
            state.launch(device, grid)?;
            state.ended(device)?;
        }
        Ok(())
    }

    /// Lists the adjoints of all rows of tables that were named; their rows are behind the sums.
    /// Grows the memory of sums for them. Returns the start of these rows, by table, and the floats
    /// of sums and rows.
    fn list_row_adjoints(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        placed: &Placed<D>,
    ) -> Result<(Vec<u32>, u32), BackendError> {
        let device = &*loaded.device;
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
        Ok((starts, plan.arena as u32))
    }

    /// Returns the plan of the adjoints of rows, if there are any, and its kernel. Each wave begins
    /// with a barrier, as the memory is not clear.
    pub(super) fn row_adjoints<'a>(
        &'a self,
        loaded: &'a Loaded<D>,
        state: &State<D>,
        placed: &'a Placed<D>,
    ) -> Option<(TeamKernel<'a, D>, TeamPart)> {
        let device = &*loaded.device;
        let State { slot, memory, plan, .. } = state;
        let arguments =
            Arguments { arena: memory.address(device), ..slot.memory.arguments(loaded) };
        let commands = slot.memory.device_commands.address(device);
        let part = TeamPart::new(&slot.commands, arguments, commands, (0, 0));
        let kernel = self.back.team_kernel(device, placed);
        let kernel = TeamKernel { barriers: true, ..kernel };
        (!plan.steps.is_empty()).then_some((kernel, part))
    }

    /// Returns the changes of an update, by the given gradients or the complete ones, after
    /// allocating the moments that it needs.
    pub(super) fn changes(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        update: &Update<'_>,
    ) -> Result<Changes, BackendError> {
        let (device, network) = (&*loaded.device, loaded.program.network());
        let is_trained = &loaded.program.training().expect("it is for training").trained;
        let gradients = update.gradients.map(|_| Vec::new());
        let mut changes = Changes { gradients, ..Changes::default() };
        let mut is_updated = vec![false; is_trained.len()];
        for index in (0..is_trained.len()).filter(|&index| is_trained[index]) {
            let (from, elements, rows) = match update.gradients {
                Some(gradients) => {
                    let gradient = &gradients.parameters[index];
                    let all = changes.gradients.get_or_insert_default();
                    let from = all.len() as u32;
                    all.extend(gradient.elements().iter().map(|x| x.to_bits()));
                    let width = network.parameters()[index].dims.iter().skip(1).product::<usize>();
                    let rows = match gradient {
                        Gradient::None => continue,
                        Gradient::Whole(_) => None,
                        Gradient::Rows { rows, .. } => Some((&rows[..], width as u32)),
                    };
                    (from, gradient.elements().len() as u32, rows)
                }
                None => match state.complete.completed.get(index) {
                    Some(Some(Completed { place, elements, rows })) => {
                        let rows = rows.as_ref().map(|(rows, width)| (&rows[..], *width));
                        (*place, *elements, rows)
                    }
                    _ => continue,
                },
            };
            is_updated[index] = true;
            let change = update.change(index, rows.is_some(), [1.0; 2]);
            let changed = Changed { at: self.starts[index], from, elements, rows };
            changes.add(&changed, Some(&change));
        }
        let count = (update.rule.moments().len(), update.rule.initial_moment());
        self.reserve_moments(device, state, |index| is_updated[index], count)?;
        Ok(changes)
    }
}

//! The lists and the launches of the kernels that complete gradients and update parameters.

use edbatch_layout::TrainingPlan;
use edbatch_runtime::{BackendError, Borrowed, Clipping, Given, GivenPlace, Gradient, Update};

use super::Trained;
use super::state::{Grid, State};
use crate::command_list::Givens;
use crate::device::{Device, TeamPart};
use crate::loaded::Loaded;
use crate::pass::Placed;
use crate::sums::{Completed, FIELD, Lists, ROW, TILE, TotalList};
use crate::team_pool::TeamKernel;
use crate::training::each_given_field;
use crate::update::{Changed, Changes};

/// Floats of shared memory of the blocks of `kernels/sums.cu`: four stages of 16 pairs of two rows
/// of a tile.
const SUMS_FLOATS: usize = 4 * 16 * 2 * 128;

/// Floats of shared memory of the blocks of `kernels/totals.cu`: 1,024 elements or sums, and 256
/// partial sums of 64 bits.
const TOTALS_FLOATS: usize = 1024 + 2 * 256;

/// The warps of a block, and the columns that a warp of `kernels/rows.cu` computes.
const WARPS: usize = 8;
const WARP: usize = 32;

/// The words of lists that a block of `kernels/rows.cu` copies.
const COPIED: u64 = 4096;

/// The words of a chunk in lists.
const CHUNK: usize = 2;

impl<D: Device> Trained<D> {
    /// Lists what parts add to sums, given the starts of their arenas.
    pub(crate) fn list_sums(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        parts: &[(u32, &TrainingPlan)],
    ) -> Result<(), BackendError> {
        let State { added, lists, .. } = state;
        lists.add(&loaded.program, &self.table, parts, added)?;
        state.grow(&loaded.device, state.added.floats as usize)
    }

    /// Lists the adjoints of rows, the sums over their calls, and the gradients.
    pub(crate) fn list_totals(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        placed: &Placed<D>,
    ) -> Result<(), BackendError> {
        let (starts, floats) = self.list_row_adjoints(loaded, state, placed)?;
        let State { added, lists, complete, .. } = state;
        lists.add_row_adjoints(&self.table, added, &starts);
        complete.list(&self.table, added, &starts, floats)?;
        state.grow(&loaded.device, state.complete.floats as usize)
    }

    /// Returns the launch that computes sums of rows over an arena, and adds the losses of inputs
    /// to a loss: for each part their place in the arena and their number. `None` if there are
    /// neither.
    pub(crate) fn rows(
        &self,
        device: &D,
        state: &mut State<D>,
        fields: &[u32],
        (arena, losses, loss): (u64, &[u32], f64),
    ) -> Result<Option<Grid<'_, D::Program>>, BackendError> {
        let State { lists: Lists { rows, starts, .. }, turns, turn, memory, .. } = state;
        let [own, others @ .., _] = &mut turns[*turn].uploaded;
        let [count, parts] = [rows.len() / ROW, losses.len() / 2];
        if count + parts == 0 {
            return Ok(None);
        }
        let columns = rows.as_chunks::<ROW>().0.iter().map(|&[.., first, end, _]| {
            let fields = &fields[FIELD * first as usize..FIELD * end as usize];
            fields.as_chunks::<FIELD>().0.iter().map(|&[.., width]| width as usize).sum::<usize>()
        });
        let slices = columns.max().unwrap_or(0).div_ceil(WARP);
        let copies = others.each_mut().map(|lists| lists.take_copy(device));
        let copying: u64 = copies.iter().map(|[.., words]| words.div_ceil(COPIED)).sum();
        let [rows, fields, starts, losses] =
            own.upload(device, [rows, fields, starts, losses], false)?;
        let sums = memory.address(device);
        let mut work = vec![rows, count as u64, slices as u64, fields, starts, arena, sums];
        work.extend([losses, parts as u64, loss.to_bits()]);
        work.extend(copies.as_flattened());
        let blocks = ((count * slices).div_ceil(WARPS) + copying as usize).max(1);
        Ok(Some(Grid { kernel: &self.rows, blocks, floats: 0, work }))
    }

    /// Returns the launches that write the gradients of a part's borrowed given values to memory,
    /// given the start of its arena. Their lists replace the mini-batch's lists.
    pub(crate) fn borrowed_rows(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        (start, plan, given): (u32, &TrainingPlan, Given<'_>),
        (arena, memory): (u64, &[Borrowed]),
    ) -> Result<Vec<Grid<'_, D::Program>>, BackendError> {
        let State { lists, turns, turn, .. } = state;
        let (mut fields, mut ends, mut end) = (Vec::new(), vec![0], 0);
        lists.clear();
        for borrowed in memory {
            let own = end..end + borrowed.elements() as u32;
            end = own.end;
            each_given_field(&loaded.program, plan, |index, offset, width, calls| {
                let Some(&GivenPlace::Borrowed(at)) = given.places.get(index) else {
                    return Ok(());
                };
                if own.contains(&at) {
                    let (to, field) = (at - own.start + offset, fields.len() as u32);
                    fields.push([0, 0, width]);
                    let calls = calls.iter().map(|row| start + row);
                    lists.add_row(calls, (to, field..field + 1), true);
                }
                Ok(())
            })?;
            ends.push(lists.rows.len() / ROW);
        }
        let slices = fields.iter().map(|field| (field[2] as usize).div_ceil(WARP)).max();
        let slices = slices.unwrap_or(0);
        let words = [&lists.rows[..], fields.as_flattened(), &lists.starts];
        let [rows, fields, starts] =
            turns[*turn].uploaded[4].upload(&*loaded.device, words, false)?;
        let of_memory = memory.iter().zip(ends.windows(2)).filter(|(_, ends)| ends[0] < ends[1]);
        let grids = of_memory.map(|(borrowed, ends)| {
            let (count, rows) = (ends[1] - ends[0], rows + (4 * ROW * ends[0]) as u64);
            let mut work = vec![rows, count as u64, slices as u64, fields, starts, arena];
            // Neither losses nor lists of others.
            work.extend([borrowed.address()].into_iter().chain([0; 3 + 3 * 3]));
            let blocks = (count * slices).div_ceil(WARPS);
            Grid { kernel: &self.rows, blocks, floats: 0, work }
        });
        Ok(grids.collect())
    }

    /// Returns the launch that computes sums over calls, if there are any.
    pub(crate) fn sums(
        &self,
        device: &D,
        state: &mut State<D>,
        arena: u64,
    ) -> Result<Option<Grid<'_, D::Program>>, BackendError> {
        let State { lists, turns, turn, moves_lists, memory, .. } = state;
        let Lists { sums, tiles, calls, .. } = lists;
        let blocks = tiles.len() / TILE;
        if blocks == 0 {
            return Ok(None);
        }
        let lists = [&sums[..], tiles, calls];
        let [sums, tiles, calls] = turns[*turn].uploaded[1].upload(device, lists, *moves_lists)?;
        let work = vec![sums, tiles, calls, arena, memory.address(device)];
        Ok(Some(Grid { kernel: &self.sums, blocks, floats: SUMS_FLOATS, work }))
    }

    /// Returns the launch that computes gradients and the sum of their squares.
    pub(crate) fn totals(
        &self,
        device: &D,
        state: &mut State<D>,
    ) -> Result<Grid<'_, D::Program>, BackendError> {
        let blocks = state.complete.chunks.len() / CHUNK;
        if state.squares.words < 2 * blocks {
            state.settle();
        }
        let State { complete, turns, turn, moves_lists, memory, squares, .. } = state;
        let TotalList { totals, sources, chunks, list, .. } = complete;
        squares.reserve(device, 2 * blocks)?;
        let lists = [&totals[..], sources, chunks, list];
        let [totals, sources, chunks, list] =
            turns[*turn].uploaded[2].upload(device, lists, *moves_lists)?;
        let [memory, squares] = [memory, squares].map(|it| it.address(device));
        let count = blocks as u64;
        let work = vec![totals, sources, chunks, count, list, memory, memory, memory, squares];
        Ok(Grid { kernel: &self.totals, blocks: blocks.max(1), floats: TOTALS_FLOATS, work })
    }

    /// Computes the sums that are listed, over an arena.
    pub(crate) fn run_lists(
        &self,
        device: &D,
        state: &mut State<D>,
        arena: u64,
    ) -> Result<(), BackendError> {
        let fields = self.table.fields.as_flattened();
        let rows = self.rows(device, state, fields, (arena, &[], 0.0))?;
        let sums = self.sums(device, state, arena)?;
        for grid in rows.iter().chain(&sums) {
            state.launch(device, grid)?;
            state.ended(device)?;
        }
        Ok(())
    }

    /// Lists the adjoints of all rows of tables that were named; their rows follow the sums.
    /// Grows the memory of sums for them. Returns the start of these rows, by table, and the floats
    /// of sums and rows.
    fn list_row_adjoints(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        placed: &Placed<D>,
    ) -> Result<(Vec<u32>, u32), BackendError> {
        let device = &*loaded.device;
        let State { added, turns, turn, plan, .. } = state;
        let slot = &mut turns[*turn].slot;
        let starts = added.plan_of_rows(&self.table, plan)?;
        if plan.steps.is_empty() {
            return Ok((starts, added.floats));
        }
        let waves = vec![0; plan.steps.len()];
        let given = Givens::Host(0, &[]);
        slot.commands.write_in_waves(&loaded.program, &placed.table, plan, &waves, given)?;
        slot.reserve_commands(device)?;
        let floats = slot.commands.arena();
        state.grow(device, floats)?;
        Ok((starts, state.plan.arena as u32))
    }

    /// Returns the plan of the adjoints of rows, if there are any, and its kernel. Each wave begins
    /// with a barrier, as the memory is not clear.
    pub(crate) fn row_adjoints<'a>(
        &'a self,
        loaded: &'a Loaded<D>,
        state: &State<D>,
        placed: &'a Placed<D>,
    ) -> Option<(TeamKernel<'a, D>, TeamPart)> {
        let device = &*loaded.device;
        let State { turns, turn, memory, plan, .. } = state;
        let part = turns[*turn].slot.part(loaded, [memory.address(device), 0, 0], 0);
        let kernel = self.back.team_kernel(device, placed);
        let kernel = TeamKernel { barriers: true, ..kernel };
        (!plan.steps.is_empty()).then_some((kernel, part))
    }

    /// Returns the changes of an update, by the given gradients or the complete ones, after
    /// allocating the moments that it needs.
    pub(crate) fn changes(
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

    /// Returns the launch that updates parameters.
    pub(crate) fn update(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        changes: &Changes,
        clip: Clipping,
    ) -> Result<Grid<'_, D::Program>, BackendError> {
        let (device, blocks) = (&*loaded.device, changes.chunks.len() / 2);
        let Changes { changes, chunks, rows, gradients } = changes;
        let lists = [&changes[..], chunks, rows, gradients.as_deref().unwrap_or_default()];
        let moves = state.moves_lists;
        let [changes, chunks, rows, own] =
            state.turns[state.turn].uploaded[3].upload(device, lists, moves)?;
        let [norm, limit] = match clip {
            Clipping::None => [f64::INFINITY; 2],
            Clipping::Norm(norm) => [norm, f64::INFINITY],
            Clipping::Value(limit) => [f64::INFINITY, limit],
        };
        let work = vec![
            changes,
            chunks,
            blocks as u64,
            rows,
            if gradients.is_some() { own } else { state.memory.address(device) },
            device.address(&self.masters),
            state.moments.as_ref().map_or(0, |memory| device.address(memory)),
            self.size as u64,
            device.address(&self.packed),
            self.places as u64,
            device.address(&loaded.weights),
            norm.to_bits(),
            limit.to_bits(),
        ];
        Ok(Grid { kernel: &self.update, blocks: blocks.max(1), floats: 0, work })
    }
}

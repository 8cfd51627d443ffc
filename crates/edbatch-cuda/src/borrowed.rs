//! Training in memory of another library, in the order of one of its streams.
//!
//! The launches of a mini-batch are a chain on teams, as the launches of a step are. But the host
//! waits for their end only at the next mini-batch, and other backends may have the SMs meanwhile.

use std::sync::Arc;
use std::{mem, slice, thread};

use edbatch_layout::TrainingPlan;
use edbatch_runtime::{
    BackPart, BackendError, Borrowed, Borrowing, Clipping, Given, OutputGradients, Part,
    TrainingPart, TrainingStep,
};

use super::CudaError;
use super::backend::Cuda;
use super::device::{Device, Follows};
use super::pass::Placed;
use super::slot::Lent;
use super::sums::Completed;
use super::team_pool::{Held, TeamKernel};
use super::trained::State;
use super::update::{Changed, Changes};

impl<D: Device> Cuda<D> {
    /// Waits for the launches of the mini-batch before, and returns the error of one that did not
    /// end.
    fn end_lent(&mut self, state: &mut State<D>) -> Result<(), BackendError> {
        if matches!(self.lent, Lent::Ended) || !state.enqueued.is_empty() {
            state.settle();
        }
        self.lent = Lent::Ended;
        if let Some(held) = state.held.take() {
            let device = held.device().clone();
            while !device.is_idle(held.stream())? {
                thread::yield_now();
            }
            if state.ended(&device).is_ok() {
                state.is_lent = false;
                held.release();
            } else {
                state.held = Some(held);
                state.settle();
            }
        }
        state.lost.take().map_or(Ok(()), Err)
    }

    /// Runs launches of the mini-batch on a team, after all that is on a stream now, and before all
    /// that follows there.
    fn chain(
        &self,
        state: &mut State<D>,
        stream: u64,
        placed: &[Arc<Placed<D>>; 2],
        run: impl FnOnce(&mut State<D>, &mut Held<Arc<D>>) -> Result<(), CudaError>,
    ) -> Result<(), BackendError> {
        let device = &self.loaded.device;
        let slices = [0, 1].map(|pass: usize| placed[pass].placement.slices);
        if !state.held.as_ref().is_some_and(|held| held.suits(&slices, 1)) {
            state.settle();
        }
        if let Some(error) = state.lost.take() {
            return Err(error);
        }
        let mut held = match state.held.take() {
            Some(held) => held,
            None => {
                let mut held = device.team_pool().hold(device.clone(), &slices, 1)?;
                held.lend_sms();
                held
            }
        };
        let own = held.stream();
        let ran = device
            .order(own, stream, Follows::Own)
            .and_then(|()| run(state, &mut held))
            .and_then(|()| device.order(own, stream, Follows::Other));
        (state.held, state.is_lent) = (Some(held), true);
        Ok(ran?)
    }
}

/// Fails unless borrowed memory has this many elements.
fn check(borrowed: &Borrowed, expected: usize) -> Result<(), CudaError> {
    let got = borrowed.elements();
    if got == expected {
        return Ok(());
    }
    let why = format!("expected {expected} elements, got {got}");
    Err(CudaError::failed("borrowed memory", why))
}

impl<D: Device> Borrowing for Cuda<D> {
    fn adopt(&mut self, stream: u64, parameters: &[Borrowed]) -> Result<(), BackendError> {
        let (loaded, trained) = (self.loaded.clone(), self.trained());
        let (device, state) = (&*loaded.device, &mut *trained.state_ahead());
        self.end_lent(state)?;
        if parameters.len() > trained.starts.len() {
            let why = "there are more than the network has";
            return Err(CudaError::failed("borrowed parameters", why).into());
        }
        let mut changes = Changes::default();
        for (index, borrowed) in parameters.iter().enumerate() {
            let range = trained.range(index);
            check(borrowed, range.len())?;
            let (at, elements) = (range.start as u32, range.len() as u32);
            changes.add(&Changed { at, from: 0, elements, rows: None }, None);
        }
        let grid = trained.update(&loaded, state, &changes, Clipping::None)?;
        self.lent = Lent::Adopted;
        let placed = [loaded.placed(), trained.back.placed()];
        self.chain(state, stream, &placed, |state, held| {
            let masters = device.address(&trained.masters);
            for (borrowed, &start) in parameters.iter().zip(&trained.starts) {
                let to = masters + 4 * u64::from(start);
                device.enqueue_copy(held.stream(), borrowed.address(), to, borrowed.elements())?;
            }
            state.enqueue(device, held.stream(), &grid, false)
        })
    }

    fn forward_into(
        &mut self,
        stream: u64,
        plan: &TrainingPlan,
        given: Given<'_>,
        memory: &[Borrowed],
        rows: Borrowed,
    ) -> Result<(), BackendError> {
        let (loaded, trained) = (self.loaded.clone(), self.trained());
        let device = &*loaded.device;
        if !matches!(self.lent, Lent::Adopted) {
            self.end_lent(&mut trained.state_ahead())?;
        }
        let placed = [loaded.placed(), trained.back.placed()];
        let (slot, outputs) = (0, OutputGradients::Rows(&[]));
        let part = TrainingPart {
            forward: Part { slot, plan: &plan.forward, given },
            back: BackPart { slot, plan, outputs },
            ends: &[],
        };
        let step = TrainingStep { parts: slice::from_ref(&part), loss: 0.0, update: None };
        self.write_parts(&loaded, &placed, &step)?;
        let own = &self.slots[slot];
        check(&rows, own.commands.outputs())?;
        // One memory has all given rows, and begins with the rows of the host.
        let (host, of_host) = (given.host.len(), own.memory.given.address(device));
        let elements = host + memory.iter().map(Borrowed::elements).sum::<usize>();
        if u32::try_from(elements).is_err() {
            let (what, elements) = ("given rows", elements as u64);
            return Err(CudaError::TooLarge { what, elements }.into());
        }
        let (all, is_copied) = match memory {
            [one] if host == 0 => (one.address(), false),
            _ => (device.address(self.given.reserve(device, elements)?), true),
        };
        let [forward, back] = &placed;
        let waits = loaded.pass.waits_for_rows(forward) || trained.back.waits_for_rows(back);
        let clears = waits && self.can_clear(&step);
        let state = &mut *trained.state_ahead();
        self.place_parts(&loaded, state, &step, clears);
        let arguments = &mut self.step.forward[0].arguments;
        (arguments.given, arguments.outputs) = (all, rows.address());
        let kernel = loaded.team_kernel(forward);
        let barriers = waits && !clears;
        let kernel = TeamKernel { barriers: kernel.barriers || barriers, ..kernel };
        self.lent = Lent::Ran { placed: placed.clone(), barriers };
        self.chain(state, stream, &placed, |state, held| {
            let mut to = all;
            let borrowed = memory.iter().map(|borrowed| (borrowed.address(), borrowed.elements()));
            for (from, words) in [(of_host, host)].into_iter().chain(borrowed) {
                if is_copied && words > 0 {
                    device.enqueue_copy(held.stream(), from, to, words)?;
                }
                to += 4 * words as u64;
            }
            state.launch_teams(device, held, &kernel, &self.step.forward)
        })
    }

    fn gradient_rows(
        &mut self,
        plan: &TrainingPlan,
    ) -> Result<Vec<Option<Vec<u32>>>, BackendError> {
        let Lent::Ran { placed: [_, back], .. } = &self.lent else { return Err(nothing_ran()) };
        let (loaded, trained) = (&*self.loaded, self.trained());
        let state = &mut *trained.state_ahead();
        state.forget(&trained.table);
        trained.list_sums(loaded, state, &[(self.slots[0].span.start as u32, plan)])?;
        trained.list_totals(loaded, state, back)?;
        let rows = state.complete.completed.iter().map(|complete| match complete {
            None => Some(Vec::new()),
            Some(Completed { rows, .. }) => rows.as_ref().map(|(rows, _)| rows.clone()),
        });
        Ok(rows.collect())
    }

    fn backward_from(
        &mut self,
        stream: u64,
        plan: &TrainingPlan,
        given: Given<'_>,
        rows: Borrowed,
        memory: &[Borrowed],
        parameters: &[Borrowed],
    ) -> Result<(), BackendError> {
        let Lent::Ran { placed, barriers } = &self.lent else { return Err(nothing_ran()) };
        let (loaded, trained) = (&*self.loaded, self.trained());
        let (device, state) = (&*loaded.device, &mut *trained.state_ahead());
        let own = &self.slots[0];
        check(&rows, own.commands.outputs())?;
        let complete = mem::take(&mut state.complete.completed);
        let gradients = complete.iter().zip(parameters).filter_map(|(complete, to)| {
            complete.as_ref().map(|Completed { place, elements, .. }| (*place, *elements, to))
        });
        let gradients: Vec<_> = gradients.collect();
        if complete.is_empty() && !parameters.is_empty() {
            return Err(nothing_ran());
        }
        gradients.iter().try_for_each(|(_, elements, to)| check(to, *elements as usize))?;
        let (start, arena) = (own.span.start as u32, self.arena.address(device));
        // All memory is allocated before the first launch.
        let back = &placed[1];
        state.moves_lists = true;
        let sums = trained.sums(device, state, arena)?;
        let totals = trained.totals(device, state)?;
        state.moves_lists = false;
        let fields = trained.table.fields.as_flattened();
        let of_tables = trained.rows(device, state, fields, (arena, &[], 0.0))?;
        let adjoints = trained.row_adjoints(loaded, state, back);
        let of_given =
            trained.borrowed_rows(loaded, state, (start, plan, given), (arena, memory))?;
        let kernel = trained.back.team_kernel(device, back);
        let kernel = TeamKernel { barriers: kernel.barriers || *barriers, ..kernel };
        let parts = &mut self.step.back;
        parts[0].arguments.given = rows.address();
        self.chain(state, stream, placed, |state, held| {
            let own = held.stream();
            state.launch_teams(device, held, &kernel, &self.step.back)?;
            for [from, to, words] in state.take_copies(device) {
                device.enqueue_copy(own, from, to, words as usize)?;
            }
            for grid in of_tables.iter().chain(&of_given) {
                state.enqueue(device, own, grid, false)?;
            }
            if let Some((kernel, part)) = &adjoints {
                state.launch_teams(device, held, kernel, slice::from_ref(part))?;
            }
            for grid in sums.iter().chain([&totals]) {
                state.enqueue(device, own, grid, false)?;
            }
            let sums = state.memory.address(device);
            for &(place, elements, to) in &gradients {
                let (from, words) = (sums + 4 * u64::from(place), elements as usize);
                device.enqueue_copy(own, from, to.address(), words)?;
            }
            Ok(())
        })?;
        state.forget(&trained.table);
        Ok(())
    }
}

fn nothing_ran() -> BackendError {
    CudaError::failed("a backward pass in borrowed memory", "nothing has run forward").into()
}

//! Gradients on the CPU: runs plans back, and sums the gradients of parameters.

use std::collections::HashMap;
use std::sync::PoisonError;

use edbatch_graph::{Cell, Kind, ParameterSum, RowAdjoint, Table, TrainingNetwork};
use edbatch_layout::{Action, CallSums, GivenSum, Operand, Plan, Program, Step, TrainingPlan};

use super::{Cpu, Shared, Slot};
use crate::backend::{
    BackPart, Gradient, Gradients, OutputGradients, Training, TrainingState, Update, fields,
};
use crate::kernels::{self, Level, RowsMut, RowsRef, accumulate, outer};
use crate::thread_pool::{ClaimedPool, ThreadPool};
use crate::{BackendError, Rows};

/// The gradients of parameters so far, in parts.
#[derive(Debug)]
pub(super) struct Sums {
    /// For each cell with an adjoint: what its calls contribute.
    cells: Vec<Option<CellSums>>,
    /// For each initial value of the network and each of its fields: the sums of output gradients
    /// and of contributions, if there were any.
    initial: Vec<Vec<[Vec<f32>; 2]>>,
    /// The gradients that were completed last.
    total: Gradients,
    /// The memory in which row adjoints run.
    slot: Slot,
}

#[derive(Debug)]
struct CellSums {
    /// For each of the adjoint's sums, the gradient of its parameter; empty if it is zero.
    parameters: Vec<Vec<f32>>,
    /// For each table: the gradients of its rows, if needed.
    tables: Vec<Option<TableSums>>,
}

/// Sums over all calls that name the same row of a table.
#[derive(Debug)]
struct TableSums {
    /// The distinct rows, in the order in which they were named.
    rows: Vec<u32>,
    /// For each row: its index in `rows`.
    index: HashMap<u32, u32>,
    /// The sums of each row, `stride` apart.
    sums: Vec<f32>,
    stride: usize,
    /// For each field to sum: its offset in the adjoint's row, its offset in a row of `sums`, and
    /// its width.
    fields: Vec<[usize; 3]>,
}

impl Sums {
    pub(super) fn new(program: &Program) -> Option<Self> {
        let training = program.training()?;
        let network = program.network();
        let of_table = |cell: Kind, table: &Option<RowAdjoint>| {
            let RowAdjoint { fields, cell: row_cell, .. } = table.as_ref()?;
            let from = program.record(network[cell].record());
            let from = fields.clone().map(|field| {
                (
                    from.offsets[usize::from(field)] as usize,
                    from.widths[usize::from(field)] as usize,
                )
            });
            // The row adjoint reads the sums at its only port.
            let (to, stride) = match row_cell {
                Some(row) => {
                    let record = program.record(network[*row].ports()[0].record);
                    (record.offsets.clone(), record.stride as usize)
                }
                None => (vec![0], from.clone().map(|(_, width)| width).sum()),
            };
            let fields = from.zip(to).map(|((from, width), to)| [from, to as usize, width]);
            let fields = fields.collect();
            let (rows, index, sums) = (Vec::new(), HashMap::new(), Vec::new());
            Some(TableSums { rows, index, sums, stride, fields })
        };
        let cells = training.adjoints.iter().map(|adjoint| {
            let adjoint = adjoint.as_ref()?;
            let tables = adjoint.tables.iter().map(|table| of_table(adjoint.cell, table));
            let parameters = vec![Vec::new(); adjoint.sums.len()];
            Some(CellSums { parameters, tables: tables.collect() })
        });
        let initial = network.initial_values().iter();
        let initial =
            initial.map(|value| vec![[const { Vec::new() }; 2]; value.parameters.len()]).collect();
        let total = Gradients { parameters: empty_gradients(training) };
        Some(Self { cells: cells.collect(), initial, total, slot: Slot::default() })
    }

    fn forget(&mut self) {
        for cell in self.cells.iter_mut().flatten() {
            cell.parameters.iter_mut().for_each(Vec::clear);
            for table in cell.tables.iter_mut().flatten() {
                table.rows.clear();
                table.index.clear();
                table.sums.clear();
            }
        }
        self.initial.iter_mut().flatten().flatten().for_each(Vec::clear);
    }

    /// Adds the contributions of a part.
    fn add(
        &mut self,
        (program, level): (&Program, Level),
        arena: &[f32],
        plan: &TrainingPlan,
        workers: &mut Option<ClaimedPool<'_>>,
    ) {
        for sums @ CallSums { cell, rows, .. } in &plan.calls {
            let adjoint = program.adjoint(*cell).expect("it has contributions");
            let of_cell = self.cells[cell.index()].as_mut().expect("it has an adjoint");
            let list = plan.list(rows);
            let calls = Calls { program, level, cell: adjoint.cell, arena, rows: list };
            for (sum, to) in adjoint.sums.iter().zip(&mut of_cell.parameters) {
                calls.add(sum, to, workers);
            }
            let count = of_cell.tables.len();
            let named = &plan.named[sums.named as usize..][..list.len() * count];
            for (table, to) in of_cell.tables.iter_mut().enumerate() {
                let Some(to) = to else { continue };
                let named = named.iter().skip(table).step_by(count);
                named.zip(list).for_each(|(&named, &row)| to.add(named, &arena[row as usize..]));
            }
        }
        for sum in &plan.given {
            let Some(initial) = self.initial.get_mut(sum.given as usize) else { continue };
            let record = program.record(plan.forward.given[sum.given as usize].record);
            let field = usize::from(sum.field);
            let (outputs, calls) = plan.list(&sum.rows).split_at(sum.outputs as usize);
            for (to, offsets) in initial[field].iter_mut().zip([outputs, calls]) {
                to.resize(record.widths[field] as usize, 0.0);
                accumulate(level, &RowsRef::List { data: arena, offsets }, to);
            }
        }
    }
}

impl TableSums {
    /// Adds what an adjoint call contributes to a row of the table.
    fn add(&mut self, named: u32, adjoint: &[f32]) {
        let next = self.rows.len() as u32;
        let index = *self.index.entry(named).or_insert(next) as usize;
        if index == self.rows.len() {
            self.rows.push(named);
            self.sums.resize(self.rows.len() * self.stride, 0.0);
        }
        let sums = &mut self.sums[index * self.stride..][..self.stride];
        for &[from, to, width] in &self.fields {
            let to = sums[to..][..width].iter_mut();
            to.zip(&adjoint[from..][..width]).for_each(|(to, from)| *to += from);
        }
    }
}

/// Adjoint calls whose contributions are summed.
struct Calls<'a> {
    program: &'a Program,
    level: Level,
    /// The adjoint cell.
    cell: Kind,
    arena: &'a [f32],
    /// The offsets of the rows of the calls.
    rows: &'a [u32],
}

/// Minimum number of multiply-adds of a sum that threads share.
const MIN_SHARED: usize = 1 << 18;

impl Calls<'_> {
    /// Adds what the calls contribute to the gradient of a parameter.
    fn add(&self, sum: &ParameterSum, to: &mut Vec<f32>, workers: &mut Option<ClaimedPool<'_>>) {
        let record = self.program.record(self.program.network()[self.cell].record());
        let parameter = self.program.network().parameter(sum.parameter());
        to.resize(parameter.elements(), 0.0);
        let offset = |field: u16| record.offsets[usize::from(field)] as usize;
        let (delta, x, pairs) = match *sum {
            ParameterSum::Elements { from, .. } => {
                let rows = RowsRef::List { data: &self.arena[offset(from)..], offsets: self.rows };
                return accumulate(self.level, &rows, to);
            }
            ParameterSum::Products { delta, x, pairs, .. } => (delta, x, pairs as usize),
        };
        let (outputs, depth) = (parameter.dims[0], parameter.dims[1]);
        // Call after call, the offsets of its pairs, which follow each other.
        let of_pairs = |width: usize| -> Vec<u32> {
            let pairs = |&row: &u32| (0..pairs).map(move |pair| row + (pair * width) as u32);
            self.rows.iter().flat_map(pairs).collect()
        };
        let (deltas, xs) = match pairs {
            1 => (None, None),
            _ => (Some(of_pairs(outputs)), Some(of_pairs(depth))),
        };
        let deltas = RowsRef::List {
            data: &self.arena[offset(delta)..],
            offsets: deltas.as_deref().unwrap_or(self.rows),
        };
        let xs = RowsRef::List {
            data: &self.arena[offset(x)..],
            offsets: xs.as_deref().unwrap_or(self.rows),
        };
        match workers.as_mut().filter(|_| to.len() * deltas.len() >= MIN_SHARED) {
            None => outer(self.level, &deltas, 0, &xs, RowsMut::contiguous(to, depth)),
            Some(workers) => {
                // Whole micro-tiles of rows for each thread.
                let each = outputs.div_ceil(workers.threads()).next_multiple_of(6);
                let tiles = to.chunks_mut(each * depth).enumerate();
                workers.share(tiles, |_, (tile, to)| {
                    let to = RowsMut::contiguous(to, depth);
                    outer(self.level, &deltas, tile * each, &xs, to);
                });
            }
        }
    }
}

impl Slot {
    /// Writes the gradients of outputs into their rows, and appends the loss of each wanted value.
    fn place_gradients(
        &mut self,
        (program, level): (&Program, Level),
        TrainingPlan { forward, back, gradient_of, .. }: &TrainingPlan,
        outputs: OutputGradients<'_>,
    ) {
        self.losses.clear();
        let mut given = match outputs {
            OutputGradients::Rows(rows) => rows,
            OutputGradients::CrossEntropy { .. } => &[],
        };
        for (wanted, gradient) in gradient_of.iter().enumerate() {
            let Some(gradient) = gradient else {
                self.losses.push(0.0);
                continue;
            };
            let to = back.given[*gradient as usize];
            match outputs {
                OutputGradients::Rows(_) => {
                    for (start, width) in fields(program, to) {
                        let (field, rest) = given.split_at(width);
                        self.arena[start..][..width].copy_from_slice(field);
                        given = rest;
                    }
                    self.losses.push(0.0);
                }
                OutputGradients::CrossEntropy { targets, weight } => {
                    let mut scores = fields(program, forward.wanted[wanted].0);
                    let (from, width) = scores.next().expect("scores are a vector");
                    let start = to.start as usize;
                    self.arena.copy_within(from..from + width, start);
                    let (row, class) =
                        (&mut self.arena[start..][..width], targets[wanted] as usize);
                    let loss = kernels::math::cross_entropy(level, row, class);
                    row[class] -= 1.0;
                    row.iter_mut().for_each(|element| *element *= weight);
                    self.losses.push(f64::from(weight) * loss);
                }
            }
        }
    }

    /// Runs the way back of a part on thread number `worker`, or on all `workers` if there are any.
    fn run_back(
        &mut self,
        shared: Shared<'_>,
        part: &BackPart<'_>,
        worker: usize,
        mut workers: Option<&mut ClaimedPool<'_>>,
    ) {
        let loaded = shared.loaded;
        self.place_gradients((&loaded.program, loaded.level), part.plan, part.outputs);
        for step in 0..part.plan.back.steps.len() {
            self.execute(shared, &part.plan.back, step, worker, workers.as_deref_mut());
        }
    }
}

impl Cpu {
    /// Computes the gradients of a table's rows from the sums over all calls that name them.
    fn finish_table(
        &mut self,
        slot: &mut Slot,
        sums: &TableSums,
        adjoint: &RowAdjoint,
        table: &Table,
        gradients: &mut [Gradient],
    ) -> Result<(), BackendError> {
        if sums.rows.is_empty() {
            return Ok(());
        }
        let program = self.loaded.program.clone();
        let gradient =
            &mut gradients[table.parameter.expect("an index has no gradient").0 as usize];
        let Some(kind) = adjoint.cell else {
            add_rows(gradient, &sums.rows, sums.sums.chunks_exact(sums.stride));
            return Ok(());
        };
        // The arena holds the sums of all rows, then the rows of the row adjoint.
        let (calls, stride) = (sums.rows.len(), program.cell(kind).output_stride as usize);
        let plan = Plan {
            steps: vec![Step {
                cell: kind,
                action: Action::Call,
                calls: calls as u32,
                out: sums.sums.len() as u32,
                operands: 0,
            }],
            operands: vec![
                Operand::Table { start: 0 },
                Operand::Span { first: 0, stride: sums.stride as u32 },
            ],
            rows: sums.rows.iter().map(|row| row * program.table_width(table)).collect(),
            arena: sums.sums.len() + calls * stride,
            ..Plan::default()
        };
        if u32::try_from(plan.arena).is_err() {
            let what = "the gradients of a table's rows";
            return Err(BackendError::Memory { what, bytes: 4 * plan.arena as u64 });
        }
        let reserved = slot.arena.reserve(plan.arena);
        reserved.map_err(|error| error.of("the gradients of a table's rows"))?;
        self.reserve_workspaces(&plan)?;
        slot.arena[..sums.sums.len()].copy_from_slice(&sums.sums);
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let loaded = self.loaded.clone();
        let weights = loaded.weights();
        slot.execute(self.split(&weights).1, &plan, 0, 0, workers.as_mut());
        let first = sums.sums.len() as u32;
        let rows: Vec<u32> = (first..).step_by(stride).take(calls).collect();
        let (level, arena) = (self.loaded.level, &*slot.arena);
        let calls = Calls { program: &program, level, cell: kind, arena, rows: &rows };
        if let Some(field) = adjoint.row {
            let record = program.record(program.network()[kind].record());
            let field = usize::from(field);
            let (offset, width) = (record.offsets[field] as usize, record.widths[field] as usize);
            let of_row = rows.iter().map(|&row| &arena[row as usize + offset..][..width]);
            add_rows(gradient, &sums.rows, of_row);
        }
        for sum in &adjoint.sums {
            let mut of_rows = Vec::new();
            calls.add(sum, &mut of_rows, &mut workers);
            add(&mut gradients[sum.parameter().0 as usize], &of_rows);
        }
        Ok(())
    }
}

/// Returns zero gradients. A table that is read only row by row has the gradients of some rows.
fn empty_gradients(training: &TrainingNetwork) -> Vec<Gradient> {
    let network = &training.network;
    let mut is_whole = vec![false; network.parameters().len()];
    let mut is_table = is_whole.clone();
    for adjoint in training.adjoints.iter().flatten() {
        let of_rows = adjoint.tables.iter().flatten().flat_map(|table| &table.sums);
        for sum in adjoint.sums.iter().chain(of_rows) {
            is_whole[sum.parameter().0 as usize] = true;
        }
    }
    for parameter in network.initial_values().iter().flat_map(|initial| &initial.parameters) {
        is_whole[parameter.0 as usize] = true;
    }
    let tables = network.cells().iter().flat_map(Cell::tables);
    for parameter in tables.filter_map(|table| table.parameter) {
        is_table[parameter.0 as usize] = true;
    }
    let gradient = |(index, &is_trained): (usize, &bool)| match (is_trained, is_table[index]) {
        (false, _) => Gradient::None,
        (_, true) if !is_whole[index] => Gradient::Rows { rows: vec![], elements: vec![] },
        _ => Gradient::Whole(vec![]),
    };
    training.trained.iter().enumerate().map(gradient).collect()
}

/// Removes the elements of a gradient, and keeps the memory.
fn clear(gradient: &mut Gradient) {
    match gradient {
        Gradient::None => {}
        Gradient::Whole(elements) => elements.clear(),
        Gradient::Rows { rows, elements } => {
            rows.clear();
            elements.clear();
        }
    }
}

/// Adds to the gradients of all elements of a trained parameter. Without elements, they are zero.
fn add(gradient: &mut Gradient, from: &[f32]) {
    match gradient {
        Gradient::Whole(to) if to.is_empty() => to.extend_from_slice(from),
        Gradient::Whole(to) => {
            // Rows of a table may have been added before.
            to.resize(to.len().max(from.len()), 0.0);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
        _ => {}
    }
}

/// Adds to the gradients of some rows of a trained table.
fn add_rows<'a>(gradient: &mut Gradient, rows: &[u32], from: impl Iterator<Item = &'a [f32]>) {
    let add = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(to, x)| *to += x);
    match gradient {
        Gradient::None => {}
        Gradient::Whole(to) => rows.iter().zip(from).for_each(|(&row, from)| {
            let start = row as usize * from.len();
            to.resize(to.len().max(start + from.len()), 0.0);
            add(&mut to[start..start + from.len()], from);
        }),
        Gradient::Rows { rows: known, elements } => {
            let mut index: HashMap<u32, usize> = known.iter().copied().zip(0..).collect();
            for (&row, from) in rows.iter().zip(from) {
                let at = *index.entry(row).or_insert(known.len());
                if at == known.len() {
                    known.push(row);
                    elements.extend_from_slice(from);
                } else {
                    add(&mut elements[at * from.len()..][..from.len()], from);
                }
            }
        }
    }
}

/// The message for a backend whose program is not for training.
const FOR_TRAINING: &str = "the program is for training";

impl Training for Cpu {
    fn run_back(
        &mut self,
        parts: &[BackPart<'_>],
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError> {
        parts.iter().try_for_each(|part| self.reserve_workspaces(&part.plan.back))?;
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let loaded = self.loaded.clone();
        let weights = loaded.weights();
        let (slots, shared) = self.split(&weights);
        match (parts, workers.as_mut()) {
            ([_, _, ..], Some(workers)) => {
                let slots = slots.iter_mut().enumerate().filter_map(|(number, slot)| {
                    Some((slot, parts.iter().find(|part| part.slot == number)?))
                });
                let slots: Vec<_> = slots.collect();
                workers.share(slots.into_iter(), |worker, (slot, part)| {
                    slot.run_back(shared, part, worker, None);
                });
            }
            (parts, mut workers) => parts.iter().for_each(|part| {
                slots[part.slot].run_back(shared, part, 0, workers.as_deref_mut());
            }),
        }
        parts.iter().for_each(|part| losses.extend(&slots[part.slot].losses));
        Ok(())
    }

    fn add_sums(&mut self, parts: &[(usize, &TrainingPlan)]) -> Result<(), BackendError> {
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let mut sums =
            self.sums.as_ref().expect(FOR_TRAINING).lock().unwrap_or_else(PoisonError::into_inner);
        let of = (&*self.loaded.program, self.loaded.level);
        for &(slot, plan) in parts {
            sums.add(of, &self.slots[slot].arena, plan, &mut workers);
        }
        Ok(())
    }

    fn given_gradients(&self, slot: usize, plan: &TrainingPlan) -> Rows {
        let (program, arena) = (&self.loaded.program, &self.slots[slot].arena);
        let initial = program.network().initial_values().len();
        let (mut rows, mut sums) = (Rows::new(), plan.given.iter().peekable());
        while sums.next_if(|sum| (sum.given as usize) < initial).is_some() {}
        for (index, given) in plan.forward.given.iter().enumerate().skip(initial) {
            let widths = &program.record(given.record).widths;
            rows.push_with(|row| {
                for (field, &width) in widths.iter().enumerate() {
                    let start = row.len();
                    row.resize(start + width as usize, 0.0);
                    let is_own = |sum: &&GivenSum| {
                        (sum.given as usize, usize::from(sum.field)) == (index, field)
                    };
                    if let Some(sum) = sums.next_if(is_own) {
                        let from = RowsRef::List { data: arena, offsets: plan.list(&sum.rows) };
                        accumulate(self.loaded.level, &from, &mut row[start..]);
                    }
                }
            });
        }
        rows
    }

    fn finish(&mut self) -> Result<f64, BackendError> {
        let sums = self.sums.clone().expect(FOR_TRAINING);
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        let Sums { cells, initial, total, slot } = &mut *sums;
        total.parameters.iter_mut().for_each(clear);
        let program = self.loaded.program.clone();
        for (kind, of_cell) in cells.iter().enumerate() {
            let Some(of_cell) = of_cell else { continue };
            let adjoint = program.adjoint(Kind::new(kind)).expect("it has sums");
            for (sum, from) in adjoint.sums.iter().zip(&of_cell.parameters) {
                add(&mut total.parameters[sum.parameter().0 as usize], from);
            }
            let declared = program.network().cells()[kind].tables();
            let tables = of_cell.tables.iter().zip(&adjoint.tables).zip(declared);
            for ((of_table, adjoint), declared) in tables {
                let (Some(of_table), Some(adjoint)) = (of_table, adjoint) else { continue };
                self.finish_table(slot, of_table, adjoint, declared, &mut total.parameters)?;
            }
        }
        for (declared, fields) in program.network().initial_values().iter().zip(initial) {
            for (parameter, field) in declared.parameters.iter().zip(fields) {
                let gradient = &mut total.parameters[parameter.0 as usize];
                field.iter().for_each(|sum| add(gradient, sum));
            }
        }
        for (gradient, parameter) in total.parameters.iter_mut().zip(program.network().parameters())
        {
            if let Gradient::Whole(elements) = gradient {
                elements.resize(parameter.elements(), 0.0);
            }
        }
        Ok(total.squared_norm())
    }

    fn gradients(&self) -> Gradients {
        let sums = self.sums.as_ref().expect(FOR_TRAINING);
        sums.lock().unwrap_or_else(PoisonError::into_inner).total.clone()
    }

    fn update(&mut self, update: &Update<'_>) -> Result<(), BackendError> {
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let sums = self.sums.as_ref().expect(FOR_TRAINING);
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        let gradients = update.gradients.unwrap_or(&sums.total);
        self.loaded.update(update, gradients, &mut workers)?;
        sums.forget();
        Ok(())
    }

    fn state(&self) -> TrainingState {
        self.loaded.state()
    }

    fn set_state(&mut self, state: &TrainingState) -> Result<(), BackendError> {
        self.loaded.set_state(state)
    }

    fn forget(&mut self) {
        if let Some(sums) = &self.sums {
            sums.lock().unwrap_or_else(PoisonError::into_inner).forget();
        }
    }
}

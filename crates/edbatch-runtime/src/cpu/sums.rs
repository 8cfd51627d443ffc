//! The gradients of parameters so far: sums over the calls of adjoint cells.

use edbatch_graph::{Kind, ParameterId, ParameterSum, RowAdjoint};
use edbatch_layout::{CallSums, Program, TrainingPlan};

use super::{Cancel, Slot};
use crate::backend::{Contributors, Gradient, Gradients, NamedRows, reserve};
use crate::kernels::{Level, RowsMut, RowsRef, accumulate, outer};
use crate::thread_pool::ClaimedPool;
use crate::{BackendError, Bytes};

/// The gradients of parameters: sums by cell and by initial value, and the completed gradients.
#[derive(Debug)]
pub(super) struct Sums {
    /// For each cell with an adjoint: the contributions of its calls.
    pub(super) cells: Vec<Option<CellSums>>,
    /// For each initial value of the network and each of its fields: the sums of output gradients
    /// and of contributions, if there were any.
    pub(super) initial: Vec<Vec<[Vec<f32>; 2]>>,
    /// The gradients. Each part adds to the gradients of [direct](Self::is_direct) parameters;
    /// [`finish_sums`](super::Cpu::finish_sums) completes the others.
    pub(super) total: Gradients,
    /// The sum of the squares of `total`, once it is complete.
    pub(super) squared_norm: f64,
    /// By parameter: true if the only contribution is one sum over calls of a cell, which is then
    /// added to `total` directly.
    pub(super) is_direct: Vec<bool>,
    /// The memory in which row adjoints run.
    pub(super) slot: Slot,
}

#[derive(Debug)]
pub(super) struct CellSums {
    /// For each of the adjoint's sums, the gradient of its parameter; empty if it is zero or the
    /// parameter is direct.
    pub(super) parameters: Vec<Vec<f32>>,
    /// For each table: the gradients of its rows, if needed.
    pub(super) tables: Vec<Option<TableSums>>,
}

/// Sums over all calls that name the same row of a table.
#[derive(Debug)]
pub(super) struct TableSums {
    /// The distinct rows.
    pub(super) named: NamedRows,
    /// The sums of each row, `stride` apart.
    pub(super) sums: Vec<f32>,
    pub(super) stride: usize,
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
            let (named, sums) = (NamedRows::default(), Vec::new());
            Some(TableSums { named, sums, stride, fields })
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
        let contributors = Contributors::all(training);
        let gradients = contributors.iter().zip(&training.trained);
        let gradients = gradients.map(|(of, &is_trained)| of.empty_gradient(is_trained));
        let total = Gradients { parameters: gradients.collect() };
        let is_direct = contributors.iter().map(Contributors::is_direct).collect();
        let (cells, squared_norm, slot) = (cells.collect(), 0.0, Slot::default());
        Some(Self { cells, initial, total, squared_norm, is_direct, slot })
    }

    pub(super) fn forget(&mut self) {
        for cell in self.cells.iter_mut().flatten() {
            cell.parameters.iter_mut().for_each(Vec::clear);
            for table in cell.tables.iter_mut().flatten() {
                table.named.clear();
                table.sums.clear();
            }
        }
        self.initial.iter_mut().flatten().flatten().for_each(Vec::clear);
        self.total.parameters.iter_mut().for_each(Gradient::clear);
    }

    /// Returns the memory of the sums, once each parameter has a gradient. Sums by row of a table
    /// depend on the mini-batch, and count as arena.
    pub(super) fn bytes(&self, program: &Program) -> Bytes {
        let elements = |&id: &ParameterId| program.network().parameter(id).elements();
        let adjoints = (0..self.cells.len()).filter_map(|kind| program.adjoint(Kind::new(kind)));
        let of_cells = adjoints.flat_map(|adjoint| &adjoint.sums).map(ParameterSum::parameter);
        let of_cells = of_cells.filter(|id| !self.is_direct[id.0 as usize]);
        let whole = (0..).map(ParameterId).zip(&self.total.parameters);
        let whole = whole.filter(|(_, gradient)| matches!(gradient, Gradient::Whole(_)));
        let elements: usize = of_cells.chain(whole.map(|(id, _)| id)).map(|id| elements(&id)).sum();
        let tables = self.cells.iter().flatten().flat_map(|cell| cell.tables.iter().flatten());
        let rows = self.total.parameters.iter().map(|gradient| match gradient {
            Gradient::Rows { elements, .. } => elements.capacity(),
            _ => 0,
        });
        let rows = tables.map(|table| table.sums.capacity()).chain(rows).sum::<usize>();
        let rows = rows + self.slot.arena.len();
        let (weights, arena) = (elements * size_of::<f32>(), rows * size_of::<f32>());
        Bytes { weights, arena, store: 0 }
    }

    /// Adds the contributions of a part, or some of them if the step is cancelled.
    pub(super) fn add(
        &mut self,
        (program, level, cancel): (&Program, Level, &Cancel),
        arena: &[f32],
        plan: &TrainingPlan,
        workers: &mut Option<ClaimedPool<'_>>,
    ) -> Result<(), BackendError> {
        for sums @ CallSums { cell, rows, .. } in &plan.calls {
            let adjoint = program.adjoint(*cell).expect("it has contributions");
            let of_cell = self.cells[cell.index()].as_mut().expect("it has an adjoint");
            let list = plan.list(rows);
            for (sum, own) in adjoint.sums.iter().zip(&mut of_cell.parameters) {
                let parameter = sum.parameter().0 as usize;
                let to = match &mut self.total.parameters[parameter] {
                    Gradient::Whole(total) if self.is_direct[parameter] => total,
                    _ => own,
                };
                let elements = program.network().parameter(sum.parameter()).elements();
                for rows in list.chunks((MAX_WORK / elements).clamp(1 << 7, 1 << 16)) {
                    if !cancel.goes_on() {
                        return Ok(());
                    }
                    let calls = Calls { program, level, cell: adjoint.cell, arena, rows };
                    calls.add(sum, to, workers)?;
                }
            }
            let count = of_cell.tables.len();
            let named = &plan.named[sums.named as usize..][..list.len() * count];
            for (table, to) in of_cell.tables.iter_mut().enumerate() {
                let Some(to) = to else { continue };
                let named = named.iter().skip(table).step_by(count);
                let mut named = named.zip(list);
                named.try_for_each(|(&named, &row)| to.add(named, &arena[row as usize..]))?;
            }
        }
        for sum in &plan.given {
            let Some(initial) = self.initial.get_mut(sum.given as usize) else { continue };
            let record = program.record(plan.forward.given[sum.given as usize].record);
            let field = usize::from(sum.field);
            let (outputs, calls) = plan.list(&sum.rows).split_at(sum.outputs as usize);
            for (to, offsets) in initial[field].iter_mut().zip([outputs, calls]) {
                zeros(to, record.widths[field] as usize)?;
                accumulate(level, &RowsRef::List { data: arena, offsets }, to);
            }
        }
        Ok(())
    }
}

/// The purpose of the memory for sums, as out-of-memory errors name it.
pub(super) const SUMS: &str = "the gradients of parameters";

/// Extends a sum by zeros.
pub(super) fn zeros(sum: &mut Vec<f32>, elements: usize) -> Result<(), BackendError> {
    reserve(sum, elements.saturating_sub(sum.len()), SUMS)?;
    sum.resize(elements, 0.0);
    Ok(())
}

impl TableSums {
    /// Adds what an adjoint call contributes to a row of the table.
    fn add(&mut self, named: u32, adjoint: &[f32]) -> Result<(), BackendError> {
        let index = self.named.add(named)?;
        if self.sums.len() == index * self.stride {
            zeros(&mut self.sums, (index + 1) * self.stride)?;
        }
        let sums = &mut self.sums[index * self.stride..][..self.stride];
        for &[from, to, width] in &self.fields {
            let to = sums[to..][..width].iter_mut();
            to.zip(&adjoint[from..][..width]).for_each(|(to, from)| *to += from);
        }
        Ok(())
    }
}

/// Adjoint calls whose contributions are summed.
pub(super) struct Calls<'a> {
    pub(super) program: &'a Program,
    pub(super) level: Level,
    /// The adjoint cell.
    pub(super) cell: Kind,
    pub(super) arena: &'a [f32],
    /// The offsets of the rows of the calls.
    pub(super) rows: &'a [u32],
}

/// Minimum number of multiply-adds of a sum that threads share.
const MIN_SHARED: usize = 1 << 18;

/// Maximum number of multiply-adds between two questions whether a step is still wanted.
const MAX_WORK: usize = 1 << 28;

impl Calls<'_> {
    /// Adds what the calls contribute to the gradient of a parameter.
    pub(super) fn add(
        &self,
        sum: &ParameterSum,
        to: &mut Vec<f32>,
        workers: &mut Option<ClaimedPool<'_>>,
    ) -> Result<(), BackendError> {
        let record = self.program.record(self.program.network()[self.cell].record());
        let parameter = self.program.network().parameter(sum.parameter());
        zeros(to, parameter.elements())?;
        let offset = |field: u16| record.offsets[usize::from(field)] as usize;
        let (delta, x, pairs) = match *sum {
            ParameterSum::Elements { from, .. } => {
                let rows = RowsRef::List { data: &self.arena[offset(from)..], offsets: self.rows };
                accumulate(self.level, &rows, to);
                return Ok(());
            }
            ParameterSum::Products { delta, x, pairs, .. } => (delta, x, pairs as usize),
        };
        let (outputs, depth) = (parameter.dims[0], parameter.dims[1]);
        // For each call in turn, the offsets of its pairs, which are adjacent.
        let of_pairs = |width: usize| -> Result<Vec<u32>, BackendError> {
            let each = |&row: &u32| (0..pairs).map(move |pair| row + (pair * width) as u32);
            let mut all = Vec::new();
            reserve(&mut all, pairs * self.rows.len(), SUMS)?;
            all.extend(self.rows.iter().flat_map(each));
            Ok(all)
        };
        let (deltas, xs) = match pairs {
            1 => (None, None),
            _ => (Some(of_pairs(outputs)?), Some(of_pairs(depth)?)),
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
                workers.share_alike(tiles, |_, (tile, to)| {
                    let to = RowsMut::contiguous(to, depth);
                    outer(self.level, &deltas, tile * each, &xs, to);
                });
            }
        }
        Ok(())
    }
}

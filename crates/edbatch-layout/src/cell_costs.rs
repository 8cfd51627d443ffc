//! What a cell's batches copy before and after they run: the paper's table of memory costs.
//!
//! A *memory kernel* is a pass that does nothing but move data. Two rules count them.
//!
//! *By the paper's rule*, as far as it can be inferred from the figures: all operations of a batch
//! read their operands, and write their results, contiguous and in one order of positions; each
//! operand that does not lie so is a kernel that copies it, and so is each operand that repeats a
//! variable, and each concatenation. Parameters count as any other operand, once for each call. As
//! declared, parameters and inputs lie in the order of their declaration, and the results of a
//! batch one after the other, batch by batch, as a system that batches without a planner writes
//! them; as planned, all lie in the order of [`aligned::plan`].
//!
//! *By our own rule*: parameters are laid out once, when the model is loaded, and an operand that
//! repeats a variable is read where it is. As declared, that is what the same batches would copy;
//! as planned, what the [`CellPlan`] does copy, repeat, transpose and fill.
//!
//! *Source*: section 3 of the paper and its table of memory costs.

use edbatch_graph::{Cell, Kind, Network, Op, Var};

use crate::aligned::{
    self, AlignedBatch, AlignedOperand, Cause, Fate, Layout, OperandId, Problem, Search, Why,
    why_copied,
};
use crate::cell_plan::{CellPlan, Place};
use crate::names::name_of;
use crate::picture::is_move;
use crate::program::Program;

/// What a cell's batches copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellCosts {
    /// The cell's name.
    pub cell: String,
    /// How many batches there are inside the cell.
    pub batches: usize,
    /// By the paper's rule.
    pub paper_rule: Compared,
    /// By our own rule.
    pub own_rule: Compared,
    /// What the planned order still copies by the paper's rule.
    pub copied: Vec<Copied>,
}

/// Without and with a planner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// With variables in the order of their declaration.
    pub declared: Moved,
    /// With variables in the planned order.
    pub planned: Moved,
}

/// What is moved by passes that do nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Moved {
    /// How many passes there are.
    pub kernels: usize,
    /// How many bytes they write.
    pub bytes: u64,
}

/// An operand that a batch cannot use where it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The operation of the batch.
    pub operation: String,
    /// The variables, position by position.
    pub variables: Vec<String>,
    /// What the copy writes.
    pub bytes: u64,
    /// Why it is copied.
    pub why: String,
}

/// What a cell of a program copies for so many calls, if its operations run in these batches.
///
/// `batches` may come from [`inner_batches`](crate::inner_batches) or from a policy.
#[must_use]
pub fn cell_costs(program: &Program, kind: Kind, batches: &[Vec<Var>], calls: u64) -> CellCosts {
    let network = program.network();
    let cell = &network.cells()[kind.index()];
    let bytes = |var: Var| 4 * calls * cell.instruction(var).shape.elements() as u64;
    let inner = Inner::new(cell, batches, bytes);
    let planned = aligned::plan(&inner.problem, Search::default());
    let declared = Layout::of_order(&inner.problem, (0..inner.problem.variables).collect());
    let concatenations = inner.concatenations(bytes);
    let paper_rule = Compared {
        declared: inner.by_papers_rule(&declared).plus(concatenations),
        planned: inner.by_papers_rule(&planned).plus(concatenations),
    };
    let own_rule = Compared {
        declared: inner.by_own_rule(&declared).plus(concatenations).plus(inner.constants(bytes)),
        planned: moved_by(program.cell(kind), calls),
    };
    let copied = inner.copied(network, &planned);
    CellCosts { cell: cell.name().into(), batches: batches.len(), paper_rule, own_rule, copied }
}

/// A cell's batches as a layout problem: its batches are those of several operations.
struct Inner<'a> {
    cell: &'a Cell,
    /// Variables are numbered as they lie without a planner.
    problem: Problem,
    /// For each variable of the problem, that of the cell.
    vars: Vec<Var>,
    /// For each batch of the problem, the operations.
    positions: Vec<&'a [Var]>,
}

impl<'a> Inner<'a> {
    fn new(cell: &'a Cell, batches: &'a [Vec<Var>], bytes: impl Fn(Var) -> u64) -> Self {
        let all = (0..cell.instructions().len() as u32).map(Var);
        let sources = all.filter(|&var| cell.instruction(var).op.is_source());
        let vars: Vec<Var> = sources.chain(batches.iter().flatten().copied()).collect();
        let mut number = vec![0; vars.len()];
        for (variable, var) in (0..).zip(&vars) {
            number[var.index()] = variable;
        }
        let variables = vars.len() as u32;
        let problem = Problem { variables, batches: Vec::new() };
        let mut inner = Self { cell, problem, vars, positions: Vec::new() };
        for positions in batches {
            let first = cell.instruction(positions[0]);
            if positions.len() < 2 || first.op == Op::Concat {
                continue;
            }
            let operand = |variables: Vec<Var>| AlignedOperand {
                weight: variables.iter().map(|&var| bytes(var)).sum(),
                positions: variables.iter().map(|var| number[var.index()]).collect(),
            };
            let role = |role: usize| {
                positions.iter().map(move |&var| cell.instruction(var).operands[role])
            };
            let roles = (0..first.operands.len()).map(|index| operand(role(index).collect()));
            let operands = roles.chain([operand(positions.clone())]).collect();
            inner.problem.batches.push(AlignedBatch { operands });
            inner.positions.push(positions);
        }
        inner
    }

    /// One kernel for each operand that is copied or repeated.
    fn by_papers_rule(&self, layout: &Layout) -> Moved {
        self.count(layout, |_, fate| fate != Fate::InPlace)
    }

    /// One kernel for each operand that is copied, but for parameters and for repeated variables.
    fn by_own_rule(&self, layout: &Layout) -> Moved {
        self.count(layout, |operand, fate| {
            let op = self.cell.instruction(self.vars[operand.positions[0] as usize]).op;
            let mut sorted = operand.positions.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let repeats = sorted.len() < operand.positions.len();
            fate == Fate::Copied && !repeats && !matches!(op, Op::Parameter(_))
        })
    }

    fn count(&self, layout: &Layout, counts: impl Fn(&AlignedOperand, Fate) -> bool) -> Moved {
        let operands = self.problem.operands();
        let counted = operands.filter(|&(id, operand)| counts(operand, layout.fate(id)));
        counted.fold(Moved::default(), |sum, (_, operand)| {
            sum.plus(Moved { kernels: 1, bytes: operand.weight })
        })
    }

    fn concatenations(&self, bytes: impl Fn(Var) -> u64) -> Moved {
        let vars = self.vars.iter().copied();
        let concatenated = vars.filter(|&var| self.cell.instruction(var).op == Op::Concat);
        concatenated
            .fold(Moved::default(), |sum, var| sum.plus(Moved { kernels: 1, bytes: bytes(var) }))
    }

    /// A constant is filled in, with or without a planner.
    fn constants(&self, bytes: impl Fn(Var) -> u64) -> Moved {
        let constant = |var: &&Var| matches!(self.cell.instruction(**var).op, Op::Constant(_));
        self.vars
            .iter()
            .filter(constant)
            .fold(Moved::default(), |sum, &var| sum.plus(Moved { kernels: 1, bytes: bytes(var) }))
    }

    fn copied(&self, network: &Network, layout: &Layout) -> Vec<Copied> {
        let operands = self.problem.operands().filter(|&(id, _)| layout.fate(id) != Fate::InPlace);
        let describe = |(id, operand): (OperandId, &AlignedOperand)| {
            let name = |&variable: &u32| name_of(network, self.cell, self.vars[variable as usize]);
            let why = match why_copied(&self.problem, layout, id) {
                None => format!("all positions read {}", name(&operand.positions[0])),
                Some(Why { cause: Cause::Repeats(variable), .. }) => {
                    format!("several positions read {}", name(&variable))
                }
                Some(why) => why.to_string(),
            };
            Copied {
                operation: self
                    .cell
                    .instruction(self.positions[id.batch as usize][0])
                    .op
                    .to_string(),
                variables: operand.positions.iter().map(name).collect(),
                bytes: operand.weight,
                why,
            }
        };
        operands.map(describe).collect()
    }
}

/// What the steps of a plan move that compute nothing. Copies side by side are one kernel, as a
/// concatenation is.
fn moved_by(plan: &CellPlan, calls: u64) -> Moved {
    let moves = plan.steps.iter().filter(|step| is_move(step));
    let mut moved = Moved::default();
    let mut end = None;
    for step in moves {
        for (place, width) in step.writes() {
            moved.kernels += usize::from(end != Some(place));
            moved.bytes += 4 * calls * u64::from(width);
            end = Some(Place { offset: place.offset + width, ..place });
        }
    }
    moved
}

impl Moved {
    fn plus(self, other: Self) -> Self {
        Self { kernels: self.kernels + other.kernels, bytes: self.bytes + other.bytes }
    }
}

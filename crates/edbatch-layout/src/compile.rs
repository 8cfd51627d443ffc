//! Compiling a cell: from its equations to steps over scratch.
//!
//! Operations run in stages, until none is left:
//!
//! 1. everything that is neither a product of a parameter nor element-wise and can run, runs;
//! 2. every product of a parameter and a vector that can run, runs; those that read the same
//!    vector are stacked into one, with their results side by side;
//! 3. the element-wise operations on which a later product still waits run, as one program per
//!    width; when nothing waits any more, all the rest does.
//!
//! A sum of products needs no addition of its own: the second product is added to the place of
//! the first (`Mode::Add`), which gives the same bits, as each product is a chain of its own.
//! Operands of a concatenation are computed where the concatenation wants them; one that only
//! products of matrices read, as their right factor, is never made, as they read it in pieces. A
//! product of matrices adds the bias of its rows itself.
//!
//! *Source*: section 3 of the paper, whose batches of operations inside a cell are the stacked
//! products and the fused programs here. *Cost*: O(operations²), far below a millisecond.

mod elementwise;
mod hoist;
mod matrices;
mod others;
mod places;
mod products;
mod regions;

use std::collections::{HashMap, HashSet};

use edbatch_graph::{Cell, Op, Shape, Var};

use crate::cell_plan::{CellPlan, CellStep, Place};
use crate::record_layout::RecordLayout;
use regions::Regions;

/// How a cell's memory is laid out and its operations are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CellStyle {
    /// Each operation is a step; variables lie in the order of their declaration. What a system
    /// without a planner does, kept for comparison.
    Declaration,
    /// Products stacked and accumulated, element-wise runs fused, concatenations in place.
    Planned,
    /// As planned, and what depends on a single argument is taken out of the cell: a mini-batch computes
    /// it once per distinct row of a table, or for many calls at once that must run one by one.
    #[default]
    Hoisted,
}

/// Compiles a cell of a network.
#[must_use]
pub(crate) fn compile(records: &[RecordLayout], cell: &Cell, style: CellStyle) -> CellPlan {
    match style {
        CellStyle::Declaration => compile_with(records, cell, style, Regions::ByVector),
        CellStyle::Hoisted => {
            let mut plan = compile(records, cell, CellStyle::Planned);
            plan.hoisted = hoist::hoist(&plan).map(Box::new);
            plan
        }
        CellStyle::Planned => {
            let by_vector = compile_with(records, cell, style, Regions::ByVector);
            let shared = compile_with(records, cell, style, Regions::Shared);
            // A shared region may also cost: what is read from it while it is written is copied first.
            if shared.steps.len() < by_vector.steps.len() { shared } else { by_vector }
        }
    }
}

fn compile_with(
    records: &[RecordLayout],
    cell: &Cell,
    style: CellStyle,
    shared: Regions,
) -> CellPlan {
    let mut compiler = Compiler::new(records, cell, style, shared);
    match style {
        CellStyle::Declaration => compiler.one_by_one(),
        CellStyle::Planned | CellStyle::Hoisted => compiler.in_stages(),
    }
    compiler.return_sources();
    let output = &records[usize::from(cell.record().0)];
    let last = output.offsets.len() - 1;
    CellPlan {
        name: cell.name().into(),
        hoisted: None,
        regions: compiler.regions,
        output_stride: output.stride,
        output_width: output.offsets[last] + output.widths[last],
        steps: compiler.steps,
    }
}

struct Compiler<'a> {
    records: &'a [RecordLayout],
    cell: &'a Cell,
    output: &'a RecordLayout,
    shared: Regions,
    /// For each variable, the variables that read it.
    users: Vec<Vec<Var>>,
    /// For each variable: whether it follows from rows of tables and parameters alone.
    from_rows: Vec<bool>,
    /// Where a variable is or will be; sources and aliases have theirs from the start.
    place: Vec<Option<Place>>,
    /// Whether a variable can be read.
    ready: Vec<bool>,
    /// For a product that is a term of a sum of products: the sum, and its index among the terms.
    term_of: HashMap<Var, (Var, usize)>,
    /// For a sum of products: how many of its terms have run.
    terms_run: HashMap<Var, usize>,
    /// The additions inside such a sum, which run with it.
    partial_sums: HashMap<Var, Var>,
    /// Concatenations that are read in pieces.
    in_pieces: HashSet<Var>,
    /// For a sum that runs with its product of matrices: the product and the bias.
    biased: HashMap<Var, (Var, Var)>,
    /// Broadcast operands that have been expanded, by the width.
    expanded: HashMap<(Var, Shape), Place>,
    regions: Vec<u32>,
    steps: Vec<CellStep>,
}

impl<'a> Compiler<'a> {
    fn new(records: &'a [RecordLayout], cell: &'a Cell, style: CellStyle, shared: Regions) -> Self {
        let count = cell.instructions().len();
        let mut users = vec![Vec::new(); count];
        let mut from_rows: Vec<bool> = Vec::with_capacity(count);
        for (v, instruction) in cell.instructions().iter().enumerate() {
            for operand in &instruction.operands {
                users[operand.index()].push(Var(v as u32));
            }
            let operands = instruction.operands.iter().all(|operand| from_rows[operand.index()]);
            let is_value = matches!(instruction.op, Op::Input { .. } | Op::Reduce { .. });
            from_rows.push(!is_value && operands);
        }
        let mut compiler = Self {
            records,
            cell,
            output: &records[usize::from(cell.record().0)],
            shared,
            users,
            from_rows,
            place: vec![None; count],
            ready: vec![false; count],
            term_of: HashMap::new(),
            terms_run: HashMap::new(),
            partial_sums: HashMap::new(),
            in_pieces: HashSet::new(),
            biased: HashMap::new(),
            expanded: HashMap::new(),
            regions: Vec::new(),
            steps: Vec::new(),
        };
        compiler.place_sources();
        compiler.place_outputs();
        if style == CellStyle::Planned {
            compiler.find_sums();
            compiler.find_pieces();
            compiler.find_biases();
            compiler.place_concatenations();
        }
        compiler
    }

    fn vars(&self) -> impl Iterator<Item = Var> + use<> {
        (0..self.cell.instructions().len() as u32).map(Var)
    }

    fn op(&self, var: Var) -> Op {
        self.cell.instruction(var).op
    }

    fn operands(&self, var: Var) -> &'a [Var] {
        &self.cell.instruction(var).operands
    }

    fn shape(&self, var: Var) -> Shape {
        self.cell.instruction(var).shape
    }

    fn width(&self, var: Var) -> u32 {
        self.shape(var).elements() as u32
    }

    fn is_ready(&self, var: Var) -> bool {
        self.ready[var.index()]
    }

    fn all_ready(&self, var: Var) -> bool {
        self.operands(var).iter().all(|&operand| self.is_ready(operand))
    }

    fn one_by_one(&mut self) {
        for var in self.vars() {
            if self.is_ready(var) {
                continue;
            }
            if self.op(var).is_elementwise() {
                self.expand_operands(var);
                self.run_elementwise(&[var]);
            } else if let Some(weight) = self.weight(var) {
                self.run_products(vec![(var, weight)]);
            } else {
                self.run_other(var);
            }
        }
    }

    fn in_stages(&mut self) {
        while !self.ready.iter().all(|&ready| ready) {
            let before = self.ready.clone();
            self.run_all_others();
            self.run_all_products();
            self.run_elementwise_awaited();
            assert!(before != self.ready, "operands precede their users");
        }
    }
}

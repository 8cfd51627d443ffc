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
//! the first ([`Mode::Add`]), which gives the same bits, as each product is a chain of its own.
//! Operands of a concatenation are computed where the concatenation wants them.
//!
//! *Source*: section 3 of the paper, whose batches of operations inside a cell are the stacked
//! products and the fused programs here. *Cost*: O(operations²), far below a millisecond.

use std::collections::HashMap;

use edbatch_graph::{Cell, Op, ParameterId, Shape, Var};

use crate::cell_plan::{Base, CellPlan, CellStep, Elementwise, Mode, Place, Scalar};
use crate::record_layout::{RecordLayout, next_line};

/// How a cell's memory is laid out and its operations are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CellStyle {
    /// Each operation is a step; variables lie in the order of their declaration. What a system
    /// without a planner does, kept for comparison.
    Declaration,
    /// Products stacked and accumulated, element-wise runs fused, concatenations in place.
    #[default]
    Planned,
}

/// Compiles a cell of a network.
#[must_use]
pub(crate) fn compile(records: &[RecordLayout], cell: &Cell, style: CellStyle) -> CellPlan {
    let mut compiler = Compiler::new(records, cell, style);
    match style {
        CellStyle::Declaration => compiler.one_by_one(),
        CellStyle::Planned => compiler.in_stages(),
    }
    compiler.return_sources();
    let output = &records[usize::from(cell.record().0)];
    let last = output.offsets.len() - 1;
    CellPlan {
        name: cell.name().into(),
        scratch: next_line(compiler.scratch as usize) as u32,
        output_stride: output.stride,
        output_width: output.offsets[last] + output.widths[last],
        steps: compiler.steps,
    }
}

/// Products, each with the parameter that is its left factor.
type Products = Vec<(Var, ParameterId)>;

struct Compiler<'a> {
    records: &'a [RecordLayout],
    cell: &'a Cell,
    output: &'a RecordLayout,
    /// For each variable, the variables that read it.
    users: Vec<Vec<Var>>,
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
    /// Broadcast operands that have been expanded, by the width.
    expanded: HashMap<(Var, Shape), Place>,
    scratch: u32,
    steps: Vec<CellStep>,
}

impl<'a> Compiler<'a> {
    fn new(records: &'a [RecordLayout], cell: &'a Cell, style: CellStyle) -> Self {
        let count = cell.instructions().len();
        let mut users = vec![Vec::new(); count];
        for (v, instruction) in cell.instructions().iter().enumerate() {
            for operand in &instruction.operands {
                users[operand.index()].push(Var(v as u32));
            }
        }
        let mut compiler = Self {
            records,
            cell,
            output: &records[usize::from(cell.record().0)],
            users,
            place: vec![None; count],
            ready: vec![false; count],
            term_of: HashMap::new(),
            terms_run: HashMap::new(),
            partial_sums: HashMap::new(),
            expanded: HashMap::new(),
            scratch: 0,
            steps: Vec::new(),
        };
        compiler.place_sources();
        compiler.place_outputs();
        if style == CellStyle::Planned {
            compiler.find_sums();
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
        self.operands(var)
            .iter()
            .all(|&operand| self.is_ready(operand))
    }

    fn at(&self, var: Var) -> Place {
        self.place[var.index()].expect("a variable that is ready has a place")
    }

    /// The place of a result, allotted now unless it was before.
    fn place_result(&mut self, var: Var) -> Place {
        let width = self.width(var);
        if self.place[var.index()].is_none() {
            self.place[var.index()] = Some(self.allot(width));
        }
        self.at(var)
    }

    fn allot(&mut self, width: u32) -> Place {
        let place = Place {
            base: Base::Scratch,
            offset: self.scratch,
        };
        self.scratch += width;
        place
    }

    fn place_sources(&mut self) {
        for var in self.vars() {
            let place = match self.op(var) {
                Op::Input { port, field } => Place {
                    base: Base::Port(port),
                    offset: self.field_offset(port, field),
                },
                Op::Lookup { table } => Place {
                    base: Base::Table(table),
                    offset: 0,
                },
                Op::Parameter(id) => Place {
                    base: Base::Parameter(id),
                    offset: 0,
                },
                _ => continue,
            };
            self.place[var.index()] = Some(place);
            self.ready[var.index()] = true;
        }
    }

    fn field_offset(&self, port: u16, field: u16) -> u32 {
        let record = self.cell.ports()[usize::from(port)].record;
        self.records[usize::from(record.0)].offsets[usize::from(field)]
    }

    /// Results that the cell returns are computed in the output row. A slice is no result of its
    /// own but lies within another; it and sources are copied there in the end.
    fn place_outputs(&mut self) {
        for (field, &var) in self.cell.outputs().iter().enumerate() {
            let offset = self.output.offsets[field];
            let own = !self.op(var).is_source() && !matches!(self.op(var), Op::Slice { .. });
            if own && self.place[var.index()].is_none() {
                self.place[var.index()] = Some(Place {
                    base: Base::Output,
                    offset,
                });
            }
        }
    }

    /// Copies into the output row what is returned but lies elsewhere.
    fn return_sources(&mut self) {
        for (field, &var) in self.cell.outputs().iter().enumerate() {
            let out = Place {
                base: Base::Output,
                offset: self.output.offsets[field],
            };
            let from = self.at(var);
            if from != out {
                self.steps.push(CellStep::Copy {
                    from,
                    width: self.width(var),
                    out,
                });
            }
        }
    }

    /// Finds sums all of whose terms are products that nothing else reads.
    fn find_sums(&mut self) {
        for var in self.vars() {
            let Some(terms) = self.terms(var) else {
                continue;
            };
            let within = self.users[var.index()]
                .iter()
                .any(|&user| self.terms(user).is_some());
            if terms.len() < 2 || within {
                continue;
            }
            let mut inner = self.operands(var)[0];
            while self.op(inner) == Op::Add {
                self.partial_sums.insert(inner, var);
                inner = self.operands(inner)[0];
            }
            for (index, term) in terms.into_iter().enumerate() {
                self.term_of.insert(term, (var, index));
            }
            self.terms_run.insert(var, 0);
        }
    }

    /// The products whose left-to-right sum this variable is, if it is one and nothing reads the
    /// parts.
    fn terms(&self, var: Var) -> Option<Vec<Var>> {
        if self.weight(var).is_some() {
            return Some(vec![var]);
        }
        let (Op::Add, &[left, right]) = (self.op(var), self.operands(var)) else {
            return None;
        };
        let private =
            |v: Var| self.users[v.index()].len() == 1 && !self.cell.outputs().contains(&v);
        if self.shape(left) != self.shape(right) || !private(left) || !private(right) {
            return None;
        }
        self.weight(right)?;
        let mut terms = self.terms(left)?;
        terms.push(right);
        Some(terms)
    }

    /// The parameter, if the variable is a parameter times a vector.
    fn weight(&self, var: Var) -> Option<ParameterId> {
        let (Op::MatMul, &[left, right]) = (self.op(var), self.operands(var)) else {
            return None;
        };
        match (self.op(left), self.shape(right)) {
            (Op::Parameter(id), Shape::Vector(_)) => Some(id),
            _ => None,
        }
    }

    /// Gives operands of concatenations their place inside the whole, outer ones first.
    fn place_concatenations(&mut self) {
        for var in (0..self.cell.instructions().len() as u32).rev().map(Var) {
            if self.op(var) != Op::Concat {
                continue;
            }
            let mut place = self.place_result(var);
            for &part in self.operands(var) {
                let own = !self.op(part).is_source() && !matches!(self.op(part), Op::Slice { .. });
                if own && self.place[part.index()].is_none() {
                    self.place[part.index()] = Some(place);
                }
                place.offset += self.width(part);
            }
        }
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

    fn run_all_others(&mut self) {
        for var in self.vars() {
            let op = self.op(var);
            if op.is_elementwise() {
                if !self.is_ready(var) {
                    self.expand_operands(var);
                }
            } else if !self.is_ready(var) && self.weight(var).is_none() && self.all_ready(var) {
                self.run_other(var);
            }
        }
    }

    /// An operand with fewer elements than the result is repeated before an element-wise
    /// operation reads it.
    fn expand_operands(&mut self, var: Var) {
        let shape = self.shape(var);
        for &operand in self.operands(var) {
            let narrow = self.width(operand) != self.width(var);
            if !narrow || !self.is_ready(operand) || self.expanded.contains_key(&(operand, shape)) {
                continue;
            }
            let (from, out) = (self.at(operand), self.allot(self.width(var)));
            let rows = self.width(operand);
            let columns = self.width(var) / rows;
            self.steps.push(CellStep::Expand {
                from,
                rows,
                columns,
                out,
            });
            self.expanded.insert((operand, shape), out);
        }
    }

    fn run_other(&mut self, var: Var) {
        let operands = self.operands(var);
        if let Op::Slice { start, .. } = self.op(var) {
            let mut place = self.at(operands[0]);
            place.offset += start * self.shape(operands[0]).rows_and_columns().1 as u32;
            self.place[var.index()] = Some(place);
            self.ready[var.index()] = true;
            return;
        }
        let out = self.place_result(var);
        let width = self.width(var);
        let step = match self.op(var) {
            Op::Reduce { port, field, by } => {
                let from = self.field_offset(port, field);
                CellStep::Reduce {
                    port,
                    from,
                    width,
                    by,
                    out,
                }
            }
            Op::Constant(value) => CellStep::Fill { value, width, out },
            Op::MatMul => {
                let (m, k) = self.shape(operands[0]).rows_and_columns();
                let n = self.shape(operands[1]).rows_and_columns().1;
                let (left, right) = (self.at(operands[0]), self.at(operands[1]));
                CellStep::MatMul {
                    left,
                    right,
                    m: m as u32,
                    k: k as u32,
                    n: n as u32,
                    out,
                }
            }
            Op::Softmax | Op::LogSoftmax => {
                let logarithm = self.op(var) == Op::LogSoftmax;
                CellStep::Softmax {
                    from: self.at(operands[0]),
                    width,
                    out,
                    logarithm,
                }
            }
            Op::Transpose => {
                let (rows, columns) = self.shape(operands[0]).rows_and_columns();
                let (rows, columns) = (rows as u32, columns as u32);
                CellStep::Transpose {
                    from: self.at(operands[0]),
                    rows,
                    columns,
                    out,
                }
            }
            Op::Concat => {
                self.copy_parts(operands, out);
                self.ready[var.index()] = true;
                return;
            }
            op => unreachable!("{op} is run elsewhere"),
        };
        self.steps.push(step);
        self.ready[var.index()] = true;
    }

    fn copy_parts(&mut self, parts: &[Var], mut out: Place) {
        for &part in parts {
            let (from, width) = (self.at(part), self.width(part));
            if from != out {
                self.steps.push(CellStep::Copy { from, width, out });
            }
            out.offset += width;
        }
    }

    /// Runs every product that can, those that read the same vector together.
    fn run_all_products(&mut self) {
        let mut groups: Vec<(Place, u32, Products)> = Vec::new();
        for var in self.vars() {
            let Some(weight) = self.weight(var) else {
                continue;
            };
            if self.is_ready(var) || !self.all_ready(var) {
                continue;
            }
            let x = self.operands(var)[1];
            let (place, width) = (self.at(x), self.width(x));
            match groups
                .iter_mut()
                .find(|(p, w, _)| (*p, *w) == (place, width))
            {
                Some((_, _, group)) => group.push((var, weight)),
                None => groups.push((place, width, vec![(var, weight)])),
            }
        }
        for (_, _, group) in groups {
            let may_run = |&(var, _): &(Var, ParameterId)| match self.term_of.get(&var) {
                // The first two terms commute, bit by bit; later ones wait for their turn.
                Some(&(sum, index)) => index <= 1 || self.terms_run[&sum] == index,
                None => true,
            };
            let group: Vec<_> = group.into_iter().filter(may_run).collect();
            if !group.is_empty() {
                self.run_products(group);
            }
        }
    }

    /// Products of several weights and one vector, stacked where their results lie side by side.
    fn run_products(&mut self, group: Products) {
        let x = self.operands(group[0].0)[1];
        let (x, width) = (self.at(x), self.width(x));
        let mut results = Vec::with_capacity(group.len());
        for (var, weight) in group {
            let target = self.term_of.get(&var).map_or(var, |&(sum, _)| sum);
            let run = self.terms_run.get(&target).copied().unwrap_or(0);
            let mode = if run == 0 { Mode::Set } else { Mode::Add };
            results.push((self.place_result(target), self.width(var), weight, mode));
            self.ready[var.index()] = true;
            if let Some(run) = self.terms_run.get_mut(&target) {
                *run += 1;
                let terms = self
                    .term_of
                    .values()
                    .filter(|(sum, _)| *sum == target)
                    .count();
                if *run == terms {
                    self.ready[target.index()] = true;
                    for (partial, _) in self.partial_sums.iter().filter(|(_, sum)| **sum == target)
                    {
                        self.ready[partial.index()] = true;
                    }
                }
            }
        }
        results.sort_by_key(|&(place, ..)| place);
        let first = self.steps.len();
        for (out, rows, weight, mode) in results {
            if let Some(CellStep::Product {
                weights,
                rows: n,
                out: o,
                mode: m,
                ..
            }) = self.steps[first..].last_mut()
                && (*m, o.base, o.offset + *n) == (mode, out.base, out.offset)
            {
                weights.push(weight);
                *n += rows;
            } else {
                let weights = vec![weight];
                self.steps.push(CellStep::Product {
                    weights,
                    rows,
                    width,
                    x,
                    out,
                    mode,
                });
            }
        }
    }

    /// Runs the element-wise operations that something else waits for; all, if nothing does.
    fn run_elementwise_awaited(&mut self) {
        let mut awaited = vec![false; self.ready.len()];
        let mut waiting = false;
        for var in (0..self.ready.len() as u32).rev().map(Var) {
            let pending = !self.is_ready(var);
            let barrier = pending && (!self.op(var).is_elementwise() || self.expands(var));
            waiting |= barrier;
            if barrier || (pending && awaited[var.index()]) {
                for operand in self.operands(var) {
                    awaited[operand.index()] = true;
                }
            }
        }
        let mut run: Vec<Var> = Vec::new();
        for var in self.vars() {
            let wanted = awaited[var.index()] || !waiting;
            if !self.is_ready(var) && wanted && self.can_fuse(var, &run) {
                run.push(var);
            }
        }
        while let Some(&first) = run.first() {
            let width = self.width(first);
            let (same, rest) = run.into_iter().partition(|&var| self.width(var) == width);
            run = rest;
            self.run_elementwise(&same);
        }
    }

    /// Whether the operation has an operand that has yet to be repeated.
    fn expands(&self, var: Var) -> bool {
        self.op(var).is_elementwise()
            && self.operands(var).iter().any(|&operand| {
                self.width(operand) != self.width(var)
                    && !self.expanded.contains_key(&(operand, self.shape(var)))
            })
    }

    fn can_fuse(&self, var: Var, run: &[Var]) -> bool {
        self.op(var).is_elementwise()
            && !self.terms_run.contains_key(&var)
            && !self.partial_sums.contains_key(&var)
            && !self.expands(var)
            && self
                .operands(var)
                .iter()
                .all(|&operand| self.is_ready(operand) || run.contains(&operand))
    }

    /// One program over operations of one width, each after its operands.
    fn run_elementwise(&mut self, run: &[Var]) {
        let mut program = Elementwise {
            width: self.width(run[0]),
            inputs: Vec::new(),
            instructions: Vec::new(),
            outputs: Vec::new(),
        };
        for &var in run {
            for &operand in self.operands(var) {
                if !run.contains(&operand) {
                    let place = self.operand_place(operand, var);
                    if !program.inputs.contains(&place) {
                        program.inputs.push(place);
                    }
                }
            }
        }
        for &var in run {
            let register = |operand: Var| match run.iter().position(|&other| other == operand) {
                Some(index) => program.inputs.len() + index,
                None => {
                    let place = self.operand_place(operand, var);
                    program
                        .inputs
                        .iter()
                        .position(|&p| p == place)
                        .expect("collected above")
                }
            } as u16;
            let instruction = scalar(self.op(var), self.operands(var), register);
            program.instructions.push(instruction);
        }
        for (index, &var) in run.iter().enumerate() {
            let read_later = self.users[var.index()]
                .iter()
                .any(|user| !run.contains(user));
            if read_later || self.cell.outputs().contains(&var) {
                let place = self.place_result(var);
                program
                    .outputs
                    .push(((program.inputs.len() + index) as u16, place));
            }
            self.ready[var.index()] = true;
        }
        self.steps.push(CellStep::Elementwise(program));
    }

    fn operand_place(&self, operand: Var, user: Var) -> Place {
        match self.expanded.get(&(operand, self.shape(user))) {
            Some(&place) if self.width(operand) != self.width(user) => place,
            _ => self.at(operand),
        }
    }
}

fn scalar(op: Op, operands: &[Var], register: impl Fn(Var) -> u16) -> Scalar {
    let a = register(operands[0]);
    let b = || register(operands[1]);
    match op {
        Op::Add => Scalar::Add(a, b()),
        Op::Sub => Scalar::Sub(a, b()),
        Op::Mul => Scalar::Mul(a, b()),
        Op::Div => Scalar::Div(a, b()),
        Op::Neg => Scalar::Neg(a),
        Op::Scale(s) => Scalar::Scale(a, s),
        Op::Sigmoid => Scalar::Sigmoid(a),
        Op::Tanh => Scalar::Tanh(a),
        Op::Relu => Scalar::Relu(a),
        Op::Exp => Scalar::Exp(a),
        Op::Log => Scalar::Log(a),
        op => unreachable!("{op} is not element-wise"),
    }
}

//! Emits a batch of element-wise operations inside a cell: one kernel over contiguous operands.
//!
//! Arguments and results of the cell, whose layout is fixed elsewhere, are read and written in
//! place; so is an operand that all operations share. Other operands are first copied together,
//! and results are copied to their places, unless they are contiguous in the order of the batch.

use edbatch_graph::{Op, Var};

use super::Emitter;
use crate::cell_plan::{Base, CellStep, Place};
use crate::copied::Why;
use crate::elementwise::{Elementwise, Register};

/// The places of one operand, or of the results, for all operations of a batch.
enum Role {
    /// Contiguous, from this place on.
    Block(Place),
    /// A place for each operation.
    Each(Vec<Place>),
}

impl Emitter<'_> {
    pub(super) fn batch(&mut self, batch: &[Var]) {
        let width = self.equations.width(batch[0]);
        let batch = self.in_order(batch);
        let places: Vec<Place> = batch.iter().map(|&var| self.places.of(var)).collect();
        let results = if contiguous(&places, width) {
            Role::Block(places[0])
        } else if batch.iter().any(|&var| !self.equations.is_free(var)) {
            Role::Each(places.clone())
        } else {
            Role::Block(self.places.allocate(width * batch.len() as u32))
        };
        let mut written: Vec<Base> = match &results {
            Role::Block(block) => vec![block.base],
            Role::Each(places) => places.iter().map(|place| place.base).collect(),
        };
        written.dedup();
        let roles = 0..self.equations.operands(batch[0]).len();
        let roles: Vec<Role> = roles.map(|role| self.operand(&batch, role, &written)).collect();
        let (positions, op) = (batch.len() as u32, self.equations.op(batch[0]));
        if roles.iter().chain([&results]).all(|role| matches!(role, Role::Block(_))) {
            self.kernel(op, &roles, &results, (1, width * positions));
        } else {
            self.kernel(op, &roles, &results, (positions, width));
        }
        if let Role::Block(block) = results
            && block != places[0]
        {
            for (index, (&var, &out)) in (0..).zip(batch.iter().zip(&places)) {
                let from = nth(block, index, width);
                self.move_by(CellStep::copy(from, width, out), var, Why::Scattered);
            }
        }
    }

    /// Sorts the operations of a batch by the places of their results. If the cell returns a
    /// result, sorts them by their first operand whose places a layout may choose, if there is one.
    fn in_order(&self, batch: &[Var]) -> Vec<Var> {
        let (equations, mut batch) = (self.equations, batch.to_vec());
        let is_free = |&var: &Var| equations.is_free(var);
        let operand = |var: Var, role: usize| equations.operands(var)[role];
        let mut roles = 0..equations.operands(batch[0]).len();
        let laid_out = roles.find(|&role| batch.iter().all(|&var| is_free(&operand(var, role))));
        match laid_out {
            Some(role) if !batch.iter().all(is_free) => {
                batch.sort_by_key(|&var| self.places.of(operand(var, role)));
            }
            _ => batch.sort_by_key(|&var| self.places.of(var)),
        }
        batch
    }

    /// Returns the places of an operand, which is copied to contiguous memory if necessary.
    fn operand(&mut self, batch: &[Var], role: usize, written: &[Base]) -> Role {
        let (equations, width) = (self.equations, self.equations.width(batch[0]));
        let vars: Vec<Var> = batch.iter().map(|&var| equations.operands(var)[role]).collect();
        let at = |(&var, &reader): (&Var, &Var)| self.places.of_operand(equations, var, reader);
        let mut places: Vec<Place> = vars.iter().zip(batch).map(at).collect();
        let own =
            |(&var, &place): (&Var, &Place)| equations.is_free(var) && place == self.places.of(var);
        if contiguous(&places, width) {
            let block = width * batch.len() as u32;
            return Role::Block(self.apart((places[0], block), vars[0], written));
        }
        let shared = places.iter().all(|place| *place == places[0]);
        if shared || !vars.iter().zip(&places).all(own) {
            if shared {
                let place = self.apart((places[0], width), vars[0], written);
                places.fill(place);
            } else {
                for (place, &var) in places.iter_mut().zip(&vars) {
                    *place = self.apart((*place, width), var, written);
                }
            }
            return Role::Each(places);
        }
        let block = self.places.allocate(width * batch.len() as u32);
        for (index, (&var, &from)) in (0..).zip(vars.iter().zip(&places)) {
            let out = nth(block, index, width);
            self.move_by(CellStep::copy(from, width, out), var, Why::Gathered(batch[0]));
        }
        Role::Block(block)
    }

    /// Emits an element-wise step with `positions` operations, each on `width` elements.
    fn kernel(
        &mut self,
        op: Op,
        operands: &[Role],
        results: &Role,
        (positions, width): (u32, u32),
    ) {
        let mut inputs: Vec<Place> = Vec::new();
        let mut register = |place: Place| {
            let index = inputs.iter().position(|&input| input == place).unwrap_or_else(|| {
                inputs.push(place);
                inputs.len() - 1
            });
            Register(index as u16)
        };
        let place = |role: &Role, position: u32| match role {
            Role::Block(first) => nth(*first, position, width),
            Role::Each(places) => places[position as usize],
        };
        let mut ops: Vec<(Op, Vec<Register>)> = Vec::new();
        for position in 0..positions {
            let operands = operands.iter().map(|role| register(place(role, position)));
            ops.push((op, operands.collect()));
        }
        let first = inputs.len() as u16;
        let registers: Vec<_> = (first..first + positions as u16).map(Register).collect();
        let program = Elementwise::new(first, &ops, &registers);
        let outputs = (0..positions).map(|position| place(results, position)).collect();
        let mut step = CellStep::Elementwise { width, inputs, outputs, program };
        step.sort_outputs();
        self.steps.push(step);
    }
}

/// Returns the place of a position in a block.
fn nth(block: Place, position: u32, width: u32) -> Place {
    Place { offset: block.offset + position * width, ..block }
}

/// Returns true if the places are contiguous, in memory that belongs to one call.
fn contiguous(places: &[Place], width: u32) -> bool {
    let follows = |pair: &[Place]| pair[1] == nth(pair[0], 1, width);
    let own = |place: &Place| !matches!(place.base, Base::Parameter(_));
    places.len() == 1 || (places.iter().all(own) && places.windows(2).all(follows))
}

//! Where the variables of a cell live.

use edbatch_graph::Op;

use super::{Compiler, Var};
use crate::cell_plan::{Base, CellStep, Place};

impl Compiler<'_> {
    pub(super) fn at(&self, var: Var) -> Place {
        self.place[var.index()].expect("a variable that is ready has a place")
    }

    /// The place of a result, allotted now unless it was before.
    pub(super) fn place_result(&mut self, var: Var) -> Place {
        let width = self.width(var);
        if self.place[var.index()].is_none() {
            self.place[var.index()] = Some(self.allot(width));
        }
        self.at(var)
    }

    /// A region of its own.
    pub(super) fn allot(&mut self, width: u32) -> Place {
        self.regions.push(width);
        let region = u16::try_from(self.regions.len() - 1).expect("bounded by the program");
        Place { base: Base::Scratch(region), offset: 0 }
    }

    /// A copy of a tensor, if it lies in what is about to be written.
    pub(super) fn apart(&mut self, from: Place, width: u32, written: &[Base]) -> Place {
        let may_clash = matches!(from.base, Base::Scratch(_) | Base::Output);
        if !may_clash || !written.contains(&from.base) {
            return from;
        }
        let out = self.allot(width);
        self.steps.push(CellStep::Copy { from, width, out });
        out
    }

    pub(super) fn field_offset(&self, port: u16, field: u16) -> u32 {
        let record = self.cell.ports()[usize::from(port)].record;
        self.records[usize::from(record.0)].offsets[usize::from(field)]
    }

    pub(super) fn place_sources(&mut self) {
        for var in self.vars() {
            let place = match self.op(var) {
                Op::Input { port, field } => {
                    Place { base: Base::Port(port), offset: self.field_offset(port, field) }
                }
                Op::Lookup { table } => Place { base: Base::Table(table), offset: 0 },
                Op::Parameter(id) => Place { base: Base::Parameter(id), offset: 0 },
                _ => continue,
            };
            self.place[var.index()] = Some(place);
            self.ready[var.index()] = true;
        }
    }

    /// Results that the cell returns are computed in the output row. A slice is no result of its
    /// own but lies within another; it and sources are copied there in the end.
    pub(super) fn place_outputs(&mut self) {
        for (field, &var) in self.cell.outputs().iter().enumerate() {
            let offset = self.output.offsets[field];
            let own = !self.op(var).is_source() && !matches!(self.op(var), Op::Slice { .. });
            if own && self.place[var.index()].is_none() {
                self.place[var.index()] = Some(Place { base: Base::Output, offset });
            }
        }
    }

    /// Copies into the output row what is returned but lies elsewhere.
    pub(super) fn return_sources(&mut self) {
        for (field, &var) in self.cell.outputs().iter().enumerate() {
            let out = Place { base: Base::Output, offset: self.output.offsets[field] };
            let from = self.at(var);
            if from != out {
                let width = self.width(var);
                let from = self.apart(from, width, &[Base::Output]);
                self.steps.push(CellStep::Copy { from, width, out });
            }
        }
    }

    /// Gives operands of concatenations their place inside the whole, outer ones first.
    pub(super) fn place_concatenations(&mut self) {
        for var in (0..self.cell.instructions().len() as u32).rev().map(Var) {
            if self.op(var) != Op::Concat || self.in_pieces.contains(&var) {
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
}

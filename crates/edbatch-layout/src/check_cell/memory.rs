//! The symbolic memory of a compiled cell.

use edbatch_graph::{Arity, Kind};

use super::terms::{Expression, Term, Terms};
use super::{Checked, Elements};
use crate::cell_plan::{Base, CellPlan, Place, Weight};
use crate::program::Program;

/// The memory that steps may read besides parameters, scratch and output.
#[derive(Clone, Copy)]
pub(super) enum Readable<'a> {
    /// The call's arguments; for the whole cell.
    Call,
    /// One of the arguments; for the prologue.
    Only(Base),
    /// The call's arguments and its hoisted row; for the body.
    CallAnd(&'a Elements),
}

/// The scratch and the output of one call.
pub(super) struct Memory<'a> {
    program: &'a Program,
    kind: Kind,
    plan: &'a CellPlan,
    readable: Readable<'a>,
    /// The regions of scratch, each up to the last element written.
    regions: Vec<Elements>,
    output: Elements,
    /// The regions of scratch, and the output, that the current step has read.
    read: Vec<Base>,
    /// The elements that the current step has written.
    written: Vec<(Place, usize)>,
}

impl<'a> Memory<'a> {
    /// Creates memory without contents.
    pub(super) fn new(
        program: &'a Program,
        kind: Kind,
        plan: &'a CellPlan,
        readable: Readable<'a>,
    ) -> Self {
        let regions = vec![Vec::new(); plan.regions.len()];
        let (output, read, written) = (Vec::new(), Vec::new(), Vec::new());
        Self { program, kind, plan, readable, regions, output, read, written }
    }

    /// Returns the program whose network declares the parameters.
    pub(super) fn program(&self) -> &'a Program {
        self.program
    }

    /// Returns the output row.
    pub(super) fn into_output(self) -> Elements {
        self.output
    }

    /// Starts the next step.
    pub(super) fn begin_step(&mut self) {
        self.read.clear();
        self.written.clear();
    }

    /// Reads elements written before. The same step may not write the region that it reads.
    pub(super) fn read(
        &mut self,
        place: Place,
        count: usize,
        terms: &mut Terms,
    ) -> Checked<Vec<Term>> {
        if matches!(place.base, Base::Scratch(_) | Base::Output) {
            self.read.push(place.base);
        }
        self.read_own(place, count, terms)
    }

    /// Reads elements that the same step overwrites, for a product that accumulates into its
    /// result.
    pub(super) fn read_own(
        &self,
        place: Place,
        count: usize,
        terms: &mut Terms,
    ) -> Checked<Vec<Term>> {
        let Place { base, offset } = place;
        match base {
            Base::Scratch(region) => {
                let region = self.regions.get(usize::from(region));
                written(region.ok_or("the region does not exist")?, place, count)
            }
            Base::Output => written(&self.output, place, count),
            Base::Hoisted => match self.readable {
                Readable::CallAnd(handed_on) => written(handed_on, place, count),
                _ => Err("reads hoisted rows outside the body".into()),
            },
            Base::Parameter(weight) => {
                let (id, parameters) = (weight.parameter(), self.program.network().parameters());
                let parameter =
                    parameters.get(id.0 as usize).ok_or("the parameter does not exist")?;
                within(place, count, parameter.elements())?;
                let transposed = match weight {
                    Weight::AsIs(_) => None,
                    Weight::Transposed(_) => {
                        let shape = weight.rows_and_columns(&parameter.dims);
                        let (rows, columns) = shape.ok_or("the parameter is not a matrix")?;
                        Some((rows as u32, columns as u32))
                    }
                };
                Ok(each(offset, count, |element| {
                    let element = match transposed {
                        None => element,
                        Some((rows, columns)) => element % columns * rows + element / columns,
                    };
                    terms.of(Expression::Parameter { id, element })
                }))
            }
            Base::Table(table) => {
                self.may_read(base)?;
                let tables = self.program.network()[self.kind].tables();
                let declared = tables.get(usize::from(table)).ok_or("the table does not exist")?;
                declared.parameter.ok_or("reads rows of an index port")?;
                within(place, count, self.program.table_width(declared) as usize)?;
                Ok(each(offset, count, |element| terms.of(Expression::Table { table, element })))
            }
            Base::Port(port) => {
                self.may_read(base)?;
                self.fields(port, Arity::One, offset, count)?;
                Ok(each(offset, count, |element| terms.of(Expression::Port { port, element })))
            }
        }
    }

    /// Checks that a port has this arity, and that the elements belong to fields of its record.
    pub(super) fn fields(&self, port: u16, arity: Arity, first: u32, count: usize) -> Checked {
        let ports = self.program.network()[self.kind].ports();
        let declared = ports.get(usize::from(port)).ok_or("the port does not exist")?;
        if declared.arity != arity {
            return Err(format!("reads port {port} with the wrong arity {arity:?}"));
        }
        let record = self.program.record(declared.record);
        let fields = record.offsets.iter().zip(&record.widths);
        let fields: Vec<_> = fields.map(|(&offset, &width)| offset..offset + width).collect();
        let is_field = |element| fields.iter().any(|field| field.contains(&element));
        let end = first as usize + count;
        if end > record.stride as usize || !(first..end as u32).all(is_field) {
            return Err(format!("reads {count} elements at port{port}+{first}, beyond its fields"));
        }
        Ok(())
    }

    /// Checks that a port takes any number of values.
    pub(super) fn many(&self, port: u16) -> Checked {
        let ports = self.program.network()[self.kind].ports();
        let declared = ports.get(usize::from(port)).ok_or("the port does not exist")?;
        match declared.arity {
            Arity::Many => Ok(()),
            Arity::One => Err(format!("counts the values at port {port}, which takes one")),
        }
    }

    /// Checks that the steps may read an index below `size` at an index port.
    pub(super) fn index(&self, table: u16, size: u32) -> Checked {
        self.may_read(Base::Table(table))?;
        let tables = self.program.network()[self.kind].tables();
        let declared = tables.get(usize::from(table)).ok_or("the index port does not exist")?;
        if declared.parameter.is_some() || declared.rows != size {
            return Err(format!("reads an index below {size} at table port {table}"));
        }
        Ok(())
    }

    /// Checks that the steps may read this argument.
    pub(super) fn may_read(&self, argument: Base) -> Checked {
        match self.readable {
            Readable::Only(from) if from != argument => {
                Err("the prologue reads more than one argument".into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that `count` elements can be written. Called before a step computes them, because an
    /// invalid step may compute too many.
    pub(super) fn may_write(&self, place: Place, count: usize) -> Checked {
        let width = match place.base {
            Base::Scratch(region) => self.plan.regions.get(usize::from(region)),
            Base::Output => Some(&self.plan.output_width),
            _ => return Err(format!("writes {place}, which is read-only")),
        };
        within(place, count, *width.ok_or("the region does not exist")? as usize)
    }

    /// Writes elements. They must not overlap the step's other reads and writes.
    pub(super) fn write(&mut self, place: Place, elements: &[Term]) -> Checked {
        self.may_write(place, elements.len())?;
        if self.read.contains(&place.base) {
            return Err(format!("writes {place}, in memory that it also reads"));
        }
        let start = place.offset as usize;
        let end = start + elements.len();
        let overlaps = |(other, count): &(Place, usize)| {
            let first = other.offset as usize;
            other.base == place.base && first < end && start < first + count
        };
        if self.written.iter().any(overlaps) {
            return Err(format!("writes {place} twice"));
        }
        self.written.push((place, elements.len()));
        let memory = match place.base {
            Base::Scratch(region) => &mut self.regions[usize::from(region)],
            _ => &mut self.output,
        };
        if memory.len() < end {
            memory.resize(end, None);
        }
        for (element, &term) in memory[start..end].iter_mut().zip(elements) {
            *element = Some(term);
        }
        Ok(())
    }
}

/// Returns the terms of consecutive elements.
fn each(first: u32, count: usize, term: impl FnMut(u32) -> Term) -> Vec<Term> {
    (first..first + count as u32).map(term).collect()
}

/// Checks that `count` elements from a place on are among the first `available` ones.
fn within(place: Place, count: usize, available: usize) -> Checked {
    if place.offset as usize + count > available {
        return Err(format!("{count} elements at {place}, out of bounds: {available} available"));
    }
    Ok(())
}

/// Returns elements written before.
fn written(memory: &Elements, place: Place, count: usize) -> Checked<Vec<Term>> {
    let first = place.offset as usize;
    let elements = memory.get(first..first + count);
    let elements = elements.and_then(|elements| elements.iter().copied().collect());
    elements.ok_or_else(|| format!("reads {count} elements at {place} before all are written"))
}

//! An independent proof that the steps of a wave may run in any order, or at once.

use edbatch_layout::{
    LINE, Lookup, MiniBatch, Operand, Plan, PlanError, Program, RecordLayout, TrainingPlan,
};

/// Proves that no step of a plan depends on another step of its wave: each row is written by one
/// step, or given in wave 0, and read only by steps of later waves; a wave lies between the value
/// of a [lookup](Plan::lookups) and the step that reads its row. [`edbatch_layout::check`]
/// proves that the rows contain the right values.
///
/// *Cost*: O(arena + edges × cache lines per row).
///
/// # Errors
/// The first violation of this rule, in the order of the steps of the plan.
pub fn check_waves(
    plan: &Plan,
    waves: &[u32],
    mini_batch: &MiniBatch<'_>,
) -> Result<(), PlanError> {
    Written::new(plan).check(plan, waves, mini_batch.program)
}

/// Proves the same for both ways of a training plan, given the waves of the forward and of the
/// backward steps. The backward pass runs after all forward waves, so that each of its waves may
/// read what the forward steps wrote. [`edbatch_layout::check_training`] proves that the rows
/// contain the right values.
///
/// *Cost*: like [`check_waves`].
///
/// # Errors
/// The first violation. Steps of the backward pass are numbered after all forward steps.
pub fn check_training_waves(
    plan: &TrainingPlan,
    [forward, back]: [&[u32]; 2],
    mini_batch: &MiniBatch<'_>,
) -> Result<(), PlanError> {
    let mut written = Written::new(&plan.forward);
    written.check(&plan.forward, forward, mini_batch.program)?;
    written.lines.iter_mut().flatten().for_each(|readable| *readable = 0);
    written.check(&plan.back, back, mini_batch.program).map_err(|PlanError { step, what }| {
        PlanError { step: plan.forward.steps.len() + step, what }
    })
}

/// For each cache line of the arena: the first wave that may read it, or `None` while unwritten.
struct Written {
    lines: Vec<Option<u32>>,
}

impl Written {
    fn new(plan: &Plan) -> Self {
        Self { lines: vec![None; plan.arena / LINE] }
    }

    /// Adds what the steps of a plan write, and checks what they read.
    fn check(&mut self, plan: &Plan, waves: &[u32], program: &Program) -> Result<(), PlanError> {
        let end = plan.steps.len();
        if waves.len() != end {
            let what = format!("{} waves for {end} steps", waves.len());
            return Err(PlanError { step: end, what });
        }
        for row in &plan.given {
            let stride = program.record(row.record).stride;
            self.write(row.start, stride, 1).map_err(|what| PlanError { step: 0, what })?;
        }
        for (step, (written_by, &wave)) in plan.steps.iter().zip(waves).enumerate() {
            let stride = program.carried_out(written_by).output_stride;
            let write = |row| self.write(written_by.out + row * stride, stride, wave + 1);
            (0..written_by.calls).try_for_each(write).map_err(|what| PlanError { step, what })?;
        }
        for (step, &wave) in waves.iter().enumerate() {
            let read = reads(plan, program, step, |row, width| self.read(row, width, wave));
            let looks_up = |own: &Lookup| {
                let before = wave.checked_sub(1).ok_or("looks up a row in wave 0")?;
                self.read(own.value.start, program.record(own.value.record).stride, before)
            };
            let mut lookups = plan.lookups_of(step).iter();
            let read = read.and_then(|()| lookups.try_for_each(looks_up));
            read.map_err(|what| PlanError { step, what })?;
        }
        Ok(())
    }

    fn write(&mut self, row: u32, stride: u32, readable: u32) -> Result<(), String> {
        for line in row as usize / LINE..(row as usize + stride as usize).div_ceil(LINE) {
            let of_line = self.lines.get_mut(line).ok_or("a row beyond the arena")?;
            if of_line.replace(readable).is_some() {
                return Err(format!("the row at {row} is written twice"));
            }
        }
        Ok(())
    }

    fn read(&self, row: u32, width: u32, wave: u32) -> Result<(), String> {
        for line in row as usize / LINE..(row as usize + width as usize).div_ceil(LINE) {
            match self.lines.get(line) {
                Some(Some(readable)) if *readable <= wave => {}
                Some(Some(readable)) => {
                    let after = readable - 1;
                    return Err(format!("reads in wave {wave} what is written in wave {after}"));
                }
                _ => return Err(format!("reads the row at {row}, which is never written")),
            }
        }
        Ok(())
    }
}

/// Calls `read` with the start and the width of each row of the arena that a step reads. A row may
/// be a field of a wider one: a contribution to a gradient.
fn reads(
    plan: &Plan,
    program: &Program,
    step: usize,
    mut read: impl FnMut(u32, u32) -> Result<(), String>,
) -> Result<(), String> {
    let of_step = plan.steps[step];
    let cell = &program.network()[of_step.cell];
    for (index, operand) in plan.operands_of(step).iter().enumerate() {
        let port = index.checked_sub(cell.tables().len()).and_then(|port| cell.ports().get(port));
        // The operand after the ports is a row of the prologue's results.
        let width = match port {
            Some(port) => {
                let RecordLayout { offsets, widths, .. } = program.record(port.record);
                offsets.last().zip(widths.last()).map_or(0, |(offset, width)| offset + width)
            }
            None => {
                let hoisted = program.cell(of_step.cell).hoisted.as_ref();
                hoisted.map_or(0, |hoisted| hoisted.prologue.output_stride)
            }
        };
        match *operand {
            // No step writes tables.
            Operand::Table { .. } | Operand::Folded { .. } | Operand::Unread => {}
            Operand::Hoisted { start } => {
                let rows = plan.rows(start, of_step.calls);
                rows.iter().try_for_each(|&row| read(row, width))?;
            }
            Operand::Span { first, stride } => {
                (0..of_step.calls).try_for_each(|call| read(first + call * stride, width))?;
            }
            Operand::List { start } => {
                let rows = plan.list(start, of_step.calls);
                rows.iter().try_for_each(|&row| read(row, width))?;
            }
            Operand::Many { ends, rows } => {
                let all = plan.list(ends, of_step.calls).last().copied().unwrap_or(0);
                plan.list(rows, all).iter().try_for_each(|&row| read(row, width))?;
            }
        }
    }
    Ok(())
}

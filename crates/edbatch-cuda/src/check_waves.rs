//! An independent proof that the steps of a wave may run in any order, or at once.

use edbatch_layout::{LINE, MiniBatch, Operand, Plan, PlanError};

/// Proves that no step of a plan depends on another step of its wave: each row is written by one
/// step, or given in wave 0, and read only by steps of later waves. [`edbatch_layout::check`]
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
    let end = plan.steps.len();
    if waves.len() != end {
        let what = format!("{} waves for {end} steps", waves.len());
        return Err(PlanError { step: end, what });
    }
    let mut written = Written { lines: vec![None; plan.arena / LINE] };
    let program = mini_batch.program;
    for row in &plan.given {
        let stride = program.record(row.record).stride;
        written.write(row.start, stride, 1).map_err(|what| PlanError { step: 0, what })?;
    }
    for (step, (written_by, &wave)) in plan.steps.iter().zip(waves).enumerate() {
        let stride = program.carried_out(written_by).output_stride;
        let write = |row| written.write(written_by.out + row * stride, stride, wave + 1);
        (0..written_by.calls).try_for_each(write).map_err(|what| PlanError { step, what })?;
    }
    for (step, &wave) in waves.iter().enumerate() {
        reads(plan, mini_batch, step, |row, stride| written.read(row, stride, wave))
            .map_err(|what| PlanError { step, what })?;
    }
    Ok(())
}

/// For each cache line of the arena: the first wave that may read it, or `None` while unwritten.
struct Written {
    lines: Vec<Option<u32>>,
}

impl Written {
    fn write(&mut self, row: u32, stride: u32, readable: u32) -> Result<(), String> {
        for line in row as usize / LINE..(row as usize + stride as usize).div_ceil(LINE) {
            let of_line = self.lines.get_mut(line).ok_or("a row beyond the arena")?;
            if of_line.replace(readable).is_some() {
                return Err(format!("the row at {row} is written twice"));
            }
        }
        Ok(())
    }

    fn read(&self, row: u32, stride: u32, wave: u32) -> Result<(), String> {
        for line in row as usize / LINE..(row as usize + stride as usize).div_ceil(LINE) {
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

/// Calls `read` with the start and the stride of each row of the arena that a step reads.
fn reads(
    plan: &Plan,
    mini_batch: &MiniBatch<'_>,
    step: usize,
    mut read: impl FnMut(u32, u32) -> Result<(), String>,
) -> Result<(), String> {
    let program = mini_batch.program;
    let of_step = plan.steps[step];
    let cell = &program.network()[of_step.cell];
    for (index, operand) in plan.operands_of(step).iter().enumerate() {
        let port = index.checked_sub(cell.tables().len()).and_then(|port| cell.ports().get(port));
        // The operand after the ports is a row of the prologue's results.
        let stride = match port {
            Some(port) => program.record(port.record).stride,
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
                rows.iter().try_for_each(|&row| read(row, stride))?;
            }
            Operand::Span { first, stride: distance } => {
                (0..of_step.calls).try_for_each(|call| read(first + call * distance, stride))?;
            }
            Operand::List { start } => {
                let rows = plan.list(start, of_step.calls);
                rows.iter().try_for_each(|&row| read(row, stride))?;
            }
            Operand::Many { ends, rows } => {
                let all = plan.list(ends, of_step.calls).last().copied().unwrap_or(0);
                plan.list(rows, all).iter().try_for_each(|&row| read(row, stride))?;
            }
        }
    }
    Ok(())
}

//! Hoists steps that depend on only one argument out of a cell.
//!
//! Results that depend on a row of a table are the same for every call that names the row, so a
//! mini-batch computes them once per distinct row. Results that depend on a value can be computed
//! for many calls at once as soon as all these values exist, even if the calls themselves must run
//! one by one: for example, the input projections of an LSTM layer for all words of a sentence.
//!
//! The cell is divided in two: the **prologue**, and the **body**, which reads the prologue's
//! results from a row of the arena. [`classify`] divides the steps, [`Row::extract`] lays out the
//! row, and [`rewrite`] makes the prologue write it and the body read it. Sums keep their order, so
//! results are bit-identical.
//!
//! *Source*: ours. *Cost*: O(elements of scratch × steps) for each argument.

mod classify;
mod row;

use crate::cell_plan::{Base, CellPlan, CellStep, Hoisted, Mode, Place};
use crate::record_layout::next_line;
use classify::{Parts, classify};
use row::Row;

/// Divides a cell in two, so that the prologue depends on one argument: the first for which a
/// product depends on no other argument.
pub(super) fn hoist(plan: &CellPlan) -> Option<Hoisted> {
    let read = plan.steps.iter().flat_map(CellStep::reads).map(|(place, _)| place.base);
    let mut arguments: Vec<Base> =
        read.filter(|base| matches!(base, Base::Table(_) | Base::Port(_))).collect();
    arguments.sort_unstable();
    arguments.dedup();
    arguments.into_iter().find_map(|from| divide(plan, from))
}

/// Divides a cell by an argument, if a product depends on that argument alone.
fn divide(plan: &CellPlan, from: Base) -> Option<Hoisted> {
    let parts = classify(plan, from)?;
    let multiplies = |step: &CellStep| matches!(step, CellStep::Product { .. });
    if !parts.prologue.iter().any(multiplies) || parts.handed_on.is_empty() {
        return None;
    }
    let row = Row::extract(&parts);
    rewrite(plan, from, parts, &row)
}

/// Makes the prologue write the row of results, and the body read it. Returns `None` if a step
/// would read memory that it writes.
fn rewrite(plan: &CellPlan, from: Base, parts: Parts, row: &Row) -> Option<Hoisted> {
    let Parts { mut prologue, mut body, .. } = parts;
    for step in &mut prologue {
        let into_row = |place: &mut Place| {
            if let Some(offset) = row.find(*place) {
                *place = Place { base: Base::Output, offset };
            }
        };
        step.inputs_mut().into_iter().for_each(into_row);
        step.outputs_mut().into_iter().for_each(into_row);
        step.sort_outputs();
        if step.reads_what_it_writes() {
            return None;
        }
    }
    for (step, found) in &mut body {
        if let CellStep::Product { out, mode: mode @ Mode::Add, .. } = step
            && found.contains(out)
        {
            *mode = Mode::From(*out);
        }
        for place in step.inputs_mut().into_iter().filter(|place| found.contains(place)) {
            let offset = row.find(*place).expect("the row holds every place that the body reads");
            *place = Place { base: Base::Hoisted, offset };
        }
    }
    let part = |steps: Vec<CellStep>, output_stride: u32, output_width: u32| CellPlan {
        name: plan.name.clone(),
        hoisted: None,
        regions: regions_of(&steps, &plan.regions),
        output_stride,
        output_width,
        steps,
    };
    let body = body.into_iter().map(|(step, _)| step).collect();
    let prologue = part(prologue, next_line(row.width as usize) as u32, row.width);
    let body = part(body, plan.output_stride, plan.output_width);
    Some(Hoisted { from, prologue, body })
}

/// Returns the widths of the regions that the steps use; unused regions have width 0.
pub(super) fn regions_of(steps: &[CellStep], widths: &[u32]) -> Vec<u32> {
    let mut regions = vec![0; widths.len()];
    for (place, _) in steps.iter().flat_map(|step| step.reads().into_iter().chain(step.writes())) {
        if let Base::Scratch(region) = place.base {
            regions[usize::from(region)] = widths[usize::from(region)];
        }
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::super::CellStyle;
    use super::super::notation::CellText;

    /// Compares the steps of a cell's prologue and body with `expected`, which is empty for a cell
    /// without prologue.
    fn check(cell: &str, expected: &[&str]) {
        let text = CellText::parse(cell).compiled(CellStyle::Hoisted);
        let parts = text.split_once("prologue, ").map_or("", |(_, parts)| parts);
        let lines = parts.lines().map(|line| match line.split_once(": scratch") {
            Some(_) if line.starts_with("body") => "body",
            Some(_) => "",
            None => line.trim(),
        });
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, expected, "{cell}");
    }

    #[test]
    fn an_input_projection_is_hoisted_and_starts_the_sum() {
        check(
            "x h -> i = w1 x + u1 h + b1, c = tanh i | c",
            &[
                "out+0 = (w0) port0+0 [4, 4]",
                "body",
                "s0+0 = hoisted+0 + (w1) port1+0 [4, 4]",
                "element-wise [4]: r0 = s0+0; r1 = w2+0; r2 = tanh(r0 + r1); out+0 = r2",
            ],
        );
    }

    #[test]
    fn operations_on_a_row_alone_are_hoisted_with_its_product() {
        check(
            "table h -> e = tanh (w1 t), i = w2 e + u1 h, c = tanh i | c",
            &[
                "s0+0 = (w0) table0+0 [4, 4]",
                "element-wise [4]: r0 = s0+0; r1 = tanh r0; s1+0 = r1",
                "out+0 = (w2) s1+0 [4, 4]",
                "body",
                "s2+0 = hoisted+0 + (w3) port0+0 [4, 4]",
                "element-wise [4]: r0 = s2+0; r1 = tanh r0; out+0 = r1",
            ],
        );
    }

    #[test]
    fn the_query_of_attention_is_hoisted_and_attention_is_not() {
        check(
            "table many:k:v -> y = attend (w1 t) many, z = tanh y | z",
            &[
                "s0+0 = (w0) table0+0 [4, 4]",
                "element-wise [4]: r0 = s0+0; r1 = 0.5 r0; out+0 = r1",
                "body",
                "s2+0 = sum of port0+4 by softmax of hoisted+0 · port0+0 [4] [2 heads, 4]",
                "element-wise [4]: r0 = s2+0; r1 = tanh r0; out+0 = r1",
            ],
        );
    }

    #[test]
    fn a_cell_without_a_product_of_one_argument_is_not_divided() {
        check("x h -> c = tanh x * h, d = w1 c | d", &[]);
    }
}

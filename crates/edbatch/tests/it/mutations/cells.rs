//! Mutants of compiled cells.

mod rows;

use edbatch_graph::{ParameterId, Reduction};
use edbatch_layout::{
    AttentionFields, Base, CellPlan, CellStep, Mode, Place, Program, Scores, Weight,
};
use rand::RngExt;

use super::elementwise;
use super::networks::Random;
use super::tally::Sort;

/// Returns all mutants of a compiled cell and of its parts, each with a single change.
pub(crate) fn mutants(
    plan: &CellPlan,
    program: &Program,
    rng: &mut Random,
) -> Vec<(Sort, CellPlan)> {
    let mut made = Vec::new();
    for part in [CellPart::Whole, CellPart::Prologue, CellPart::Body] {
        let Some(of_part) = part.of(&mut plan.clone()).cloned() else { continue };
        let mut put = |sort, mutant: CellPlan| {
            if mutant != of_part {
                let mut whole = plan.clone();
                *part.of(&mut whole).expect("it was there") = mutant;
                made.push((sort, whole));
            }
        };
        frames(&of_part, &mut put);
        let parameters = program.network().parameters().len();
        let places = Places { bases: bases(&of_part, parameters, rng) };
        for (index, step) in of_part.steps.iter().enumerate() {
            for (sort, step) in steps(step, &places, rng) {
                let mut mutant = of_part.clone();
                mutant.steps[index] = step;
                put(sort, mutant);
            }
        }
    }
    made.extend(divisions(plan));
    made
}

/// The plans of a cell: for the whole cell, and for the parts of a divided cell.
#[derive(Clone, Copy)]
pub(crate) enum CellPart {
    Whole,
    Prologue,
    Body,
}

impl CellPart {
    pub(crate) fn of(self, plan: &mut CellPlan) -> Option<&mut CellPlan> {
        match self {
            Self::Whole => Some(plan),
            Self::Prologue => plan.hoisted.as_mut().map(|hoisted| &mut hoisted.prologue),
            Self::Body => plan.hoisted.as_mut().map(|hoisted| &mut hoisted.body),
        }
    }
}

/// Other values of a count or an index.
fn others(number: u32) -> [(&'static str, u32); 4] {
    [
        ("plus one", number.wrapping_add(1)),
        ("minus one", number.wrapping_sub(1)),
        ("zero", 0),
        ("huge", u32::MAX),
    ]
}

/// Copies of a list with one change: an item removed, duplicated or swapped with the next one, or
/// the list truncated.
fn lists<T: Clone>(list: &[T]) -> Vec<(&'static str, Vec<T>)> {
    let mut made = Vec::new();
    for index in 0..list.len() {
        let mut change = |how, change: &dyn Fn(&mut Vec<T>)| {
            let mut list = list.to_vec();
            change(&mut list);
            made.push((how, list));
        };
        change("removed", &|list| {
            list.remove(index);
        });
        change("duplicated", &|list| list.insert(index, list[index].clone()));
        change("truncated", &|list| list.truncate(index));
        if index + 1 < list.len() {
            change("swapped", &|list| list.swap(index, index + 1));
        }
    }
    made
}

/// Makes mutants of the fields of a plan, including its list of steps.
fn frames(plan: &CellPlan, put: &mut impl FnMut(Sort, CellPlan)) {
    put(("name", "another"), CellPlan { name: "another".into(), ..plan.clone() });
    for (how, output_width) in others(plan.output_width) {
        put(("output_width", how), CellPlan { output_width, ..plan.clone() });
    }
    for (how, output_stride) in others(plan.output_stride) {
        put(("output_stride", how), CellPlan { output_stride, ..plan.clone() });
    }
    for (how, regions) in lists(&plan.regions) {
        put(("regions", how), CellPlan { regions, ..plan.clone() });
    }
    for (index, &width) in plan.regions.iter().enumerate() {
        for (how, width) in others(width) {
            let mut mutant = plan.clone();
            mutant.regions[index] = width;
            put(("regions", how), mutant);
        }
    }
    for (how, steps) in lists(&plan.steps) {
        put(("steps", how), CellPlan { steps, ..plan.clone() });
    }
}

/// Changes of the division into prologue and body.
fn divisions(plan: &CellPlan) -> Vec<(Sort, CellPlan)> {
    let Some(hoisted) = &plan.hoisted else { return vec![] };
    let mut made = Vec::new();
    let mut change = |sort, change: &dyn Fn(&mut CellPlan)| {
        let mut mutant = plan.clone();
        change(&mut mutant);
        made.push((sort, mutant));
    };
    change(("hoisted", "removed"), &|plan| plan.hoisted = None);
    let other_bases = [Base::Table(0), Base::Table(9), Base::Port(0), Base::Port(1), Base::Output];
    for from in other_bases.into_iter().filter(|&base| base != hoisted.from) {
        change(("hoisted.from", "another"), &|plan| {
            plan.hoisted.as_mut().expect("it is divided").from = from;
        });
    }
    change(("hoisted", "parts swapped"), &|plan| {
        let hoisted = plan.hoisted.as_mut().expect("it is divided");
        std::mem::swap(&mut hoisted.prologue, &mut hoisted.body);
    });
    for part in [CellPart::Prologue, CellPart::Body] {
        change(("hoisted", "divided again"), &|mutant| {
            let again = plan.hoisted.clone();
            part.of(mutant).expect("it is divided").hoisted = again;
        });
    }
    made
}

/// Wrong places for a step to read or write.
struct Places {
    bases: Vec<Base>,
}

/// Returns bases of memory that a plan uses, and of each sort of memory that it does not use.
fn bases(plan: &CellPlan, parameters: usize, rng: &mut Random) -> Vec<Base> {
    let regions = plan.regions.len() as u16;
    let mut bases = vec![Base::Output, Base::Hoisted, Base::Scratch(regions)];
    bases.extend((0..regions.min(4)).map(Base::Scratch));
    bases.extend([0, 1, 9].map(Base::Port));
    bases.extend([0, 9].map(Base::Table));
    let ids = [rng.random_range(0..parameters), parameters];
    let ids = ids.map(|id| ParameterId(id as u32));
    let weights = ids.into_iter().flat_map(|id| [Weight::AsIs(id), Weight::Transposed(id)]);
    bases.extend(weights.map(Base::Parameter));
    bases
}

impl Places {
    fn others(&self, place: Place) -> Vec<(&'static str, Place)> {
        let offsets = others(place.offset).map(|(how, offset)| (how, Place { offset, ..place }));
        let bases = self.bases.iter().filter(|&&base| base != place.base);
        let bases = bases.map(|&base| ("elsewhere", Place { base, ..place }));
        offsets.into_iter().chain(bases).collect()
    }

    /// Returns changed lists of places, and lists with one changed place.
    fn lists(&self, places: &[Place]) -> Vec<(&'static str, Vec<Place>)> {
        let mut made = lists(places);
        for (index, &place) in places.iter().enumerate() {
            for (how, other) in self.others(place) {
                let mut places = places.to_vec();
                places[index] = other;
                made.push((how, places));
            }
        }
        made
    }
}

/// Mutants of one field of a step.
macro_rules! field {
    ($made:expr, $step:expr, $form:ident.$field:ident, $ways:expr) => {
        for (how, other) in $ways {
            let mut step = $step.clone();
            if let CellStep::$form { $field, .. } = &mut step {
                *$field = other;
            }
            $made.push(((concat!(stringify!($form), ".", stringify!($field)), how), step));
        }
    };
}

/// All mutants of a step.
fn steps(step: &CellStep, places: &Places, rng: &mut Random) -> Vec<(Sort, CellStep)> {
    let mut made = Vec::new();
    match step {
        CellStep::Reduce { port, from, width, by, out } => {
            field!(made, step, Reduce.port, ports(*port));
            field!(made, step, Reduce.from, others(*from));
            field!(made, step, Reduce.width, others(*width));
            let all = [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::LogSumExp];
            let by = all.into_iter().filter(|other| other != by).map(|other| ("another", other));
            field!(made, step, Reduce.by, by);
            field!(made, step, Reduce.out, places.others(*out));
        }
        CellStep::Product { weights, rows, width, x, out, mode } => {
            field!(made, step, Product.weights, stacks(weights, rng));
            field!(made, step, Product.rows, others(*rows));
            field!(made, step, Product.width, others(*width));
            field!(made, step, Product.x, places.others(*x));
            field!(made, step, Product.out, places.others(*out));
            field!(made, step, Product.mode, modes(*mode, *out, places));
        }
        CellStep::MatMul { left, right, bias, m, k, n, out } => {
            field!(made, step, MatMul.left, places.others(*left));
            field!(made, step, MatMul.right, pieces(right, places));
            field!(made, step, MatMul.bias, biases(*bias, *left, places));
            field!(made, step, MatMul.m, others(*m));
            field!(made, step, MatMul.k, others(*k));
            field!(made, step, MatMul.n, others(*n));
            field!(made, step, MatMul.out, places.others(*out));
        }
        CellStep::Elementwise { width, inputs, outputs, program } => {
            field!(made, step, Elementwise.width, others(*width));
            field!(made, step, Elementwise.inputs, places.lists(inputs));
            field!(made, step, Elementwise.outputs, places.lists(outputs));
            field!(made, step, Elementwise.program, elementwise::mutants(program, rng));
        }
        CellStep::AttentionBack { of, query, gradient, out } => {
            let mut all = Vec::new();
            all.extend(ports(of.port).map(|(how, port)| (how, AttentionFields { port, ..*of })));
            for (how, offset) in others(of.keys.0) {
                all.push((how, AttentionFields { keys: (offset, of.keys.1), ..*of }));
            }
            for (how, width) in others(of.values.1) {
                all.push((how, AttentionFields { values: (of.values.0, width), ..*of }));
            }
            for (how, heads) in others(of.heads) {
                all.push((how, AttentionFields { heads, ..*of }));
            }
            field!(made, step, AttentionBack.of, all);
            field!(made, step, AttentionBack.query, places.others(*query));
            field!(made, step, AttentionBack.gradient, places.others(*gradient));
            field!(made, step, AttentionBack.out, places.others(*out));
        }
        CellStep::Attention { port, scores, values, heads, width, out } => {
            field!(made, step, Attention.port, ports(*port));
            field!(made, step, Attention.scores, other_scores(*scores, places));
            field!(made, step, Attention.values, others(*values));
            field!(made, step, Attention.heads, others(*heads));
            field!(made, step, Attention.width, others(*width));
            field!(made, step, Attention.out, places.others(*out));
        }
        CellStep::Rows(step) => {
            let rows = rows::mutants(step, places).into_iter();
            made.extend(rows.map(|(sort, step)| (sort, CellStep::Rows(step))));
        }
    }
    made
}

/// Other ports, or index ports.
fn ports(port: u16) -> [(&'static str, u16); 2] {
    [port.wrapping_add(1), port.wrapping_sub(1)].map(|port| ("another", port))
}

/// Other scores for attention.
fn other_scores(scores: Scores, places: &Places) -> Vec<(&'static str, Scores)> {
    let Scores::Keys { query, keys, width } = scores else {
        let Scores::Field(field) = scores else { unreachable!("the other kind") };
        return others(field).into_iter().map(|(how, field)| (how, Scores::Field(field))).collect();
    };
    let queries = places.others(query).into_iter();
    let mut made: Vec<(&'static str, Scores)> =
        queries.map(|(how, query)| (how, Scores::Keys { query, keys, width })).collect();
    let keys =
        others(keys).into_iter().map(|(how, keys)| (how, Scores::Keys { query, keys, width }));
    made.extend(keys);
    let Scores::Keys { keys, .. } = scores else { unreachable!("as above") };
    let widths = others(width).into_iter();
    made.extend(widths.map(|(how, width)| (how, Scores::Keys { query, keys, width })));
    made.push(("a field", Scores::Field(keys)));
    made
}

/// Other stacks of weights.
fn stacks(weights: &[Weight], rng: &mut Random) -> Vec<(&'static str, Vec<Weight>)> {
    let mut made = lists(weights);
    let index = rng.random_range(0..weights.len());
    let id = weights[index].parameter();
    let others = [id.0.wrapping_add(1), id.0.wrapping_sub(1), u32::MAX];
    let others = others.map(|other| ("another", Weight::AsIs(ParameterId(other))));
    for (how, other) in others.into_iter().chain([("transposed", Weight::Transposed(id))]) {
        let mut weights = weights.to_vec();
        weights[index] = other;
        made.push((how, weights));
    }
    made
}

/// Other modes of a product.
fn modes(mode: Mode, out: Place, places: &Places) -> Vec<(&'static str, Mode)> {
    let mut made: Vec<(&str, Mode)> = [Mode::Set, Mode::Add, Mode::From(out)]
        .into_iter()
        .filter(|&other| other != mode)
        .map(|other| ("another", other))
        .collect();
    if let Mode::From(start) = mode {
        let others = places.others(start).into_iter();
        made.extend(others.map(|(how, start)| (how, Mode::From(start))));
    }
    made
}

/// Changes of the pieces that form the right factor of a product.
fn pieces(right: &[(Place, u32)], places: &Places) -> Vec<(&'static str, Vec<(Place, u32)>)> {
    let mut made = lists(right);
    for (index, &(place, rows)) in right.iter().enumerate() {
        let elsewhere = places.others(place).into_iter().map(|(how, other)| (how, (other, rows)));
        let sizes = others(rows).map(|(how, rows)| (how, (place, rows)));
        for (how, other) in elsewhere.chain(sizes) {
            let mut right = right.to_vec();
            right[index] = other;
            made.push((how, right));
        }
    }
    made
}

/// A different bias, no bias, or an added one.
fn biases(bias: Option<Place>, left: Place, places: &Places) -> Vec<(&'static str, Option<Place>)> {
    match bias {
        None => vec![("added", Some(left))],
        Some(bias) => {
            let others = places.others(bias).into_iter().map(|(how, place)| (how, Some(place)));
            others.chain([("removed", None)]).collect()
        }
    }
}

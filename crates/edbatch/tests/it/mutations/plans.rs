//! Mutants of plans.

use edbatch_graph::{Kind, RecordId};
use edbatch_layout::{Action, LINE, Operand, Plan, Want};
use rand::RngExt;
use rand::seq::IndexedRandom;

use super::networks::Random;
use super::tally::Sort;

/// The maximum number of changed entries of each list. They are chosen at random.
const MAX_PLACES: usize = 24;

/// Returns mutants of a plan, each with a single change.
pub(crate) fn mutants(plan: &Plan, rng: &mut Random) -> Vec<(Sort, Plan)> {
    let mut made = Mutants { plan, rng, made: Vec::new() };
    made.steps();
    made.operands();
    made.numbers("lists", |plan| &mut plan.lists, |number| number);
    made.numbers("rows", |plan| &mut plan.rows, |number| number);
    made.numbers("given", |plan| &mut plan.given, |row| &mut row.start);
    made.numbers("wanted", |plan| &mut plan.wanted, |(row, _)| &mut row.start);
    made.values();
    made.arena();
    made.made
}

struct Mutants<'a> {
    plan: &'a Plan,
    rng: &'a mut Random,
    made: Vec<(Sort, Plan)>,
}

/// Other values of a count or an index.
fn others(number: u32) -> [(&'static str, u32); 6] {
    [
        ("plus one", number.wrapping_add(1)),
        ("minus one", number.wrapping_sub(1)),
        ("plus a line", number.wrapping_add(LINE as u32)),
        ("minus a line", number.wrapping_sub(LINE as u32)),
        ("zero", 0),
        ("huge", u32::MAX),
    ]
}

impl Mutants<'_> {
    fn push(&mut self, sort: Sort, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan.clone();
        change(&mut plan);
        if plan != *self.plan {
            self.made.push((sort, plan));
        }
    }

    /// Returns random indices below `len`, at most `MAX_PLACES`.
    fn places(&mut self, len: usize) -> Vec<usize> {
        let all: Vec<usize> = (0..len).collect();
        all.sample(self.rng, MAX_PLACES).copied().collect()
    }

    fn number(&mut self, what: &'static str, number: u32, field: impl Fn(&mut Plan) -> &mut u32) {
        for (how, other) in others(number) {
            self.push((what, how), |plan| *field(plan) = other);
        }
    }

    fn steps(&mut self) {
        for index in self.places(self.plan.steps.len()) {
            let step = self.plan.steps[index];
            let kinds = self.plan.steps.iter().map(|step| step.cell);
            let mut kinds: Vec<Kind> = kinds.chain([Kind(u16::MAX)]).collect();
            kinds.sort_unstable();
            kinds.dedup();
            for kind in kinds {
                self.push(("step.cell", "another"), |plan| plan.steps[index].cell = kind);
            }
            for action in [Action::Call, Action::Body, Action::Hoist] {
                self.push(("step.action", "another"), |p| p.steps[index].action = action);
            }
            self.number("step.calls", step.calls, |plan| &mut plan.steps[index].calls);
            self.number("step.out", step.out, |plan| &mut plan.steps[index].out);
            self.number("step.operands", step.operands, |plan| &mut plan.steps[index].operands);
            let out = self.plan.steps[self.rng.random_range(0..self.plan.steps.len())].out;
            self.push(("step.out", "from elsewhere"), |plan| plan.steps[index].out = out);
            self.list("steps", index, |plan| &mut plan.steps);
            self.drop_with_operands(index);
        }
    }

    /// Removes, duplicates and swaps a step, together with its operands.
    fn drop_with_operands(&mut self, index: usize) {
        let operands = self.plan.operands_of(index).to_vec();
        let start = self.plan.steps[index].operands as usize;
        self.push(("steps", "removed whole"), |plan| {
            plan.steps.remove(index);
            plan.operands.drain(start..start + operands.len());
            for step in &mut plan.steps[index..] {
                step.operands -= operands.len() as u32;
            }
        });
        self.push(("steps", "duplicated whole"), |plan| {
            plan.steps.insert(index, plan.steps[index]);
            plan.operands.splice(start..start, operands.iter().copied());
            for step in &mut plan.steps[index + 1..] {
                step.operands += operands.len() as u32;
            }
        });
        self.push(("steps", "swapped whole"), |plan| {
            let Some(next) = plan.steps.get(index + 1).copied() else { return };
            let count = plan.operands_of(index + 1).len();
            plan.operands[start..start + operands.len() + count].rotate_left(operands.len());
            plan.steps[index + 1] = plan.steps[index];
            plan.steps[index + 1].operands = (start + count) as u32;
            plan.steps[index] = next;
            plan.steps[index].operands = start as u32;
        });
    }

    fn operands(&mut self) {
        for index in self.places(self.plan.operands.len()) {
            let operand = self.plan.operands[index];
            let start = self.rng.random_range(0..4);
            let forms = [
                Operand::Unread,
                Operand::Table { start },
                Operand::Hoisted { start },
                Operand::Folded { start },
                Operand::Span { first: start * LINE as u32, stride: LINE as u32 },
                Operand::List { start },
                Operand::Many { ends: start, rows: start },
            ];
            for form in forms {
                if std::mem::discriminant(&form) != std::mem::discriminant(&operand) {
                    self.push(("operand", "another form"), |plan| plan.operands[index] = form);
                }
            }
            self.fields(index, operand);
            self.list("operands", index, |plan| &mut plan.operands);
        }
    }

    /// Changes each field of an operand.
    fn fields(&mut self, index: usize, operand: Operand) {
        let mut set = |what, how, other| {
            self.push((what, how), |plan| plan.operands[index] = other);
        };
        match operand {
            Operand::Unread => {}
            Operand::Table { start } => others(start)
                .into_iter()
                .for_each(|(how, start)| set("table.start", how, Operand::Table { start })),
            Operand::Hoisted { start } => others(start)
                .into_iter()
                .for_each(|(how, start)| set("hoisted.start", how, Operand::Hoisted { start })),
            Operand::Folded { start } => others(start)
                .into_iter()
                .for_each(|(how, start)| set("folded.start", how, Operand::Folded { start })),
            Operand::List { start } => others(start)
                .into_iter()
                .for_each(|(how, start)| set("list.start", how, Operand::List { start })),
            Operand::Span { first, stride } => {
                for (how, other) in others(first) {
                    set("span.first", how, Operand::Span { first: other, stride });
                }
                for (how, other) in others(stride) {
                    set("span.stride", how, Operand::Span { first, stride: other });
                }
            }
            Operand::Many { ends, rows } => {
                for (how, other) in others(ends) {
                    set("many.ends", how, Operand::Many { ends: other, rows });
                }
                for (how, other) in others(rows) {
                    set("many.rows", how, Operand::Many { ends, rows: other });
                }
            }
        }
    }

    /// Changes single numbers of a list, and the list itself.
    fn numbers<T: Copy + 'static>(
        &mut self,
        what: &'static str,
        list: fn(&mut Plan) -> &mut Vec<T>,
        number: fn(&mut T) -> &mut u32,
    ) {
        let mut items = list(&mut self.plan.clone()).clone();
        for index in self.places(items.len()) {
            let own = *number(&mut items[index]);
            self.number(what, own, |plan| number(&mut list(plan)[index]));
            let mut other = *items.choose(self.rng).expect("not empty");
            let other = *number(&mut other);
            self.push((what, "from elsewhere"), |plan| *number(&mut list(plan)[index]) = other);
            self.list(what, index, list);
        }
    }

    /// Changes the records of given and wanted values, and the uses of wanted ones.
    fn values(&mut self) {
        for index in self.places(self.plan.given.len()) {
            let record = RecordId(self.plan.given[index].record.0 ^ 1);
            self.push(("given.record", "another"), |p| p.given[index].record = record);
        }
        for index in self.places(self.plan.wanted.len()) {
            let record = RecordId(self.plan.wanted[index].0.record.0 ^ 1);
            self.push(("wanted.record", "another"), |p| p.wanted[index].0.record = record);
            for want in [Want::Elements, Want::ArgMax, Want::Store(0)] {
                self.push(("wanted.want", "another"), |p| p.wanted[index].1 = want);
            }
        }
    }

    fn list<T: Copy>(
        &mut self,
        what: &'static str,
        index: usize,
        list: fn(&mut Plan) -> &mut Vec<T>,
    ) {
        self.push((what, "removed"), |plan| {
            list(plan).remove(index);
        });
        self.push((what, "duplicated"), |plan| {
            let item = list(plan)[index];
            list(plan).insert(index, item);
        });
        self.push((what, "swapped"), |plan| {
            if index + 1 < list(plan).len() {
                list(plan).swap(index, index + 1);
            }
        });
        self.push((what, "truncated"), |plan| list(plan).truncate(index));
    }

    fn arena(&mut self) {
        let arena = self.plan.arena;
        let sizes = [
            ("plus one", arena + 1),
            ("minus one", arena.saturating_sub(1)),
            ("plus a line", arena + LINE),
            ("minus a line", arena.saturating_sub(LINE)),
            ("zero", 0),
            ("huge", usize::MAX),
        ];
        for (how, size) in sizes {
            self.push(("arena", how), |plan| plan.arena = size);
        }
    }
}

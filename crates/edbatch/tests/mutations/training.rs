//! Mutants of training plans: each is rejected by the checker, or gives the same bits.

use std::sync::Arc;

use edbatch_graph::Value;
use edbatch_layout::{MiniBatch, Plan, Planner, Program, TrainingPlan, Want, check_training};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{BackPart, Backend, Cpu, Given, OutputGradients, Part, initial_rows};
use rand::{RngExt, SeedableRng};

use crate::networks::Random;
use crate::plans;
use crate::subjects::Subject;
use crate::tally::Sort;

/// A training step that can be planned and run.
struct Step<'a> {
    subject: &'a Subject,
    program: Arc<Program>,
    wanted: Vec<(Value, Want)>,
    has_gradient: Vec<bool>,
    backend: Cpu,
}

impl<'a> Step<'a> {
    fn new(subject: &'a Subject, program: Arc<Program>, rng: &mut Random) -> Self {
        let wanted = subject.all();
        let mut has_gradient: Vec<bool> = wanted.iter().map(|_| rng.random_bool(0.3)).collect();
        *has_gradient.last_mut().unwrap() = true;
        let backend = Cpu::new(program.clone(), &subject.parameters, Level::detect()).unwrap();
        Self { subject, program, wanted, has_gradient, backend }
    }

    fn mini_batch(&self) -> MiniBatch<'_> {
        let Subject { graph, schedule, .. } = self.subject;
        MiniBatch { program: &self.program, graph, schedule, wanted: &self.wanted }
    }

    /// Returns the bits of all gradients.
    fn run(&mut self, plan: &TrainingPlan) -> Vec<u32> {
        let network = self.program.network();
        let initial = initial_rows(network, &self.subject.parameters);
        let own = network.initial_values().len();
        let widths = |plan: &Plan| -> usize {
            let rows = plan.given.iter().map(|row| &self.program.record(row.record).widths);
            rows.flatten().sum::<u32>() as usize
        };
        let mut host = plan.forward.clone();
        host.given.drain(..own);
        let numbers = |count: usize| (0..count).map(|i| (i as f32 * 0.7).sin()).collect();
        let (host, outputs): (Vec<f32>, Vec<f32>) =
            (numbers(widths(&host)), numbers(widths(&plan.back)));
        let given = Given { initial: &initial, stayed: 0, host: &host };
        self.backend.run(&[Part { slot: 0, plan: &plan.forward, given }]).unwrap();
        let training = self.backend.training().unwrap();
        training.forget();
        let part = BackPart { slot: 0, plan, outputs: OutputGradients::Rows(&outputs) };
        training.run_back(&[part], &mut Vec::new()).unwrap();
        training.add_sums(&[(0, plan)]).unwrap();
        let given = training.given_gradients(0, plan);
        let parameters = training.finish().unwrap().to_dense(network);
        let all = given.iter().map(<[f32]>::to_vec).chain(parameters);
        all.flatten().map(f32::to_bits).collect()
    }
}

/// Returns mutants of a training plan, each with a single change.
fn mutants(plan: &TrainingPlan, rng: &mut Random) -> Vec<(Sort, TrainingPlan)> {
    let mut made = Vec::new();
    if !plan.back.steps.is_empty() {
        let of_back = plans::mutants(&plan.back, rng);
        made.extend(
            of_back.into_iter().map(|(sort, back)| (sort, TrainingPlan { back, ..plan.clone() })),
        );
    }
    let mut change = |sort, change: &mut dyn FnMut(&mut TrainingPlan)| {
        let mut mutant = plan.clone();
        change(&mut mutant);
        if mutant != *plan {
            made.push((sort, mutant));
        }
    };
    for index in 0..plan.lists.len().min(24) {
        change(("sums", "a line later"), &mut |plan| plan.lists[index] += 16);
        change(("sums", "one later"), &mut |plan| plan.lists[index] += 1);
        change(("sums", "left out"), &mut |plan| drop(plan.lists.remove(index)));
        change(("sums", "twice"), &mut |plan| plan.lists.insert(index, plan.lists[index]));
        let other = (index + 1) % plan.lists.len();
        change(("sums", "swapped"), &mut |plan| plan.lists.swap(index, other));
    }
    for index in 0..plan.named.len().min(24) {
        change(("named", "another row"), &mut |plan| plan.named[index] ^= 1);
        change(("named", "left out"), &mut |plan| drop(plan.named.remove(index)));
    }
    for index in 0..plan.calls.len() {
        change(("calls", "left out"), &mut |plan| drop(plan.calls.remove(index)));
        change(("calls", "one call less"), &mut |plan| plan.calls[index].rows.end -= 1);
        change(("calls", "one call more"), &mut |plan| plan.calls[index].rows.end += 1);
        change(("calls", "other names"), &mut |plan| plan.calls[index].named += 1);
        change(("calls", "twice"), &mut |plan| plan.calls.insert(index, plan.calls[index].clone()));
    }
    for index in 0..plan.given.len() {
        change(("given", "left out"), &mut |plan| drop(plan.given.remove(index)));
        change(("given", "one term less"), &mut |plan| plan.given[index].rows.start += 1);
        change(("given", "another field"), &mut |plan| plan.given[index].field += 1);
    }
    for index in 0..plan.gradient_of.len().min(24) {
        change(("gradient_of", "none"), &mut |plan| plan.gradient_of[index] = None);
        change(("gradient_of", "another"), &mut |plan| plan.gradient_of[index] = Some(1));
    }
    made
}

#[test]
fn mutants_of_training_plans_are_rejected_or_compute_the_same_bits() {
    let mut rng = Random::seed_from_u64(5);
    let (mut steps, mut rejected, mut harmless) = (0, 0, 0);
    for subject in (0..48).map(Subject::random).chain(Subject::zoo(2)) {
        let Some(program) = super::for_training(subject.graph.network()) else { continue };
        let mut step = Step::new(&subject, program, &mut rng);
        let mut plan = TrainingPlan::default();
        let flags = step.has_gradient.clone();
        Planner::default().plan_training(&step.mini_batch(), &flags, &mut plan).unwrap();
        let checked = check_training(&plan, &step.mini_batch(), &flags);
        checked.unwrap_or_else(|error| panic!("{}: {error}\n{plan}", subject.name));
        let expected = step.run(&plan);
        for (sort, mutant) in mutants(&plan, &mut rng) {
            if check_training(&mutant, &step.mini_batch(), &flags).is_err() {
                rejected += 1;
                continue;
            }
            harmless += 1;
            let got = step.run(&mutant);
            assert!(got == expected, "{}: {sort:?} is accepted:\n{mutant}", subject.name);
        }
        steps += 1;
    }
    println!("{steps} steps: {rejected} mutants rejected, {harmless} harmless");
    assert!(
        steps > 40 && rejected > 10_000 && harmless < rejected / 20,
        "{steps} {rejected} {harmless}"
    );
}

//! Mutants of training plans: each is rejected by the checker, or gives the same bits.

use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::{Field, Value};
use edbatch_layout::{
    Lifetimes, MiniBatch, Plan, Planner, Program, TrainingPlan, ValueRow, Want, check_training,
};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    BackPart, Backend, Cpu, Given, OutputGradients, Part, Precision, ReferenceTensor, initial_rows,
    interpret_gradients,
};
use edbatch_testing::cases;
use rand::{RngExt, SeedableRng};

use super::networks::Random;
use super::plans;
use super::subjects::Subject;
use super::tally::Sort;

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
        let backend =
            Cpu::new(program.clone(), &subject.parameters, Level::detect(), Precision::F32)
                .unwrap();
        Self { subject, program, wanted, has_gradient, backend }
    }

    fn mini_batch(&self) -> MiniBatch<'_> {
        let Subject { graph, schedule, .. } = self.subject;
        MiniBatch { program: &self.program, graph, schedule, wanted: &self.wanted }
    }

    /// Plans the step, and checks the plan.
    fn plan(&self) -> TrainingPlan {
        self.plan_with(Planner::default().block(self.subject.block))
    }

    fn plan_with(&self, mut planner: Planner) -> TrainingPlan {
        let mut plan = TrainingPlan::default();
        planner.plan_training(&self.mini_batch(), &self.has_gradient, &mut plan).unwrap();
        let checked = check_training(&plan, &self.mini_batch(), &self.has_gradient);
        checked.unwrap_or_else(|error| panic!("{}: {error}\n{plan}", self.subject.name));
        plan
    }

    /// Returns numbers for the given rows of a plan except the first ones.
    fn numbers(&self, plan: &Plan, skip: usize) -> Vec<f32> {
        let rows = plan.given[skip..].iter();
        let widths = rows.flat_map(|row| &self.program.record(row.record).widths);
        (0..widths.sum::<u32>()).map(|i| (i as f32 * 0.7).sin()).collect()
    }

    /// Returns all gradients: of given values, then of parameters.
    fn run(&mut self, plan: &TrainingPlan) -> Vec<Vec<f32>> {
        let network = self.program.network();
        let initial = initial_rows(network, &self.subject.parameters);
        let host = self.numbers(&plan.forward, initial.len());
        let outputs = self.numbers(&plan.back, 0);
        let given = Given { initial: &initial, places: &[], host: &host };
        self.backend.run(&[Part { slot: 0, plan: &plan.forward, given }]).unwrap();
        let training = self.backend.training().unwrap();
        training.forget();
        let part = BackPart { slot: 0, plan, outputs: OutputGradients::Rows(&outputs) };
        training.run_back(&[part], &mut Vec::new()).unwrap();
        training.add_sums(&[(0, plan)]).unwrap();
        let given = training.given_gradients(0, plan).unwrap();
        training.finish().unwrap();
        let parameters = training.gradients().unwrap().to_dense(network);
        given.iter().map(<[f32]>::to_vec).chain(parameters).collect()
    }

    /// Returns the same gradients by the reference, in float64.
    fn reference(&self, plan: &TrainingPlan) -> Vec<Vec<f64>> {
        let training = self.program.training().unwrap();
        let (network, graph) = (self.program.network(), &self.subject.graph);
        let double = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
        let parameters: Vec<Vec<f64>> =
            self.subject.parameters.slices().into_iter().map(double).collect();
        let parameters: Vec<&[f64]> = parameters.iter().map(Vec::as_slice).collect();
        let own = network.initial_values().len();
        let tensors = |rows: &[ValueRow], numbers: &mut dyn Iterator<Item = f64>| {
            let mut tensor = |field: &Field| {
                let shape = field.shape.rows_and_columns();
                let elements = numbers.take(shape.0 * shape.1).collect();
                ReferenceTensor::from_shape_vec(shape, elements).unwrap()
            };
            rows.iter()
                .map(|row| network.fields(row.record).fields.iter().map(&mut tensor).collect())
                .collect::<Vec<Vec<ReferenceTensor<f64>>>>()
        };
        let initial = network.initial_values().iter().flat_map(|initial| &initial.parameters);
        let initial: Vec<f64> =
            initial.flat_map(|id| parameters[id.0 as usize].iter().copied()).collect();
        let host = self.numbers(&plan.forward, own);
        let mut numbers = initial.into_iter().chain(host.into_iter().map(f64::from));
        let given = tensors(&plan.forward.given, &mut numbers);
        let mut numbers = self.numbers(&plan.back, 0).into_iter().map(f64::from);
        let outputs = tensors(&plan.back.given, &mut numbers);
        let values = self.wanted.iter().zip(&self.has_gradient).filter(|(_, has)| **has);
        let outputs: Vec<_> = values.map(|((value, _), _)| *value).zip(outputs).collect();
        let found = interpret_gradients(training, graph, &parameters, &given, &outputs);
        let given = found.given[own..].iter().map(|fields| {
            fields.iter().flat_map(|field| field.iter().copied()).collect::<Vec<f64>>()
        });
        given.chain(found.parameters).collect()
    }
}

/// The gradients that the CPU computes in batches equal the reference's.
#[test]
fn batched_gradients_of_random_networks_equal_the_reference() {
    let (mut seed, mut checked) = (0, 0);
    while checked < cases(200) {
        seed += 1;
        let (subject, mut rng) = (Subject::random(seed), Random::seed_from_u64(seed));
        let program = super::for_training(subject.graph.network());
        let mut step = Step::new(&subject, program, &mut rng);
        let plan = step.plan();
        let (got, expected) = (step.run(&plan), step.reference(&plan));
        assert_eq!(got.len(), expected.len());
        for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let scale = expected.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
            for (&got, &expected) in got.iter().zip(expected) {
                let error = (f64::from(got) - expected).abs() / scale;
                assert!(error < 1e-4, "{}: tensor {index}: {got}, not {expected}", subject.name);
            }
        }
        checked += 1;
    }
}

/// Returns the ranges of given rows, and of all rows that both ways write.
fn written(program: &Program, plan: &TrainingPlan) -> Vec<Range<u32>> {
    let of = |plan: &Plan| {
        let given = plan.given.iter().map(|row| (row.start, program.record(row.record).stride));
        let steps = plan
            .steps
            .iter()
            .map(|step| (step.out, step.calls * program.carried_out(step).output_stride));
        given.chain(steps).map(|(start, len)| start..start + len).collect::<Vec<_>>()
    };
    [of(&plan.forward), of(&plan.back)].concat()
}

/// On a device, steps of both ways run at once if they do not depend on each other.
#[test]
fn with_distinct_lifetimes_no_row_is_written_twice() {
    let mut rng = Random::seed_from_u64(6);
    let mut shared = 0;
    for subject in super::random_subjects(96).chain(Subject::zoo(2)) {
        let program = super::for_training(subject.graph.network());
        let mut step = Step::new(&subject, program, &mut rng);
        let (reused, distinct) = (step.plan(), step.plan_with(Planner::new(Lifetimes::Distinct)));
        let mut rows = written(&step.program, &distinct);
        rows.sort_by_key(|row| (row.start, row.end));
        for pair in rows.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{}: {pair:?}\n{distinct}", subject.name);
        }
        shared += usize::from(reused.forward.arena < distinct.forward.arena);
        let same = bits(step.run(&distinct)) == bits(step.run(&reused));
        assert!(same, "{}: the bits depend on lifetimes", subject.name);
    }
    assert!(shared > cases(40) as usize, "{shared} plans reuse rows");
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
        change(("sums", "left out"), &mut |plan| _ = plan.lists.remove(index));
        change(("sums", "twice"), &mut |plan| plan.lists.insert(index, plan.lists[index]));
        let other = (index + 1) % plan.lists.len();
        change(("sums", "swapped"), &mut |plan| plan.lists.swap(index, other));
    }
    for index in 0..plan.named.len().min(24) {
        change(("named", "another row"), &mut |plan| plan.named[index] ^= 1);
        change(("named", "left out"), &mut |plan| _ = plan.named.remove(index));
    }
    for index in 0..plan.calls.len() {
        change(("calls", "left out"), &mut |plan| _ = plan.calls.remove(index));
        change(("calls", "one call less"), &mut |plan| plan.calls[index].rows.end -= 1);
        change(("calls", "one call more"), &mut |plan| plan.calls[index].rows.end += 1);
        change(("calls", "other names"), &mut |plan| plan.calls[index].named += 1);
        change(("calls", "twice"), &mut |plan| plan.calls.insert(index, plan.calls[index].clone()));
    }
    for index in 0..plan.given.len() {
        change(("given", "left out"), &mut |plan| _ = plan.given.remove(index));
        change(("given", "one term less"), &mut |plan| plan.given[index].rows.start += 1);
        change(("given", "another field"), &mut |plan| plan.given[index].field += 1);
    }
    for index in 0..plan.gradient_of.len().min(24) {
        change(("gradient_of", "none"), &mut |plan| plan.gradient_of[index] = None);
        change(("gradient_of", "another"), &mut |plan| plan.gradient_of[index] = Some(1));
    }
    made
}

fn bits(gradients: Vec<Vec<f32>>) -> Vec<u32> {
    gradients.into_iter().flatten().map(f32::to_bits).collect()
}

#[test]
fn mutants_of_training_plans_are_rejected_or_compute_the_same_bits() {
    let mut rng = Random::seed_from_u64(5);
    let (mut steps, mut rejected, mut harmless) = (0, 0, 0);
    for subject in super::random_subjects(48).chain(Subject::zoo(2)) {
        let program = super::for_training(subject.graph.network());
        let mut step = Step::new(&subject, program, &mut rng);
        let (plan, flags) = (step.plan(), step.has_gradient.clone());
        let expected = bits(step.run(&plan));
        for (sort, mutant) in mutants(&plan, &mut rng) {
            if check_training(&mutant, &step.mini_batch(), &flags).is_err() {
                rejected += 1;
                continue;
            }
            harmless += 1;
            let got = bits(step.run(&mutant));
            assert!(got == expected, "{}: {sort:?} is accepted:\n{mutant}", subject.name);
        }
        steps += 1;
    }
    println!("{steps} steps: {rejected} mutants rejected, {harmless} harmless");
    assert!(steps > cases(30) && rejected > cases(10_000) && harmless < rejected / 20);
}

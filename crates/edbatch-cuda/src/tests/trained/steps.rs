//! Steps of training: few launches, and nothing is lost if one fails.

use std::ops::Range;

use super::*;

impl MiniBatch {
    /// Runs a step with both parts and an update.
    fn step(
        &self,
        backend: &mut dyn Training,
        given: (&Rows, f64),
        update: Option<Update<'_>>,
    ) -> Result<StepResult, BackendError> {
        self.with_step(0..2, given, update, |step| backend.step(step))
    }

    /// Calls a function with a step of one or both parts, of three inputs each, in these slots.
    pub(super) fn with_step<T>(
        &self,
        slots: Range<usize>,
        (initial, loss): (&Rows, f64),
        update: Option<Update<'_>>,
        run: impl FnOnce(&TrainingStep<'_>) -> T,
    ) -> T {
        let &Self { ref plan, ref given, ref targets, weight, .. } = self;
        let given = Given { initial, places: &[], host: given };
        let count = plan.forward.wanted.len() as u32;
        let ends = [count / 3, count / 3, count];
        let parts = slots.zip(targets).map(|(slot, targets)| {
            let outputs = OutputGradients::CrossEntropy { targets, weight };
            TrainingPart {
                forward: Part { slot, plan: &plan.forward, given },
                back: BackPart { slot, plan, outputs },
                ends: &ends,
            }
        });
        let parts: Vec<_> = parts.collect();
        run(&TrainingStep { parts: &parts, loss, update })
    }
}

/// The numbers of a state, as bits.
pub(super) fn bits_of(state: &TrainingState) -> Vec<u64> {
    let moments = state.moments.iter().flatten().map(|moment| &moment[..]);
    state.parameters.slices().into_iter().chain(moments).flat_map(bits).collect()
}

/// One of the nine models, as a mini-batch, and parameters.
pub(super) fn model(
    hidden: usize,
    index: usize,
    seed: u64,
) -> (&'static str, Arc<Program>, Parameters, MiniBatch) {
    let (name, emitting) =
        graphs(hidden, Stop::Forced([0; 5].into())).unwrap().into_iter().nth(index).unwrap();
    let program = Arc::new(for_training(emitting.0.network()));
    let (plan, _) = planned(&program, &emitting);
    let mut rng = Random::seed_from_u64(seed);
    let network = emitting.0.network().clone();
    let parameters = Subject::of(network, emitting.0, &mut rng).parameters;
    let mini_batch = MiniBatch::new(&program, plan, true, &mut rng);
    (name, program, parameters, mini_batch)
}

/// A step is at most seven launches, which nothing but them and one wait is needed for.
#[test]
fn steps_are_few_launches_with_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    let most = if edbatch_testing::all_cases() { 9 } else { 4 };
    let mut got = String::new();
    for (index, number) in [0, 4, 7, 6, 1, 2, 3, 5, 8].into_iter().take(most).enumerate() {
        let (name, program, parameters, mini_batch) = model(16, number, index as u64);
        let network = program.network();
        let count = network.parameters().len();
        let (rates, decays) = (&vec![0.02; count][..], &vec![0.01; count][..]);
        let rule = rules()[index % 5];
        let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
        let driver = [Driver::Teams, Driver::Barriers][index % 2];
        let Some(mut cuda) = load(&program, &parameters, number as u32 + 1, driver) else { return };
        let device = cuda.loaded.device.clone();
        for round in 0..4_u64 {
            let clip = [Clipping::Norm(0.05), Clipping::None][round as usize % 2];
            let update = Update { rule, step: round + 1, rates, decays, clip, gradients: None };
            let initial = initial_rows(network, &cpu.state().unwrap().parameters);
            // Two steps before an update, in one of the rounds.
            for update in [None, Some(update)].into_iter().skip(usize::from(round != 2)) {
                let expected = mini_batch.step(&mut cpu, (&initial, 0.5), update).unwrap();
                let before = [device.calls(), device.launches()];
                let got_result = mini_batch.step(&mut cuda, (&initial, 0.5), update).unwrap();
                let [calls, launches] = [device.calls() - before[0], device.launches() - before[1]];
                assert!(launches <= 7, "{name}: {launches} launches");
                let bytes = 2 * cuda.bytes_of_passes(&mini_batch.plan);
                assert!(4 * cuda.arena.used as u64 <= bytes, "{name}: {bytes} bytes");
                // Nothing else is called once all memory has been allocated.
                if round == 3 {
                    assert_eq!(calls, launches, "{name}");
                    got += &format!("{name} {launches}, ");
                }
                let numbers = |result: StepResult| {
                    let StepResult { loss, terms, squared_norm, not_finite, .. } = result;
                    (loss.to_bits(), terms, squared_norm.to_bits(), not_finite)
                };
                assert_eq!(
                    numbers(got_result),
                    numbers(expected),
                    "{name}, round {round}: {got_result:?}, {expected:?}"
                );
            }
            let [got, expected] = [cuda.state(), cpu.state()].map(|state| bits_of(&state.unwrap()));
            assert!(got == expected, "{name}, round {round}");
        }
    }
    let expected = "tree_lstm 7, bilstm_tagger 7, lattice_lstm 7, lstm_nmt 7, tree_lstm_2type 7, \
                    tree_gru 7, mv_rnn 6, bilstm_tagger_char 7, lattice_gru 7, ";
    assert!(expected.starts_with(&got), "{got}");
}

/// Whatever fails, parameters and moments are as before, and the next step has the right bits.
#[test]
fn a_step_that_fails_changes_nothing() {
    let Some(&level) = levels().first() else { return };
    let (_, program, parameters, mini_batch) = model(16, 0, 3);
    let network = program.network();
    let count = network.parameters().len();
    let (rates, decays) = (&vec![0.02; count][..], &vec![0.01; count][..]);
    let rule = rules()[0];
    let update = |step| {
        let clip = Clipping::Norm(0.05);
        Some(Update { rule, step, rates, decays, clip, gradients: None })
    };
    let initial = initial_rows(network, &parameters);
    let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
    let Some(mut cuda) = load(&program, &parameters, 5, Driver::Teams) else { return };
    let device = cuda.loaded.device.clone();
    let mut step = 1;
    let mut both = |cuda: &mut Cuda<Emulated>| {
        let expected = mini_batch.step(&mut cpu, (&initial, 0.0), update(step)).unwrap();
        let got = mini_batch.step(cuda, (&initial, 0.0), update(step)).unwrap();
        assert_eq!(got.loss.to_bits(), expected.loss.to_bits());
        step += 1;
        let [got, expected] = [cuda.state(), cpu.state()].map(|state| bits_of(&state.unwrap()));
        assert!(got == expected, "step {step}");
    };
    both(&mut cuda);
    let fails = |cuda: &mut Cuda<Emulated>| {
        let before = bits_of(&cuda.state().unwrap());
        let error = mini_batch.step(cuda, (&initial, 0.0), update(2)).unwrap_err();
        cuda.forget();
        assert!(bits_of(&cuda.state().unwrap()) == before, "{error}");
        error
    };
    // A block of one of the launches before the update never ends.
    for launch in 0..6 {
        device.set_absent_in(launch, 0);
        let error = fails(&mut cuda);
        device.set_absent(None);
        let is_timeout = matches!(CudaError::of(&error), Some(CudaError::BarrierTimeout { .. }));
        assert!(is_timeout, "launch {launch}: {error}");
        both(&mut cuda);
    }
    // Each allocation of a new backend fails in turn.
    let mut failed = 0;
    loop {
        let mut fork = load(&program, &parameters, 6, Driver::Teams).unwrap();
        fork.set_state(&cuda.state().unwrap()).unwrap();
        let device = fork.loaded.device.clone();
        device.set_max_allocations(Some(failed));
        let before = bits_of(&fork.state().unwrap());
        let done = mini_batch.step(&mut fork, (&initial, 0.0), update(9));
        device.set_max_allocations(None);
        let Err(error) = done else { break };
        assert!(matches!(error, BackendError::Memory { .. }), "{error}");
        fork.forget();
        assert!(bits_of(&fork.state().unwrap()) == before, "allocation {failed}");
        failed += 1;
        if !edbatch_testing::all_cases() && failed > 3 {
            break;
        }
    }
    assert!(failed > 3, "{failed} allocations");
}

/// A loss or a gradient that is not finite is named as by the CPU.
#[test]
fn numbers_that_are_not_finite_are_named() {
    let Some(&level) = levels().first() else { return };
    let (_, program, parameters, mut mini_batch) = model(16, 0, 4);
    let network = program.network();
    let count = network.parameters().len();
    let (rates, decays) = (&vec![0.02; count][..], &vec![0.01; count][..]);
    let (rule, clip) = (rules()[1], Clipping::None);
    let Some(mut cuda) = load(&program, &parameters, 5, Driver::Teams) else { return };
    let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
    let own: Vec<Vec<f32>> = parameters.slices().into_iter().map(<[f32]>::to_vec).collect();
    // A parameter has other values, or the loss a large weight, which overflows gradients alone.
    let values = (0..count).flat_map(|n| [f32::NAN, 3e38, 1e22].map(|value| (n, Some(value))));
    let (mut inputs, mut gradients) = (0, 0);
    for (number, value) in values.chain([(0, None)]) {
        let mut values = own.clone();
        match value {
            Some(value) => values[number].fill(value),
            None => mini_batch.weight = 3e38,
        }
        let state = TrainingState {
            parameters: Parameters::from_values(network, values).unwrap(),
            moments: vec![Vec::new(); count],
        };
        let initial = initial_rows(network, &state.parameters);
        let update = Some(Update { rule, step: 1, rates, decays, clip, gradients: None });
        let run = |backend: &mut dyn Training| {
            backend.set_state(&state).unwrap();
            let result = mini_batch.step(backend, (&initial, 0.0), update).unwrap();
            backend.forget();
            if result.not_finite.is_some() {
                assert!(bits_of(&backend.state().unwrap()) == bits_of(&state));
            }
            result.not_finite
        };
        let (expected, got) = (run(&mut cpu), run(&mut cuda));
        assert_eq!(got, expected, "{}: {value:?}", network.parameters()[number].name);
        match got {
            Some(NotFiniteIn::Input(_)) => inputs += 1,
            Some(NotFiniteIn::Parameter(_)) => gradients += 1,
            None => {}
        }
    }
    assert!(inputs > 0 && gradients > 0, "{inputs} inputs, {gradients} gradients");
}

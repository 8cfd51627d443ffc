//! Steps that are enqueued while the step before them runs.

use super::steps::{bits_of, model};
use super::*;
use crate::device::Device;

/// The kernels wait for rows, and launches run as late as they can. So a step that overwrote what
/// the step before it still reads would change bits.
#[test]
fn steps_ahead_have_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    let most = if edbatch_testing::all_cases() { 9 } else { 2 };
    for (index, number) in [0, 7, 4, 6, 1, 2, 3, 5, 8].into_iter().take(most).enumerate() {
        let (name, program, parameters, mini_batch) = model(64, number, index as u64);
        let (_, _, _, other) = model(64, number, 9 + index as u64);
        let network = program.network();
        let count = network.parameters().len();
        let (rates, decays) = (&vec![0.02; count][..], &vec![0.01; count][..]);
        let rule = rules()[(index + 3) % 5];
        let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
        let Some(mut cuda) = load(&program, &parameters, number as u32 + 1, Driver::Teams) else {
            return;
        };
        let device = cuda.loaded.device.clone();
        device.set_late(true);
        assert!(number != 0 || cuda.loaded.pass.waits_for_rows(&cuda.loaded.placed()), "{name}");
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        // The number of parts changes, and the memory grows while a step runs.
        for (step, (mini_batch, parts)) in
            [(&other, 1), (&mini_batch, 2), (&other, 2), (&mini_batch, 2), (&other, 1), (&other, 2)]
                .into_iter()
                .enumerate()
        {
            let clip = [Clipping::Norm(0.05), Clipping::None][step % 2];
            let step = step as u64 + 1;
            let update = Some(Update { rule, step, rates, decays, clip, gradients: None });
            let initial = initial_rows(network, &cpu.state().unwrap().parameters);
            let run = |backend: &mut dyn Training, first| {
                let slots = first..first + parts;
                mini_batch.with_step(slots, (&initial, 0.5), update, |step| {
                    backend.step_ahead(Some(step)).unwrap()
                })
            };
            expected.extend(run(&mut cpu, 0));
            let before = [device.calls(), device.launches()];
            // The fifth step waits for the slots of the fourth.
            let result = run(&mut cuda, [2, 0, 2, 0, 0, 2][step as usize - 1]);
            let [calls, launches] = [device.calls() - before[0], device.launches() - before[1]];
            assert_eq!(result.is_some(), step > 1, "{name}: the result of the step before");
            // All memory is large enough by now. The last look at the step before ran one launch.
            assert!(step != 4 || device.pending() as u64 + 1 >= launches, "{name}: it has run");
            assert!(step < 6 || calls == launches, "{name}: {calls} calls, {launches} launches");
            got.extend(result);
        }
        got.extend(cuda.step_ahead(None).unwrap());
        assert_eq!(cuda.step_ahead(None).unwrap(), None);
        let numbers = |results: &[StepResult]| -> Vec<_> {
            let own = results.iter().map(|it| (it.loss.to_bits(), it.squared_norm.to_bits()));
            own.collect()
        };
        assert_eq!(numbers(&got), numbers(&expected), "{name}");
        let [got, expected] = [cuda.state(), cpu.state()].map(|state| bits_of(&state.unwrap()));
        assert!(got == expected, "{name}");
    }
}

/// After a step that fails, later ones have done nothing, and the next one has the right bits.
#[test]
fn steps_after_one_that_fails_do_nothing() {
    let Some(&level) = levels().first() else { return };
    let (_, program, parameters, mut mini_batch) = model(16, 0, 3);
    let network = program.network();
    let count = network.parameters().len();
    let (rates, decays) = (&vec![0.02; count][..], &vec![0.01; count][..]);
    let (rule, clip) = (rules()[3], Clipping::None);
    let initial = initial_rows(network, &parameters);
    let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
    let Some(mut cuda) = load(&program, &parameters, 5, Driver::Teams) else { return };
    let device = cuda.loaded.device.clone();
    device.set_late(true);
    let mut number = 0;
    let mut run = |backend: &mut dyn Training, slot, weight| {
        number += 1;
        mini_batch.weight = weight;
        let step = number;
        let update = Some(Update { rule, step, rates, decays, clip, gradients: None });
        mini_batch.with_step(slot..slot + 1, (&initial, 0.5), update, |step| {
            backend.step_ahead(Some(step))
        })
    };
    for failure in 0..4 {
        let [got, expected] = [cuda.state(), cpu.state()].map(|state| bits_of(&state.unwrap()));
        assert!(got == expected, "before failure {failure}");
        let absent = |device: &Emulated, launch| device.set_absent_in(launch, 0);
        let error = match failure {
            // Gradients that are not finite.
            0 => {
                assert_eq!(run(&mut cuda, 0, 3e38).unwrap(), None);
                let result = run(&mut cuda, 1, 0.125).unwrap().unwrap();
                assert!(matches!(result.not_finite, Some(NotFiniteIn::Parameter(_))));
                None
            }
            // A block that never ends, of the step that runs, or of the one after it.
            1 => {
                absent(&device, 3);
                assert_eq!(run(&mut cuda, 0, 0.125).unwrap(), None);
                Some(run(&mut cuda, 1, 0.125).unwrap_err())
            }
            2 => {
                absent(&device, 9);
                assert_eq!(run(&mut cuda, 0, 0.125).unwrap(), None);
                assert!(run(&mut cuda, 1, 0.125).unwrap().is_some());
                run(&mut cpu, 0, 0.125).unwrap();
                Some(cuda.step_ahead(None).unwrap_err())
            }
            // Memory for the second step cannot be allocated.
            _ => {
                assert_eq!(run(&mut cuda, 0, 0.125).unwrap(), None);
                device.set_max_allocations(Some(0));
                assert!(run(&mut cuda, 7, 0.125).unwrap().is_some());
                device.set_max_allocations(None);
                run(&mut cpu, 0, 0.125).unwrap();
                Some(run(&mut cuda, 1, 0.125).unwrap_err())
            }
        };
        device.set_absent(None);
        assert_eq!(cuda.step_ahead(None).unwrap(), None, "failure {failure}");
        match (failure, error.as_ref().map(CudaError::of)) {
            (0, None) | (1 | 2, Some(Some(CudaError::BarrierTimeout { .. }))) => {}
            (3, Some(None)) => assert!(matches!(error, Some(BackendError::Memory { .. }))),
            other => panic!("{other:?}"),
        }
        cuda.forget();
    }
    assert_eq!(run(&mut cuda, 0, 0.125).unwrap(), None);
    let [got, expected] = [cuda.step_ahead(None), run(&mut cpu, 0, 0.125)];
    let [got, expected] = [got, expected].map(|result| result.unwrap().unwrap().loss);
    assert_eq!(got.to_bits(), expected.to_bits());
    let [got, expected] = [cuda.state(), cpu.state()].map(|state| bits_of(&state.unwrap()));
    assert!(got == expected);
}

/// Evaluations of one program share its kernel, and each has the parameters that it was given.
#[test]
fn evaluations_compile_a_kernel_once() {
    let (_, program, parameters, _) = model(16, 0, 3);
    let Some(cuda) = load(&program, &parameters, 5, Driver::Teams) else { return };
    let (trained, device) = (cuda.trained(), &cuda.loaded.device);
    let network = program.network();
    let others = parameters.slices().into_iter().map(|values| vec![0.5; values.len()]).collect();
    let others = Parameters::from_values(network, others).unwrap();
    let new = || Arc::new(Program::new(network.clone(), CellStyle::default()).unwrap());
    let [of, of_other] = [new(), new()];
    let evaluate = |program, parameters| trained.evaluation(device, program, parameters).unwrap();
    let all = [(&of, &parameters), (&of, &others), (&of_other, &others)];
    let [first, second, third] = all.map(|(program, parameters)| evaluate(program, parameters));
    assert!(Arc::ptr_eq(&first.pass, &second.pass) && !Arc::ptr_eq(&second.pass, &third.pass));
    let weights = |loaded: &crate::loaded::Loaded<Emulated>| {
        let mut words = vec![0; loaded.weight_bytes / 4];
        device.read(&loaded.weights, 0, &mut words).unwrap();
        words
    };
    assert!(weights(&first) != weights(&second) && weights(&second) == weights(&third));
}

//! Every system computes what the interpreter computes.

use clap::ValueEnum;
use edbatch_benches::measure::agreement::Agreement;
use edbatch_benches::measure::contestant::Work;
use edbatch_benches::measure::device::Device;
use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::policies::TrainingGraphs;
use edbatch_benches::measure::sets::Source;
use edbatch_benches::measure::systems::{Setup, System};
use edbatch_benches::measure::workload::MiniBatch;
use edbatch_policy::Encoding;
use edbatch_runtime::Parameters;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

#[test]
fn systems_agree_on_every_workload() {
    for (model, with_set) in FAMILIES {
        check(model, with_set(&Source::Generated).unwrap().at(8).unwrap().as_ref(), None);
    }
}

/// Runs on the emulated device, which needs a C++ compiler.
#[test]
fn systems_on_a_device_agree_on_trees() {
    if !crate::gpu::has_compiler() {
        return;
    }
    let device = Device::open(true).unwrap();
    let (model, with_set) = FAMILIES[0];
    let workload = with_set(&Source::Generated).unwrap().at(8).unwrap();
    check(model, workload.as_ref(), Some(&device));
}

/// Checks all systems on the processor, or on a device.
fn check(
    model: &str,
    workload: &dyn edbatch_benches::measure::workload::Workload,
    device: Option<&Device>,
) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let parameters = Parameters::random(workload.network(), &mut rng);
    let fsm = TrainingGraphs::new(workload, 2).learn(Encoding::Sort, |_| {}).policy;
    let mini_batches = [(4, 3), (9, 2)].map(|(first, size)| MiniBatch { first, size });
    let mut flops = Vec::new();
    let on_device = |system: &System| system.on_cuda().is_some() == device.is_some();
    for &system in System::value_variants().iter().filter(|&system| on_device(system)) {
        let setup = Setup::new(system, &fsm, 2).on(device);
        let mut contestant = workload.contestant(&setup, &parameters, &mini_batches).unwrap();
        let mut agreement = Agreement::new(workload, &parameters, &mini_batches).unwrap();
        let run = |number| Ok(contestant.run(number)?.to_vec());
        let checked = agreement.check(system.tolerance(), run);
        assert!(checked.is_ok(), "{} of {model}: {checked:?}", system.name());
        // The counted work equals the work that ran, and all systems have the same equations.
        let (counted, ran) =
            ([0, 1].map(|number| contestant.work(number)), contestant.statistics());
        let all = |of: fn(&Work) -> u64| counted.iter().map(of).sum::<u64>();
        let batches = all(|work| work.counts.batches);
        assert_eq!((all(|work| work.nodes), batches), (ran.nodes, ran.batches), "{model}");
        for work in counted {
            assert!(work.bound <= work.counts.batches);
            // A product may be computed once for several calls, but never repeatedly.
            assert!(work.executed_flops <= work.flops, "{} of {model}", system.name());
            assert!(work.executed_flops > 0);
        }
        flops.push(counted.map(|work| work.flops));
    }
    flops.dedup();
    assert_eq!(flops.len(), 1, "{model}");
}

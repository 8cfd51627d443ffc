//! Every contestant computes what the interpreter computes.

use clap::ValueEnum;
use edbatch_benches::families::FAMILIES;
use edbatch_benches::policies::TrainingGraphs;
use edbatch_benches::sets::Source;
use edbatch_benches::systems::System;
use edbatch_benches::workload::MiniBatch;
use edbatch_policy::Encoding;
use edbatch_runtime::Parameters;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

#[test]
fn contestants_agree_on_every_workload() {
    for (model, meet) in FAMILIES {
        let workload = meet(&Source::Generated).unwrap().at(8).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let parameters = Parameters::random(workload.network(), &mut rng);
        let fsm = TrainingGraphs::new(&*workload, 2).learn(Encoding::Sort, |_| {}).policy;
        let mini_batches = [MiniBatch { first: 4, size: 3 }];
        let expected = workload.interpret(&parameters, mini_batches[0]).unwrap();
        let mut counts = Vec::new();
        let devices = System::DEVICES;
        let all = System::value_variants().iter().filter(|system| !devices.contains(system));
        for &system in all {
            let contestant = workload.contestant(system, &parameters, &fsm, &mini_batches, 2);
            let mut contestant = contestant.unwrap();
            let got = contestant.run(0).unwrap();
            for (got, expected) in got.iter().zip(&expected) {
                let (got, expected) = (got.iter().flatten(), expected.iter().flatten());
                let far = got.zip(expected).find(|(got, expected)| (*got - *expected).abs() > 1e-4);
                assert_eq!(far, None, "{} of {model}", system.name());
            }
            // What was counted beforehand is what happened, and products are the same for all.
            let (counted, ran) = (contestant.counts(0), contestant.statistics());
            assert_eq!((counted.nodes, counted.batches), (ran.nodes, ran.batches), "{model}");
            assert!(counted.bound <= counted.batches);
            // A product may be done once for several calls, and never more often than it is meant.
            assert!(counted.executed_flops <= counted.flops, "{} of {model}", system.name());
            assert!(counted.executed_flops > 0);
            counts.push(counted.flops);
        }
        counts.dedup();
        assert_eq!(counts.len(), 1, "{model}");
    }
}

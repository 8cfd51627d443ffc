//! A backend runs a step as a whole, or part by part.

use edbatch::models::{FolderModel, ModelName};
use edbatch::{Loaded, Optimizer, Trainer, TrainerOptions};

use crate::small::examples;

fn trainer(loaded: &Loaded, options: TrainerOptions) -> Trainer<FolderModel> {
    let options = options.optimizer(Optimizer::adam_w(0.01));
    Trainer::with_options(loaded.model.clone(), loaded.parameters.clone(), options).unwrap()
}

/// `train` has the bits of `accumulate` and `update`, also if threads or a memory limit divide the
/// mini-batch. Then only the last part is followed by the update.
#[test]
fn a_step_as_a_whole_has_the_bits_of_its_parts() {
    for name in [ModelName::TreeLstm, ModelName::BiLstmTagger, ModelName::LatticeLstm] {
        let (loaded, (mut inputs, mut targets)) = examples(name);
        while inputs.len() < 20 {
            inputs.extend_from_within(..);
            targets.extend_from_within(..);
        }
        let mut whole = trainer(&loaded, TrainerOptions::new());
        whole.train(&inputs, &targets).unwrap();
        let bytes = whole.bytes();
        let limit = (bytes.weights + bytes.arena / 3) as u64;
        let new = TrainerOptions::new;
        let of = || {
            [
                ("no limits", new()),
                ("a clipped norm", new().clip_norm(0.01)),
                ("clipped elements", new().clip_value(1e-3).threads(2)),
                ("three threads", new().threads(3)),
                ("a memory limit", new().memory_limit(limit)),
            ]
        };
        let mut first = None;
        for ((what, options), (_, same)) in of().into_iter().zip(of()) {
            let [mut whole, mut parts] = [options, same].map(|own| trainer(&loaded, own));
            for step in 0..3 {
                let got = whole.train(&inputs, &targets).unwrap();
                let weight = 1.0 / inputs.len() as f32;
                let of_parts = parts.accumulate(&inputs, &targets, weight).unwrap();
                let norm = parts.update().unwrap();
                assert_eq!(got.loss.to_bits(), of_parts.loss.to_bits(), "{name:?}: {what}");
                assert_eq!(got.terms, of_parts.terms, "{name:?}: {what}");
                assert_eq!(got.gradient_norm.to_bits(), norm.to_bits(), "{name:?}: {what}");
                assert!(whole.state().unwrap() == parts.state().unwrap(), "{name:?}: {what}");
                if step == 0 {
                    let bits = (got.loss.to_bits(), norm.to_bits());
                    assert_eq!(*first.get_or_insert(bits), bits, "{name:?}: {what}");
                }
            }
            // Without inputs, there is an update alone.
            let nothing = whole.train(&[], &[]).unwrap();
            parts.accumulate(&[], &[], 1.0).unwrap();
            assert_eq!((nothing.loss, nothing.terms, parts.update().unwrap()), (0.0, 0, 0.0));
            assert!(whole.state().unwrap() == parts.state().unwrap(), "{name:?}: {what}");
            assert_eq!((whole.updates(), parts.updates()), (4, 4));
        }
    }
}

//! The report on how well each kind batched.

use edbatch::{Engine, EngineOptions};
use edbatch_datasets::fixtures;
use edbatch_models::{Model, TreeLstm, TreeSizes};
use edbatch_policy::Depth;
use edbatch_runtime::Parameters;
use rand::SeedableRng;

#[test]
fn a_worse_policy_has_a_missed_opportunity() {
    let trees = fixtures::binary_trees();
    let trees: Vec<_> = trees.iter().map(|tree| tree.map(|_| 0, |_| 1)).collect();
    let sizes = TreeSizes { vocabulary: 2, embed: 4, hidden: 4, classes: 3 };
    let model = TreeLstm::new(sizes).unwrap();
    let mut rng = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(1);
    let parameters = Parameters::random(model.network(), &mut rng);

    let counting = || EngineOptions::new().counts();
    let depth = counting().policy(Box::new(Depth::new()));
    let mut good = Engine::with_options(model.clone(), parameters.clone(), counting()).unwrap();
    let mut poor = Engine::with_options(model, parameters, depth).unwrap();
    good.run(&trees).unwrap();
    poor.run(&trees).unwrap();

    let (good, poor) = (good.report().unwrap(), poor.report().unwrap());
    assert_eq!(good.missed(), None);
    let output = good.kinds.iter().find(|kind| kind.name == "output").unwrap();
    assert_eq!((output.batches, output.chain), (1, 1));
    let (kind, missed) = poor.missed().unwrap();
    assert_eq!(kind.name, "output");
    assert_eq!(missed, kind.batches - 1);
    assert!(poor.to_string().contains("largest missed opportunity"), "{poor}");
}

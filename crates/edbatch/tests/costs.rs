//! Costs of batches are measured, and change what is scheduled but no result.

use edbatch::Engine;
use edbatch_datasets::fixtures;
use edbatch_models::{Model, TreeLstm, TreeSizes};
use edbatch_policy::{Beam, Critical, Policy, Portfolio};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

#[test]
fn measured_costs_are_an_objective() {
    let trees: Vec<_> =
        fixtures::binary_trees().iter().map(|tree| tree.map(|_| 0, |_| 1)).collect();
    let sizes = TreeSizes { vocabulary: 2, embed: 4, hidden: 4, classes: 3 };
    let model = TreeLstm::new(sizes).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut engine = Engine::new(model.clone(), parameters).unwrap();
    let expected = engine.run(&trees).unwrap();
    let costs = engine.measure_costs(&[&trees[..1], &trees]).unwrap();
    assert_eq!(costs.lines.len(), model.network().cells().len());
    for line in &costs.lines {
        assert!(line.base.is_finite() && line.slope.is_finite());
        assert!(line.base >= 0.0 && line.slope >= 0.0 && line.base + line.slope > 0.0);
    }
    let weights = costs.batch_costs();
    let policies: [Box<dyn Policy + Send>; 3] = [
        Box::new(Critical::new().with_costs(weights.clone())),
        Box::new(Portfolio::quick().with_costs(weights.clone())),
        Box::new(Beam::new(8).with_costs(weights)),
    ];
    for policy in policies {
        engine.set_policy(policy);
        assert_eq!(engine.run(&trees).unwrap(), expected);
    }
}

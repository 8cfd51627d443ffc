//! An engine learns its own policy.

use edbatch::models::{LatticeLstm, LatticeSizes, Model};
use edbatch::{Engine, RunError};
use edbatch_datasets::{Lattice, WordArc};
use edbatch_policy::{Agenda, EmptyTrainingSet, Encoding, LearningConfig};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::fn_model::random;

fn engine() -> Engine<LatticeLstm> {
    let sizes = LatticeSizes { chars: 9, words: 9, embed: 4, hidden: 4, classes: 3 };
    let model = LatticeLstm::new(sizes).unwrap();
    let parameters = random(model.network(), 1);
    Engine::new(model, parameters).unwrap()
}

#[test]
fn a_learned_policy_changes_batches_and_no_result() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut lattice = || {
        let length = rng.random_range(6..30_u32);
        let word = |start| WordArc { start, end: start + 1 + start % 3, word: start % 9 };
        let words = (0..length - 4).filter(|start| start % 2 == 0).map(word).collect();
        Lattice { chars: (0..length).map(|i| i % 9).collect(), words, ..Lattice::default() }
    };
    let inputs: Vec<Lattice<u32>> = (0..32).map(|_| lattice()).collect();

    let mut agenda = engine();
    agenda.set_policy(Box::new(Agenda::new()));
    let expected = agenda.run(&inputs).unwrap();
    let mini_batches: Vec<&[Lattice<u32>]> = inputs.chunks(8).collect();
    let config = LearningConfig::new(100);
    let outcomes = [1, 1].map(|seed| {
        let mut learned = engine();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let outcome = learned.learn(&mini_batches, Encoding::Sort, &config, &mut rng).unwrap();
        assert!(outcome.bound <= outcome.after && outcome.bound <= outcome.before);
        assert_eq!(learned.statistics().batches, 0, "nothing awaits a value, so nothing is run");
        assert_eq!(learned.run(&inputs).unwrap(), expected);
        assert!(learned.statistics().batches < agenda.statistics().batches);
        // Run the learned table, even if the engine rejected it, and compare the number of batches.
        assert!(outcome.table.len() > 2, "{:?}", outcome.table);
        let mut by_table = engine();
        let kinds = by_table.model().network().cells().len();
        by_table.set_policy(Box::new(outcome.fsm(Encoding::Sort, kinds)));
        assert_eq!(by_table.run(mini_batches[3]).unwrap(), expected[24..]);
        assert_eq!(by_table.statistics().batches, outcome.after as u64, "the one held out");
        outcome
    });
    assert_eq!(outcomes[0].table, outcomes[1].table, "the same seed, the same table");
}

/// Learning from inputs that call no cell is an error.
#[test]
fn nothing_is_learned_from_nothing() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut engine = engine();
    let empty = Lattice { chars: vec![], words: vec![], ..Lattice::default() };
    for mini_batches in [&[][..], &[&[][..]], &[&[empty][..]]] {
        let learned =
            engine.learn(mini_batches, Encoding::Sort, &LearningConfig::default(), &mut rng);
        assert!(matches!(learned.err(), Some(RunError::Learn(EmptyTrainingSet))));
    }
}

//! Learning, compared with a learner that does nothing.

use edbatch_graph::{Dag, Kind, NodeId, PlainDag};
use edbatch_policy::{
    Comparison, Critical, EmptyTrainingSet, Encoding, Learned, LearningConfig, LookAhead, Outcome,
    PairRule, RuleOutcome, TrainingSet, compare, learn, learn_rule, schedule, set_aside,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::support;

const KINDS: usize = 6;

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Mini-batches to learn on, and unseen ones.
fn lattices() -> (Vec<PlainDag>, Vec<PlainDag>) {
    let mini_batches = (0..16).map(|seed| support::summed_lattices(seed, 16)).collect::<Vec<_>>();
    let (train, unseen) = mini_batches.split_at(8);
    (train.to_vec(), unseen.to_vec())
}

fn rule(train: &[PlainDag], seed: u64, episodes: usize) -> RuleOutcome {
    learn_rule(train, episodes, &mut rng(seed), |_| ()).unwrap()
}

fn q(set: &TrainingSet<'_, PlainDag>, encoding: Encoding, episodes: usize) -> Outcome {
    let config = LearningConfig { episodes, good_enough: 0.0, ..LearningConfig::default() };
    learn(set, encoding, &config, &mut rng(1), |_| ())
}

/// A learner that returns a preset rule fails this test.
#[test]
fn learned_rule_beats_critical_on_unseen_graphs() {
    let (train, unseen) = lattices();
    let learned = rule(&train, 0, 3000);
    assert_eq!((learned.episodes, learned.mini_batches), (2976, 8));
    for preset in [PairRule::pair(), PairRule::soft()] {
        let by_preset = compare(&train, &mut LookAhead::new(preset)).learned;
        assert!(learned.after < by_preset, "{} < {by_preset}", learned.after);
    }
    let on_train = compare(&train, &mut LookAhead::new(learned.rule.clone()));
    assert_eq!(
        on_train,
        Comparison {
            mini_batches: 8,
            critical: learned.before,
            learned: learned.after,
            bound: learned.bound
        }
    );
    let Comparison { critical, learned, bound, .. } =
        compare(&unseen, &mut LookAhead::new(learned.rule));
    assert!(bound <= learned && learned < critical, "{bound} <= {learned} < {critical}");
}

#[test]
fn learned_rule_has_a_weight_for_each_pair_of_kinds_that_compete() {
    let (train, _) = lattices();
    let learned = rule(&train, 3, 200);
    // No node reads outputs, which read sums. A word reads a character or a sum.
    let pairs: Vec<_> = learned.rule.weights.iter().map(|&(a, b, _)| (a.0, b.0)).collect();
    let characters = (0..=4).map(|reader| (0, reader));
    let words = (1..=3).map(|word| (word, 4));
    let sums = (0..=3).map(|reader| (4, reader));
    assert_eq!(pairs, characters.chain(words).chain(sums).collect::<Vec<_>>());
    assert!(learned.rule.weights.iter().any(|&(_, _, weight)| weight != 1.0));
}

/// On trees the preset rules are optimal.
#[test]
fn learning_ends_at_once_if_nothing_can_be_gained() {
    let train: Vec<_> = (0..3).map(|seed| support::trees(seed, 8)).collect();
    let learned = rule(&train, 0, 3000);
    assert_eq!((learned.episodes, learned.after), (0, learned.bound));
    assert!(!learned.rule.weights.is_empty());
    let none: [PlainDag; 0] = [];
    assert_eq!(learn_rule(&none, 9, &mut rng(0), |_| ()), Err(EmptyTrainingSet));
}

#[test]
fn the_same_seed_gives_the_same_file() {
    let (train, held_out) = lattices();
    let rules = [5, 5, 6].map(|seed| {
        Learned::rule(&rule(&train, seed, 300), train[0].kind_names(), "lattices").to_json()
    });
    assert!(rules[0] == rules[1] && rules[0] != rules[2]);
    let set = TrainingSet::new(&train, &held_out).unwrap();
    let tables = [5, 5].map(|seed| {
        let config = LearningConfig { episodes: 60, ..LearningConfig::default() };
        let outcome = learn(&set, Encoding::Sort, &config, &mut rng(seed), |_| ());
        Learned::table(&outcome, Encoding::Sort, train[0].kind_names(), "lattices", 8).to_json()
    });
    assert_eq!(tables[0], tables[1]);
}

/// An empty table, or one whose states never occur, would leave all choices to `Critical`.
#[test]
fn learned_table_decides_most_batches() {
    let (train, held_out) = lattices();
    let set = TrainingSet::new(&train, &held_out).unwrap();
    for encoding in Encoding::all() {
        let outcome = q(&set, encoding, 200);
        assert!(!outcome.table.is_empty(), "{encoding}");
        let mut fsm = outcome.fsm(encoding, KINDS);
        let schedule = schedule(&train[0], &mut fsm);
        assert_eq!(schedule.check(&train[0]), Ok(()));
        assert!(fsm.unseen() < schedule.len() / 4, "{encoding}: {} unseen", fsm.unseen());
        let by_critical = compare(&held_out, &mut Critical::new()).critical;
        let by_table = compare(&held_out, &mut outcome.fsm(encoding, KINDS)).learned;
        assert_eq!((outcome.before, outcome.after), (by_critical, by_table), "{encoding}");
    }
}

/// With a learning rate of 0 all choices keep the same value, so the smallest kind runs. Here these
/// are the outputs of trees, which should run last.
#[test]
fn q_learning_is_better_than_a_learning_rate_of_zero() {
    let outputs_first = |seed| {
        let trees = support::trees(seed, 16);
        let mut dag = PlainDag::new(["output", "inner", "leaf"]);
        for node in (0..trees.nodes()).map(NodeId::new) {
            let arguments: Vec<_> = trees.arguments(node).collect();
            dag.push(Kind(2 - trees.kind(node).0), &arguments).unwrap();
        }
        dag
    };
    let mini_batches: Vec<_> = (0..4).map(outputs_first).collect();
    let set = TrainingSet::new(&mini_batches[..2], &mini_batches[2..]).unwrap();
    for encoding in [Encoding::Base, Encoding::Max, Encoding::Sort] {
        let [idle, learned] = [0.0, 0.4].map(|rate| {
            let config = LearningConfig { episodes: 200, rate, ..LearningConfig::default() };
            learn(&set, encoding, &config, &mut rng(1), |_| ())
        });
        assert!(learned.after < idle.after, "{encoding}: {} < {}", learned.after, idle.after);
    }
}

#[test]
fn or_critical_drops_a_table_only_if_critical_is_better() {
    let outcome = |before, after| Outcome {
        table: vec![(Vec::new(), Kind(0))],
        episodes: 1,
        before,
        after,
        bound: 7,
    };
    let kept = |before, after| {
        let kept = outcome(before, after).or_critical();
        (kept.table.len(), kept.after)
    };
    assert_eq!(kept(9, 8), (1, 8));
    assert_eq!(kept(9, 9), (1, 9));
    assert_eq!(kept(9, 10), (0, 9));
}

#[test]
fn set_aside_spreads_a_quarter_of_the_mini_batches() {
    let check = |count: usize, aside: &[usize]| {
        let (learn, unseen) = set_aside((0..count).collect());
        assert_eq!(unseen, aside, "of {count}");
        let mut all = [learn, unseen].concat();
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>());
    };
    check(0, &[]);
    check(5, &[]);
    check(6, &[1, 3, 5]);
    check(10, &[3, 6, 9]);
    check(16, &[3, 7, 11, 15]);
}

/// The published lattices of 64 instances: seven to learn on, and three unseen.
#[test]
fn learned_rule_beats_critical_on_unseen_published_lattices() {
    let graphs = support::published_graphs();
    let lattices: Vec<_> = graphs.iter().filter(|(name, _)| name.starts_with("lattice")).collect();
    if lattices.is_empty() {
        return;
    }
    // Kinds are numbered alike in all graphs with six kinds.
    let (learn, unseen) = set_aside(lattices);
    let of = |graphs: &[&(String, PlainDag)]| -> Vec<PlainDag> {
        graphs.iter().map(|(_, dag)| dag.clone()).filter(|dag| dag.kinds() == 6).collect()
    };
    let (learn, unseen) = (of(&learn), of(&unseen));
    assert!(learn.len() >= 3 && !unseen.is_empty(), "{} and {}", learn.len(), unseen.len());
    let learned = rule(&learn, 0, 1000);
    let compared = compare(&unseen, &mut LookAhead::new(learned.rule));
    assert!(compared.learned < compared.critical, "{compared:?}");
}

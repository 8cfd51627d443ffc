//! Files of learned policies: they round-trip, and invalid files are rejected.

use edbatch_graph::{Dag, Kind, PlainDag, Schedule, parse_text};
use edbatch_policy::{
    ChoiceError, Comparison, Critical, Encoding, FileError, Fsm, Learned, LearnedContent,
    LearningConfig, LookAhead, Outcome, PairRule, Policy, PolicyChoice, RuleOutcome, Symbol,
    TrainingSet, learn, schedule,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::support;

fn learned(dag: &PlainDag, encoding: Encoding) -> Learned {
    let config = LearningConfig::new(10);
    let dags = std::slice::from_ref(dag);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let set = TrainingSet::new(dags, &[]).unwrap();
    let outcome = learn(&set, encoding, &config, &mut rng, |_| ());
    Learned::table(&outcome, encoding, dag.kind_names(), "a random graph", 1)
}

proptest! {
    #[test]
    fn files_round_trip(dag in support::dags(40, 4)) {
        for encoding in Encoding::all() {
            let written = learned(&dag, encoding);
            let text = written.to_json();
            let read = Learned::from_json(&text).unwrap();
            prop_assert_eq!(&read, &written);
            prop_assert_eq!(read.to_json(), text);
            let LearnedContent::Table(_, table) = read.content() else { panic!("a table") };
            let expected = schedule(&dag, &mut Fsm::of(table, encoding, dag.kinds()));
            prop_assert_eq!(schedule(&dag, &mut read.open(dag.kind_names()).unwrap()), expected);
        }
    }

    /// A policy makes the same choices if the kinds are renumbered. (The encoding is the one
    /// without ties, which go to the smallest kind.)
    #[test]
    fn policies_do_not_depend_on_the_numbers_of_kinds(dag in support::dags(40, 4)) {
        let renumbered = Renumbered(&dag);
        let names: Vec<_> = dag.kind_names().iter().rev().collect();
        let learned = learned(&dag, Encoding::Base);
        let LearnedContent::Table(encoding, table) = learned.content() else { panic!("a table") };
        let mut here = Fsm::of(table, *encoding, dag.kinds());
        let mut there = learned.open(&names).unwrap();
        let kinds = |schedule: Schedule| -> Vec<_> {
            schedule.batches().map(|batch| batch.nodes.to_vec()).collect()
        };
        let here_nodes = kinds(schedule(&dag, &mut here));
        let there_nodes = kinds(schedule(&renumbered, &mut there));
        if here.unseen() == 0 {
            prop_assert_eq!(here_nodes, there_nodes);
        }
    }

    #[test]
    fn random_text_is_rejected(text in ".{0,200}") {
        prop_assert!(Learned::from_json(&text).is_err());
    }
}

/// A graph with the numbers of its kinds in reverse order.
struct Renumbered<'a>(&'a PlainDag);

impl Dag for Renumbered<'_> {
    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    fn kinds(&self) -> usize {
        self.0.kinds()
    }

    fn kind(&self, node: edbatch_graph::NodeId) -> Kind {
        Kind::new(self.kinds() - 1 - self.0.kind(node).index())
    }

    fn arguments(&self, node: edbatch_graph::NodeId) -> edbatch_graph::Arguments<'_> {
        self.0.arguments(node)
    }
}

const FILE: &str = r#"{"format": "edbatch-policy", "version": 1, "kinds": ["leaf", "inner"],
    "encoding": "base",
    "trained": {"on": "x", "mini_batches": 1, "episodes": 1, "batches": 2, "bound": 2},
    "states": [{"state": ["leaf"], "run": "leaf"}, {"state": ["inner"], "run": "inner"}]}"#;

/// Files written by version 0.2 of this crate.
#[test]
fn existing_files_are_read_and_written_byte_by_byte() {
    let trained = r#"  "trained": {
    "on": "x",
    "mini_batches": 1,
    "episodes": 1,
    "batches": 2,
    "bound": 2
  },"#;
    let table = r#"{
  "format": "edbatch-policy",
  "version": 1,
  "kinds": [
    "leaf"
  ],
  "encoding": "phase",
TRAINED
  "states": [
    {
      "state": [
        3,
        "leaf"
      ],
      "run": "leaf"
    }
  ]
}
"#;
    let rule = r#"{
  "format": "edbatch-policy",
  "version": 2,
  "kinds": [
    "leaf"
  ],
  "encoding": "pairs",
TRAINED
  "rule": {
    "power": 8,
    "lowering": null,
    "second": 0.9
  },
  "states": [
    {
      "state": [
        "leaf",
        "leaf"
      ],
      "weight": 1.25
    }
  ]
}
"#;
    for text in [table, rule].map(|text| text.replace("TRAINED", trained)) {
        assert_eq!(Learned::from_json(&text).unwrap().to_json(), text);
    }
}

/// Checks the error of a file with one text replaced by another.
fn check(file: &str, from: &str, to: &str, expected: &str) {
    assert!(file.contains(from), "{from}");
    let error = Learned::from_json(&file.replacen(from, to, 1)).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn invalid_tables_are_rejected_with_a_reason() {
    let check = |from: &str, to: &str, expected: &str| check(FILE, from, to, expected);
    assert!(Learned::from_json(FILE).is_ok());
    check(FILE, "", "EOF");
    check(FILE, &"[".repeat(100_000), "invalid type");
    check("edbatch-policy", "elf", "expected \"format\": \"edbatch-policy\"");
    check(
        "\"version\": 1",
        "\"version\": 9",
        "expected \"version\": 1 or 2, got 9: learn it again",
    );
    check("\"version\": 1,", "", "expected \"version\": 1 or 2, got none");
    check("\"version\": 1", "\"version\": 2", "invalid length 1, expected an array of length 2");
    check("\"base\"", "\"vase\"", "unknown encoding `vase`");
    check("\"leaf\", \"inner\"", "\"leaf\", \"leaf\"", "`leaf` is listed twice");
    check("\"run\": \"inner\"", "\"run\": \"root\"", "state 1: `root` is not among the kinds");
    check("[\"inner\"]", "[7]", "state 1: the encoding has no feature 7");
    check("[\"inner\"]", "[-7]", "did not match");
    check("\"run\": \"inner\"", "\"run\": \"inner\", \"walk\": 1", "unknown field `walk`");
}

#[test]
fn huge_tables_are_rejected_before_they_are_allocated() {
    let kinds: Vec<_> = (0..60_000).map(|kind| format!("\"{kind}\"")).collect();
    let state = format!("[{}]", kinds.join(","));
    let text = FILE
        .replacen("[\"leaf\", \"inner\"]", &state, 1)
        .replacen("[\"leaf\"]", &state, 1)
        .replacen("[\"inner\"]", "[]", 1)
        .replace("\"leaf\"", "\"1\"")
        .replace("\"inner\"", "\"1\"");
    assert_eq!(Learned::from_json(&text).unwrap_err(), FileError::TooLarge);
}

#[test]
fn unknown_and_missing_kinds_are_named() {
    let learned = Learned::from_json(FILE).unwrap();
    assert!(learned.open(&["inner", "leaf"]).is_ok());
    let error = learned.open(&["leaf", "output"]).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the policy was learned for other kinds; it does not know `output`; the graph lacks `inner`"
    );
}

const RULE: &str = r#"{"format": "edbatch-policy", "version": 2, "kinds": ["leaf", "inner"],
    "encoding": "pairs",
    "trained": {"on": "x", "mini_batches": 1, "episodes": 1, "batches": 2, "bound": 2},
    "rule": {"power": 8, "lowering": 1.25, "second": 0.9},
    "states": [{"state": ["leaf", "inner"], "weight": 1.5},
    {"state": ["inner", "inner"], "weight": 0.75}]}"#;

#[test]
fn invalid_rules_are_rejected_with_a_reason() {
    let check = |from: &str, to: &str, expected: &str| check(RULE, from, to, expected);
    assert!(matches!(Learned::from_json(RULE).unwrap().content(), LearnedContent::Rule(_)));
    assert!(matches!(Learned::from_json(FILE).unwrap().content(), LearnedContent::Table(..)));
    check("\"version\": 2", "\"version\": 1", "unknown field `weight`");
    check(
        "\"rule\": {\"power\": 8, \"lowering\": 1.25, \"second\": 0.9},",
        "",
        "missing field `rule`",
    );
    check("\"pairs\"", "\"pears\"", "expected \"encoding\": \"pairs\", got `pears`");
    check("\"pairs\"", "\"critical:soft\"", "\"pairs\", got `critical:soft`");
    check("\"leaf\", \"inner\"", "\"leaf\", \"leaf\"", "`leaf` is listed twice");
    check(
        "[\"inner\", \"inner\"]",
        "[\"inner\", \"root\"]",
        "state 1: `root` is not among the kinds",
    );
    check("[\"inner\", \"inner\"]", "[\"inner\"]", "invalid length 1");
    check("\"power\": 8", "\"power\": 99", "expected \"power\" from 0 to 24, got 99");
    check("\"power\": 8", "\"power\": -8", "invalid value");
    check("1.25", "1e300", "expected \"lowering\" from 0 to 1000000");
    check("0.75", "-0.75", "expected \"weight\" from 0 to 1000000, got -0.75");
    check("0.75", "NaN", "expected value");
    check("\"weight\": 1.5", "\"weight\": 1.5, \"wait\": 1", "unknown field `wait`");
}

proptest! {
    #[test]
    fn rules_round_trip(
        dag in support::dags(40, 2),
        power in 0_u32..=24,
        lowering in prop::option::of(0..400),
        weight in 0..100_000_000,
    ) {
        // Learned constants are hundredths.
        let lowering = lowering.map(|hundredths| f64::from(hundredths) / 100.0);
        let weight = f64::from(weight) / 100.0;
        let rule = PairRule {
            power,
            lowering,
            second: 0.5,
            weights: vec![(Kind(0), Kind(1), weight), (Kind(1), Kind(1), 2.0)],
        };
        let (episodes, mini_batches, held_out) = (7, 1, Comparison::default());
        let outcome = RuleOutcome { rule: Some(rule.clone()), episodes, mini_batches, held_out };
        let written = Learned::rule(&outcome, dag.kind_names(), "random graphs");
        let read = Learned::from_json(&written.to_json()).unwrap();
        prop_assert_eq!(&read, &written);
        prop_assert_eq!(read.content(), &LearnedContent::Rule(rule.clone()));
        let by = |weights| LookAhead::new(PairRule { weights, ..rule.clone() });
        let expected = schedule(&dag, &mut by(rule.weights.clone()));
        prop_assert_eq!(expected.check(&dag), Ok(()));
        prop_assert_eq!(&schedule(&dag, &mut read.open(dag.kind_names()).unwrap()), &expected);
        let renumbered: Vec<_> = dag.kind_names().iter().rev().collect();
        let there = schedule(&Renumbered(&dag), &mut read.open(&renumbered).unwrap());
        prop_assert_eq!(there.check(&Renumbered(&dag)), Ok(()));
        let weights = vec![(Kind(1), Kind(0), weight), (Kind(0), Kind(0), 2.0)];
        prop_assert_eq!(there, schedule(&Renumbered(&dag), &mut by(weights)));
        // A pair with an unknown kind has weight 1.
        let mut known = read.open_where_known(&["kind 1", "unknown"]);
        let weights = vec![(Kind(0), Kind(0), 2.0)];
        prop_assert_eq!(schedule(&dag, &mut known), schedule(&dag, &mut by(weights)));
        prop_assert!(read.open(&["kind 1", "unknown"]).is_err());
    }

    /// A damaged file is rejected, or still makes valid schedules.
    #[test]
    fn damaged_files_never_panic(at in any::<prop::sample::Index>(), with in "[ -~]{0,3}") {
        let dag = parse_text("4\n0 0\n0 1 0\n1 1 0\n1 1 1\n").unwrap();
        for mut text in [learned(&dag, Encoding::Max).to_json(), RULE.into()] {
            let at = at.index(text.len());
            text.replace_range(at..=at, &with);
            if let Ok(learned) = Learned::from_json(&text) {
                for kinds in [["0", "1"], ["leaf", "inner"]] {
                    let schedule = schedule(&dag, &mut learned.open_where_known(&kinds));
                    prop_assert_eq!(schedule.check(&dag), Ok(()));
                }
            }
        }
    }
}

/// The file names the best unlearned policy, and is opened as that policy.
#[test]
fn rule_that_is_not_better_is_not_written() {
    let dag = support::summed_lattices(0, 8);
    for (best, policy) in ["critical", "critical:pair", "critical:soft"].into_iter().enumerate() {
        let [critical, pair, soft] = [0, 1, 2].map(|policy| 9 - usize::from(policy == best));
        let held_out = Comparison { critical, pair, soft, learned: 8, ..Comparison::default() };
        let outcome = RuleOutcome { rule: None, episodes: 7, mini_batches: 1, held_out };
        let text = Learned::rule(&outcome, dag.kind_names(), "lattices").to_json();
        for part in [&format!("\"encoding\": \"{policy}\""), "\"states\": []", "\"batches\": 8,"] {
            assert!(text.contains(part) && !text.contains("\"rule\""), "{part}: {text}");
        }
        let read = Learned::from_json(&text).unwrap();
        assert_eq!(read.to_json(), text);
        assert_eq!(read.trained().unlearned[policy], 8);
        let choice: PolicyChoice = policy.parse().unwrap();
        assert_eq!(read.content(), &LearnedContent::Unlearned(choice.clone()));
        let expected = schedule(&dag, &mut choice.open(dag.kind_names()).unwrap());
        assert_eq!(schedule(&dag, &mut read.open(dag.kind_names()).unwrap()), expected);
    }
}

/// The table runs a kind that is not ready.
#[test]
fn critical_decides_where_a_table_is_invalid_or_has_unknown_kinds() {
    let dag = parse_text("4\n0 0\n1 1 0\n5 1 1\n5 1 0\n").unwrap();
    let outcome = Outcome {
        table: vec![(vec![Symbol::Kind(Kind(0))], Kind(1))],
        episodes: 0,
        before: 0,
        after: 0,
        bound: 0,
    };
    let by_critical = schedule(&dag, &mut Critical::new());
    let mut fsm = outcome.fsm(Encoding::Base, dag.kinds());
    assert_eq!(schedule(&dag, &mut fsm), by_critical);
    assert_eq!(fsm.unseen(), by_critical.len());
    let learned = Learned::table(&outcome, Encoding::Base, &["0", "1"], "nothing", 0);
    let mut policy = learned.open_where_known(dag.kind_names());
    assert_eq!(schedule(&dag, &mut policy), by_critical);
    assert_eq!(policy.unseen(), Some(by_critical.len()));
}

#[test]
fn names_and_files_open_policies() {
    let dag = parse_text("4\n0 0\n1 1 0\n5 1 1\n5 1 0\n").unwrap();
    let path = std::env::temp_dir().join(format!("edbatch-policy-{}.json", std::process::id()));
    std::fs::write(&path, FILE).unwrap();
    let words = ["depth", "agenda", "sufficient", "critical", "critical:pair", "critical:soft"];
    let searches = ["beam:2", "beam:2:0.5", "exact", "exact:2"];
    for word in words.into_iter().chain(searches) {
        let choice = word.parse::<PolicyChoice>().unwrap();
        assert_eq!(choice.to_string(), word);
        let mut policy = choice.open(dag.kind_names()).unwrap();
        assert_eq!(schedule(&dag, &mut policy).check(&dag), Ok(()), "{word}");
    }
    let file: PolicyChoice = path.to_str().unwrap().parse().unwrap();
    let mut policy = file.open_where_known(dag.kind_names()).unwrap();
    assert_eq!(schedule(&dag, &mut policy).check(&dag), Ok(()));
    assert!(file.open(&["leaf", "inner"]).is_ok());
    let error = |choice: &PolicyChoice| choice.open(dag.kind_names()).err().unwrap().to_string();
    assert!(error(&file).contains("learned for other kinds"), "{}", error(&file));
    std::fs::remove_file(&path).unwrap();
    assert!(error(&file).contains("No such file"), "{}", error(&file));
}

#[test]
fn invalid_names_are_rejected_with_a_reason() {
    let error = |word: &str| word.parse::<PolicyChoice>().unwrap_err();
    assert_eq!(error(""), ChoiceError::Empty);
    for word in ["beam:0", "beam:x", "beam:", "beam:-3:1"] {
        assert_eq!(error(word), ChoiceError::Width(word.into()));
    }
    for word in ["beam:3:", "beam:3:0", "exact:-1", "exact:inf", "exact:NaN"] {
        assert_eq!(error(word), ChoiceError::Seconds(word.into()));
    }
    assert_eq!(
        error("critical:pear").to_string(),
        "expected critical, critical:pair or critical:soft, got `critical:pear`"
    );
    assert_eq!("c:/p.json".parse(), Ok(PolicyChoice::File("c:/p.json".into())));
}

/// The fuzzer found a weight that changed when it was written and read again.
#[test]
fn constants_of_a_rule_round_trip_exactly() {
    let many =
        "1.0666666666666666666666666666666666666666666666666666666666666666666666666666666666";
    for digits in [many, "1.0666666666666667", "0.1", "2.2250738585072011e-308"] {
        assert!(RULE.contains("0.75"));
        let text = RULE.replacen("0.75", digits, 1);
        let read = Learned::from_json(&text).unwrap();
        let LearnedContent::Rule(rule) = read.content() else { panic!("a rule") };
        let expected: f64 = digits.parse().unwrap();
        assert!(rule.weights.iter().any(|&(.., weight)| weight == expected), "{digits}");
        assert_eq!(Learned::from_json(&read.to_json()).unwrap(), read);
    }
}

//! Learned policies as files: what is written is read, what is hostile is refused.

use edbatch_graph::{Dag, Kind, PlainDag, Schedule, parse_text};
use edbatch_policy::{
    Critical, FileError, Learned, LearningConfig, NamedEncoding, Outcome, Policy, PolicyChoice,
    Symbol, TrainingSet, learn, schedule,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::support;

fn learned(dag: &PlainDag, encoding: &NamedEncoding) -> Learned {
    let config = LearningConfig { episodes: 10, ..LearningConfig::default() };
    let dags = std::slice::from_ref(dag);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let set = TrainingSet::new(dags, &[]).unwrap();
    let outcome = learn(&set, encoding, &config, &mut rng, |_| ());
    Learned::new(&outcome, encoding.clone(), dag.kind_names(), "a random graph", 1)
}

proptest! {
    #[test]
    fn files_round_trip(dag in support::dags(40, 4)) {
        for encoding in NamedEncoding::all() {
            let written = learned(&dag, &encoding);
            let text = written.to_json();
            let read = Learned::from_json(&text).unwrap();
            prop_assert_eq!(read.to_json(), text);
            let by = |learned: &Learned| {
                schedule(&dag, &mut learned.fsm(dag.kind_names()).unwrap())
            };
            prop_assert_eq!(by(&read), by(&written));
        }
    }

    /// Kinds go by their names: in another order the same policy runs the same kinds. (But for
    /// ties, which go to the smallest kind; so the states are those of the encoding without any.)
    #[test]
    fn the_order_of_kinds_does_not_matter(dag in support::dags(40, 4)) {
        let turned = Turned(&dag);
        let names: Vec<_> = dag.kind_names().iter().rev().collect();
        let learned = learned(&dag, &NamedEncoding::Base);
        let mut here = learned.fsm(dag.kind_names()).unwrap();
        let mut there = learned.fsm(&names).unwrap();
        let kinds = |schedule: Schedule| -> Vec<_> {
            schedule.batches().map(|batch| batch.nodes.to_vec()).collect()
        };
        let here_nodes = kinds(schedule(&dag, &mut here));
        let there_nodes = kinds(schedule(&turned, &mut there));
        if here.unseen() == 0 {
            prop_assert_eq!(there.unseen(), 0);
            prop_assert_eq!(here_nodes, there_nodes);
        }
    }

    #[test]
    fn noise_is_refused(text in ".{0,200}") {
        prop_assert!(Learned::from_json(&text).is_err());
    }

    /// A file damaged at random is refused, or still makes legal schedules.
    #[test]
    fn damage_never_panics(at in any::<prop::sample::Index>(), with in "[ -~]{0,3}") {
        let dag = parse_text("4\n0 0\n0 1 0\n1 1 0\n1 1 1\n").unwrap();
        let mut text = learned(&dag, &NamedEncoding::Max).to_json();
        let at = at.index(text.len());
        text.replace_range(at..=at, &with);
        if let Ok(learned) = Learned::from_json(&text) {
            let schedule = schedule(&dag, &mut learned.fsm_where_known(dag.kind_names()));
            prop_assert_eq!(schedule.check(&dag), Ok(()));
        }
    }
}

/// A graph whose kinds are numbered from the other end.
struct Turned<'a>(&'a PlainDag);

impl Dag for Turned<'_> {
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
    "encoding": "base", "trained": {"on": "x", "mini_batches": 1, "episodes": 1, "batches": 2, "bound": 2},
    "states": [{"state": ["leaf"], "run": "leaf"}, {"state": ["inner"], "run": "inner"}]}"#;

#[test]
fn errors_say_what_is_wrong() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(FILE.contains(from), "{from}");
        let error = Learned::from_json(&FILE.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    assert!(Learned::from_json(FILE).is_ok());
    check(FILE, "", "EOF");
    check(FILE, &"[".repeat(100_000), "invalid type");
    check("edbatch-policy", "elf", "expected \"format\": \"edbatch-policy\"");
    check("\"version\": 1", "\"version\": 9", "expected \"version\": 1, got 9");
    check("\"version\": 1,", "", "expected \"version\": 1");
    check("\"base\"", "\"vase\"", "unknown encoding `vase`");
    check("\"leaf\", \"inner\"", "\"leaf\", \"leaf\"", "`leaf` is named twice");
    check("\"run\": \"inner\"", "\"run\": \"root\"", "state 1: `root` is not among the kinds");
    check("[\"inner\"]", "[7]", "state 1: the encoding has no feature 7");
    check("[\"inner\"]", "[-7]", "did not match");
    check("\"run\": \"inner\"", "\"run\": \"inner\", \"walk\": 1", "unknown field `walk`");
}

#[test]
fn absurd_tables_are_refused_before_they_are_made() {
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
fn other_kinds_are_named() {
    let learned = Learned::from_json(FILE).unwrap();
    assert!(learned.fsm(&["inner", "leaf"]).is_ok());
    let error = learned.fsm(&["leaf", "output"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the policy was learned for other kinds; it does not know `output`; the graph lacks `inner`"
    );
}

/// A table that runs a kind which is not ready, and states with unknown kinds: both go to Critical.
#[test]
fn nonsense_and_unknown_kinds_fall_to_critical() {
    let dag = parse_text("4\n0 0\n1 1 0\n5 1 1\n5 1 0\n").unwrap();
    let outcome = Outcome {
        table: vec![(vec![Symbol::Kind(Kind(0))], Kind(1))],
        episodes: 0,
        before: 0,
        after: 0,
        bound: 0,
    };
    let learned = Learned::new(&outcome, NamedEncoding::Base, &["0", "1"], "nothing", 0);
    let mut fsm = learned.fsm_where_known(dag.kind_names());
    let by_fsm = schedule(&dag, &mut fsm);
    assert_eq!(by_fsm, schedule(&dag, &mut Critical::new()));
    assert_eq!(fsm.unseen(), by_fsm.len());
    // A policy is an object, too.
    let object: &mut dyn Policy = &mut fsm;
    assert_eq!(schedule(&dag, object), by_fsm);
}

#[test]
fn a_choice_opens_a_policy() {
    let dag = parse_text("4\n0 0\n1 1 0\n5 1 1\n5 1 0\n").unwrap();
    let path = std::env::temp_dir().join(format!("edbatch-policy-{}.json", std::process::id()));
    std::fs::write(&path, FILE).unwrap();
    for word in ["depth", "agenda", "sufficient", "critical", "beam:2"] {
        let mut policy = word.parse::<PolicyChoice>().unwrap().open(dag.kind_names()).unwrap();
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

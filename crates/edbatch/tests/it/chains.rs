//! Rows that are the argmax of a value of the same graph, and decoders whose steps share a graph.

use std::sync::Arc;

use edbatch::models::{Build, LstmNmt, Model, NmtSizes, SourceSentence, Stop};
use edbatch::{Engine, EngineOptions, Rows, RunOptions, Trainer};
use edbatch_graph::{Graph, Kind, Network, Row, Shape, Value};
use edbatch_layout::{CellStyle, Lifetimes, Lookup, MiniBatch, Plan, Planner, Program, check};
use edbatch_policy::schedule;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, Cpu, Given, Parameters, Part, Precision, ThreadPool, initial_values, interpret,
};
use edbatch_testing::{STYLES, Subject, cases, chained, every_value, planned, policies, resolved};

use crate::fn_model::{FnModel, random};

/// All ways to run a graph have the bits of the same graph with indices.
#[test]
fn looked_up_rows_are_those_of_the_indices() {
    for seed in 0..u64::from(cases(24)) {
        let mut subject = chained(seed);
        let ways = STYLES.map(|style| (style, 0));
        let folded = [u64::MAX, 400].map(|bytes| (CellStyle::Hoisted, bytes));
        let mut first = None;
        for (style, folded) in ways.into_iter().chain(folded) {
            let program = Program::new(subject.network.clone(), style).unwrap();
            let program = Arc::new(program.fold_tables(folded));
            for (name, mut policy) in policies() {
                subject.schedule = schedule(&subject.graph, &mut policy);
                subject.schedule.check(&subject.graph).unwrap();
                let got = run(&subject, &program);
                let known = first.get_or_insert_with(|| got.clone());
                assert!(*known == got, "seed {seed}, {style:?}, {name}: other bits");
            }
        }
        let bits = first.unwrap();
        let plain = resolved(&subject, &bits);
        let (network, parameters) = (&subject.network, &subject.parameters);
        let given = initial_values(network, parameters);
        let reference = |graph| interpret(graph, parameters, &given, Precision::F32);
        assert_eq!(reference(&subject.graph), reference(&plain), "seed {seed}: the interpreter");
        subject.graph = plain;
        subject.schedule = schedule(&subject.graph, &mut edbatch_policy::Critical::new());
        let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
        assert!(run(&subject, &Arc::new(program)) == bits, "seed {seed}: indices");
    }
}

/// Runs a subject on the CPU with rows that are reused, and with distinct ones.
fn run(subject: &Subject, program: &Arc<Program>) -> Vec<u32> {
    let cpu = Cpu::new(program.clone(), &subject.parameters, Level::detect(), Precision::F32);
    let mut cpu = cpu.unwrap().with_pool(ThreadPool::new(2));
    let bits = subject.run(program, &mut cpu).unwrap();
    let wanted = every_value(&subject.graph);
    let (graph, schedule) = (&subject.graph, &subject.schedule);
    let mini_batch = MiniBatch { program, graph, schedule, wanted: &wanted };
    // If only the last value is wanted, the rows of others are reused.
    let last = MiniBatch { wanted: &wanted[wanted.len() - 1..], ..mini_batch };
    let given = Given { initial: &subject.initial, places: &[], host: &[] };
    let plans = [
        planned(&mut Planner::new(Lifetimes::Distinct), &mini_batch),
        planned(&mut Planner::default().block(1), &mini_batch),
        planned(&mut Planner::default(), &last),
    ];
    for plan in plans {
        cpu.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
        let outputs = cpu.outputs(0, &plan);
        let fields = (0..plan.wanted.len()).flat_map(|value| outputs.fields(value)).flatten();
        let got: Vec<u32> = fields.map(|x| x.to_bits()).collect();
        assert!(got == bits[bits.len() - got.len()..], "the bits depend on the plan");
    }
    bits
}

const SIZES: NmtSizes = NmtSizes { source: 9, target: 11, embed: 4, hidden: 5 };

fn sentences() -> Vec<SourceSentence> {
    let stop = |index: u32| match index % 4 {
        0 => Stop::After(index as usize % 7),
        _ => Stop::AtEnd,
    };
    let words = |index: u32| (0..index % 6).map(|word| (word * index) % 9).collect();
    (0..40).map(|index| SourceSentence { words: words(index), stop: stop(index) }).collect()
}

/// The number of steps of a sentence at most.
fn most_steps(sentence: &SourceSentence) -> usize {
    match &sentence.stop {
        Stop::After(steps) => *steps,
        _ => 2 * sentence.words.len() + 10,
    }
}

/// The steps that a chain computes after the end of a sentence.
pub(crate) fn dropped(sentence: &SourceSentence, steps: usize, chain: usize) -> u64 {
    (steps.next_multiple_of(chain).min(most_steps(sentence)) - steps) as u64
}

#[test]
fn translations_in_chains_are_those_of_single_steps() {
    let (model, sentences) = (LstmNmt::new(SIZES).unwrap(), sentences());
    for seed in 0..4 {
        let parameters = random(model.network(), seed);
        let engine =
            |options| Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
        let mut single = engine(EngineOptions::new());
        let expected = single.run(&sentences).unwrap();
        assert_eq!(single.statistics().dropped_steps, 0);
        let ends = expected.iter().zip(&sentences).filter(|(rows, of)| rows.len() < most_steps(of));
        let ends = ends.count();
        for chain in [0, 1, 2, 3, 8, 100] {
            let options = EngineOptions::new().chain(chain);
            let folded = EngineOptions::new().chain(chain).fold_tables(u64::MAX).threads(2);
            for mut engine in [engine(options), engine(folded)] {
                assert!(engine.run(&sentences).unwrap() == expected, "chains of {chain}");
                let chain = chain.max(1);
                let lengths = expected.iter().map(Rows::len).zip(&sentences);
                let expected = lengths.map(|(steps, of)| dropped(of, steps, chain)).sum::<u64>();
                assert_eq!(engine.statistics().dropped_steps, expected, "chains of {chain}");
                assert!(chain == 1 || ends == 0 || expected > 0, "{ends} sentences have an end");
            }
            let words = engine(EngineOptions::new().chain(chain))
                .run_each_arg_max(&sentences, &RunOptions::new())
                .unwrap();
            for (rows, words) in expected.iter().zip(words) {
                let of_rows: Vec<u32> = rows.iter().map(edbatch::models::arg_max).collect();
                assert_eq!(words, Ok(of_rows), "chains of {chain}");
            }
        }
    }
}

/// A graph for the source and the first steps, then one for each further chain.
#[test]
fn a_chain_is_one_graph() {
    let (model, sentence) = (LstmNmt::new(SIZES).unwrap(), |steps| SourceSentence {
        words: vec![3, 4],
        stop: Stop::After(steps),
    });
    let parameters = random(model.network(), 1);
    for (steps, chain) in [(1, 8), (8, 8), (9, 8), (17, 8), (17, 3), (17, 1)] {
        let options = EngineOptions::new().chain(chain);
        let mut engine = Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
        engine.run(&[sentence(steps)]).unwrap();
        // The last round runs nothing, and only ends the input.
        let graphs = engine.statistics().graphs as usize;
        assert_eq!(graphs, steps.div_ceil(chain) + 1, "{steps} steps, {chain} a graph");
    }
}

/// All scores are equal, so each word is the first.
#[test]
fn equal_scores_choose_the_first_word_in_chains_too() {
    let model = LstmNmt::new(SIZES).unwrap();
    let declared = model.network().parameters().iter();
    let zeros = declared.map(|parameter| vec![0.0; parameter.dims.iter().product()]);
    let parameters = Parameters::from_values(model.network(), zeros.collect()).unwrap();
    let sentence = SourceSentence { words: vec![1], stop: Stop::AtEnd };
    for chain in [1, 8] {
        let options = EngineOptions::new().chain(chain);
        let mut engine = Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
        let options = RunOptions::new();
        let words = engine.run_each_arg_max(std::slice::from_ref(&sentence), &options).unwrap();
        assert_eq!(words, [Ok(vec![0; 12])], "chains of {chain}");
    }
}

/// Five scores, a value of two fields with nine elements, and a cell that reads a table of five
/// rows.
fn scored() -> (Network, Value, [Kind; 2]) {
    let mut network = Network::new();
    let scores = network.record("scores", [("y", Shape::Vector(5))]).unwrap();
    let pair = [("y", Shape::Vector(5)), ("z", Shape::Vector(4))];
    let pair = network.record("pair", pair).unwrap();
    let start = network.initial(pair, &["y", "z"]).unwrap();
    let word = network.cell("word", scores, |cell| vec![cell.lookup("word", "next", &[5, 5])]);
    let both = network.cell("both", pair, |cell| {
        let [y] = cell.one("scores", scores);
        vec![y, cell.parameter("v", &[4, 5]).matmul(y)]
    });
    let kinds = [word.unwrap(), both.unwrap()];
    (network, start, kinds)
}

#[test]
fn argmaxes_that_do_not_fit_are_errors() {
    let (network, start, [word, both]) = scored();
    let network = Arc::new(network);
    let mut graph = Graph::new(network.clone());
    let first = graph.call(word, &[3], &[]).unwrap();
    let wide = graph.call(both, &[], &[first]).unwrap();
    let mut cleared = Graph::new(network);
    let old = cleared.call(word, &[3], &[]).unwrap();
    cleared.clear();
    let of = |graph: &mut Graph, cell, row, values: &[Value]| {
        let before = graph.clone();
        let error = graph.call_by(cell, &[row], values).unwrap_err();
        assert!(*graph == before, "{error}: the graph is unchanged");
        error.to_string()
    };
    let too_wide = "call of word: word: expected the argmax of at most 5 elements, as the table \
                    has 5 rows, got a value of 9";
    assert_eq!(of(&mut graph, word, Row::ArgMax(wide), &[]), too_wide);
    assert_eq!(of(&mut graph, word, Row::ArgMax(start), &[]), too_wide);
    let stale = of(&mut cleared, word, Row::ArgMax(old), &[]);
    assert!(stale.starts_with("call of word: word: expected a value of this graph"), "{stale}");
    let surplus = of(&mut graph, both, Row::ArgMax(first), &[first]);
    assert_eq!(surplus, "call of both: expected 0 rows of tables, got 1");
    let surplus = of(&mut graph, word, Row::ArgMax(first), &[first]);
    assert_eq!(surplus, "call of word: expected 0 values, got 1");
    assert_eq!(of(&mut graph, word, Row::Index(5), &[]), {
        graph.clone().call(word, &[5], &[]).unwrap_err().to_string()
    });
    assert!(of(&mut graph, Kind(9), Row::ArgMax(first), &[]).contains("does not exist"));
    // No record is without elements, so no argmax is over none.
    for shape in [Shape::Vector(0), Shape::Matrix(0, 3)] {
        assert!(Network::new().record("empty", [("y", shape)]).is_err());
    }
    assert!(Network::new().record("empty", []).is_err());
}

/// Looking up a row has no gradient.
#[test]
fn argmaxes_of_rows_are_not_trained() {
    let (network, _, [word, _]) = scored();
    let model = FnModel::new(network, move |build: &Build<'_>, words: &Vec<u32>| {
        let first = build.call(word, words, &[])?;
        build.emit(build.call_by(word, &[Row::ArgMax(first)], &[])?);
        Ok(())
    });
    let parameters = random(model.network(), 1);
    let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
    assert_eq!(engine.run(&[vec![2]]).unwrap()[0].len(), 1);
    let mut trainer = Trainer::new(model, parameters).unwrap();
    let error = trainer.accumulate(&[vec![2]], &[vec![Some(1)]], 1.0).unwrap_err();
    assert!(error.to_string().contains("has no gradient"), "{error}");
}

/// Each lookup with another value, entry, base, width or step is an error, and each that is missing
/// or there twice.
#[test]
fn a_wrong_lookup_is_an_error_of_check() {
    for (seed, lifetimes) in [(1, Lifetimes::Reuse), (2, Lifetimes::Distinct)] {
        let subject = chained(seed);
        let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
        let wanted = every_value(&subject.graph);
        let (graph, schedule) = (&subject.graph, &subject.schedule);
        let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &wanted };
        let plan = planned(&mut Planner::new(lifetimes), &mini_batch);
        assert!(plan.lookups.len() > 5);
        let wrong = |change: &dyn Fn(&mut Plan), what: &str| {
            let mut other = plan.clone();
            change(&mut other);
            assert!(check(&other, &mini_batch).is_err(), "{what} is accepted");
        };
        for index in 0..plan.lookups.len() {
            let with = |change: &dyn Fn(&mut Lookup), what| {
                wrong(&|plan| change(&mut plan.lookups[index]), what);
            };
            with(&|own| own.step += 1, "a later step");
            with(&|own| own.step = own.step.wrapping_sub(1), "an earlier step");
            with(&|own| own.entry = (own.entry + 1) % plan.rows.len() as u32, "another entry");
            with(&|own| own.entry = u32::MAX, "no entry");
            with(&|own| own.base += 1, "another base");
            with(&|own| own.width += 1, "another width");
            with(&|own| own.value.start += 16, "another value");
            with(&|own| own.value.start = u32::MAX, "no value");
            with(&|own| own.value.record.0 ^= 1, "another record");
            wrong(&|plan| _ = plan.lookups.remove(index), "a missing lookup");
            wrong(&|plan| plan.lookups.insert(index, plan.lookups[index]), "a second lookup");
        }
    }
}

#[cfg(feature = "cuda")]
mod on_devices {
    use edbatch::cuda::{Driver, EmulatedDevice};
    use edbatch_testing::skip;

    use super::*;
    use crate::emulated;

    /// Eight steps of a decoder are a launch.
    #[test]
    fn translations_of_a_device_are_those_of_the_cpu_in_few_launches() {
        if Level::detect() == Level::Portable {
            return skip("this level of the CPU rounds products");
        }
        let (model, sentences) = (LstmNmt::new(SIZES).unwrap(), sentences());
        let parameters = random(model.network(), 2);
        let mut cpu = Engine::new(model.clone(), parameters.clone()).unwrap();
        let expected = cpu.run(&sentences).unwrap();
        for (folded, threads) in [(0, 1), (u64::MAX, 1), (0, 3)] {
            let program = Program::new(model.network().clone(), CellStyle::Hoisted).unwrap();
            let program = Arc::new(program.fold_tables(folded));
            let device = EmulatedDevice::new(3);
            let backend = emulated::load(&device, program.clone(), &parameters, Driver::Teams);
            let Some(backend) = backend else { return };
            let options = EngineOptions::new().threads(threads);
            let mut engine =
                Engine::with_backend(model.clone(), &parameters, program, backend, options)
                    .unwrap();
            assert!(engine.run(&sentences).unwrap() == expected, "all at once");
            let of = |(rows, of): (&Rows, _)| dropped(of, rows.len(), 8);
            let all = expected.iter().zip(&sentences).map(of).sum::<u64>();
            assert_eq!(engine.statistics().dropped_steps, all);
            for (sentence, expected) in sentences.iter().zip(&expected).take(12) {
                let before = device.launches();
                assert!(engine.run(std::slice::from_ref(sentence)).unwrap()[0] == *expected);
                let launches = device.launches() - before;
                assert!(launches <= expected.len().div_ceil(8) as u64 + 1, "{launches} launches");
            }
        }
    }
}

//! `Engine::run_each_arg_max`: the index of the largest element of each row, without copying rows.
//! `goldens.rs` tests it with all models.

use edbatch::models::{Build, BuildError, Model, TreeLstm, TreeSizes, arg_max};
use edbatch::{Engine, EngineOptions, InputError, RunOptions};
use edbatch_graph::{Network, Shape};

use crate::fn_model::{FnModel, random};
use crate::small::{changed, indices, random_trees};

/// Emits a record of two fields, a vector and a matrix, for each number; fails at 7.
fn records() -> impl Model<Input = Vec<u32>> + Clone {
    let mut network = Network::new();
    let fields = [("v", Shape::Vector(3)), ("m", Shape::Matrix(2, 5))];
    let record = network.record("record", fields).unwrap();
    let cell = network.cell("cell", record, |cell| {
        let v = cell.lookup("row", "vectors", &[9, 3]);
        vec![v, cell.lookup("row again", "matrices", &[9, 2, 5]).scale(1.1)]
    });
    let cell = cell.unwrap();
    FnModel::new(network, move |build: &Build<'_>, rows: &Vec<u32>| {
        for &row in rows {
            if row == 7 {
                return Err(BuildError::Input("seven".into()));
            }
            build.emit(build.call(cell, &[row, row], &[])?);
        }
        Ok(())
    })
}

fn engine<M: Model>(model: M, options: EngineOptions) -> Engine<M> {
    let parameters = random(model.network(), 5);
    Engine::with_options(model, parameters, options).unwrap()
}

/// Returns the indices for all inputs. The memory of earlier results is reused.
fn arg_max_of<M: Model>(engine: &mut Engine<M>, inputs: &[M::Input]) -> Vec<Vec<u32>> {
    let mut results = vec![Ok(vec![9; 9]); 2];
    engine.run_each_arg_max_into(inputs, &RunOptions::new(), &mut results).unwrap();
    results.into_iter().map(Result::unwrap).collect()
}

#[test]
fn indices_count_the_elements_of_all_fields() {
    let inputs: Vec<Vec<u32>> = vec![vec![0, 1, 2], vec![], vec![3, 4, 5, 6, 8]];
    let mut engine = engine(records(), EngineOptions::new());
    let expected = indices(&engine.run(&inputs).unwrap());
    assert_eq!(arg_max_of(&mut engine, &inputs), expected);
    let all: Vec<u32> = expected.into_iter().flatten().collect();
    assert!(all.iter().any(|&index| index < 3) && all.iter().any(|&index| index > 3), "{all:?}");
}

#[test]
fn failed_input_does_not_affect_the_others() {
    let inputs: Vec<Vec<u32>> = (0..9).map(|i| vec![i, (i + 1) % 9]).collect();
    for threads in [1, 2] {
        let mut engine = engine(records(), EngineOptions::new().threads(threads));
        let cancelled = |input: usize| input != 3;
        let options = RunOptions::new().still_wanted(&cancelled);
        let got = engine.run_each_arg_max(&inputs, &options).unwrap();
        let rows = engine.run_each(&inputs, &options).unwrap();
        for (got, rows) in got.iter().zip(&rows) {
            match (got, rows) {
                (Ok(got), Ok(rows)) => {
                    assert_eq!(*got, rows.iter().map(arg_max).collect::<Vec<_>>())
                }
                (got, rows) => assert_eq!(got.as_ref().err(), rows.as_ref().err()),
            }
        }
        assert_eq!(got[3], Err(InputError::Cancelled));
        assert_eq!(got.iter().filter(|got| got.is_err()).count(), 3);
    }
}

/// Only the last row of the tables has elements that are not finite.
#[test]
fn inputs_with_outputs_that_are_not_finite_fail_if_only_finite_ones_are_accepted() {
    let model = records();
    let good = random(model.network(), 5);
    let inputs: Vec<Vec<u32>> = vec![vec![0, 1], vec![2, 8, 8, 3], vec![4]];
    for (table, element, value) in
        [(0, 24, f32::NAN), (1, 86, f32::INFINITY), (1, 80, f32::NEG_INFINITY)]
    {
        let parameters = changed(model.network(), &good, |values| values[table][element] = value);
        for threads in [1, 2] {
            let options = EngineOptions::new().threads(threads);
            let mut engine =
                Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
            let any = engine.run_each_arg_max(&inputs, &RunOptions::new()).unwrap();
            assert!(any.iter().all(Result::is_ok));
            let options = RunOptions::new().only_finite();
            let indices = engine.run_each_arg_max(&inputs, &options).unwrap();
            let rows = engine.run_each(&inputs, &options).unwrap();
            let failed = InputError::NotFiniteOutput { row: 1 };
            assert_eq!(indices[1].as_ref(), Err(&failed));
            assert_eq!(rows[1].as_ref(), Err(&failed));
            for input in [0, 2] {
                assert_eq!(indices[input], any[input]);
                let of_rows: Vec<u32> = rows[input].as_ref().unwrap().iter().map(arg_max).collect();
                assert_eq!(indices[input].as_ref(), Ok(&of_rows));
            }
        }
    }
}

fn trees() -> (TreeLstm, Vec<edbatch_datasets::Tree<u32>>) {
    let sizes = TreeSizes { vocabulary: 9, embed: 5, hidden: 13, classes: 5 };
    (TreeLstm::new(sizes).unwrap(), random_trees(16, 9, 1))
}

#[test]
fn divided_mini_batches_have_the_same_indices() {
    let (model, inputs) = trees();
    let mut alone = engine(model.clone(), EngineOptions::new());
    let expected = indices(&alone.run(&inputs).unwrap());
    for threads in 1..=3 {
        let mut engine = engine(model.clone(), EngineOptions::new().threads(threads));
        assert_eq!(engine.parts(&inputs).len(), threads);
        assert_eq!(arg_max_of(&mut engine, &inputs), expected);
    }
}

#[cfg(feature = "cuda")]
mod on_devices {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use edbatch::cuda::{CommandList, Driver, PhaseTable};
    use edbatch::models::{LstmNmt, NmtSizes, SourceSentence, Stop};
    use edbatch_layout::{CellStyle, Program};
    use edbatch_runtime::Part;

    use super::*;
    use crate::emulated;
    use crate::observed::Observed;

    /// Returns the number of bytes that a device copies to the host for whole rows, and for
    /// indices. Checks that the indices agree with the rows.
    fn bytes<M: Model>(model: M, inputs: &[M::Input]) -> Option<[usize; 2]> {
        let parameters = random(model.network(), 5);
        let program = Program::new(model.network().clone(), CellStyle::Hoisted).unwrap();
        let program = Arc::new(program);
        let backend = emulated::backend(program.clone(), &parameters, Driver::Teams)?;
        let bytes = Arc::new(AtomicUsize::new(0));
        let (own, count) = (program.clone(), bytes.clone());
        let before_run = move |parts: &[Part<'_>]| {
            for Part { plan, given, .. } in parts {
                let mut commands = CommandList::default();
                let rows = (given.initial.len(), given.places);
                commands.write(&own, &PhaseTable::new(&own), plan, rows).unwrap();
                let words = commands.outputs() + commands.indices();
                count.fetch_add(4 * words, Ordering::Relaxed);
            }
        };
        let lifetimes = backend.lifetimes();
        let counting = Observed { backend, limits: None, lifetimes, before_run };
        let options = EngineOptions::new();
        let engine = Engine::with_backend(model, &parameters, program, Box::new(counting), options);
        let mut engine = engine.unwrap();
        let rows = engine.run(inputs).unwrap();
        let of_rows = bytes.swap(0, Ordering::Relaxed);
        assert_eq!(arg_max_of(&mut engine, inputs), indices(&rows));
        Some([of_rows, bytes.load(Ordering::Relaxed)])
    }

    fn translator() -> (LstmNmt, Vec<SourceSentence>) {
        let sizes = NmtSizes { source: 9, target: 30, embed: 5, hidden: 13 };
        let sentence =
            |steps: usize| SourceSentence { words: vec![3; steps], stop: Stop::After(steps) };
        (LstmNmt::new(sizes).unwrap(), (1..20).map(sentence).collect())
    }

    #[test]
    fn an_index_leaves_a_device_for_each_row() {
        let (model, inputs) = trees();
        let nodes: usize = inputs.iter().map(edbatch_datasets::Tree::len).sum();
        let Some(trees) = bytes(model, &inputs) else { return };
        assert_eq!(trees, [4 * 5 * nodes, 4 * nodes]);
        // A decoder also awaits its indices. Each is copied once for both uses.
        let (model, inputs) = translator();
        let steps: usize = (1..20).sum();
        let Some(words) = bytes(model, &inputs) else { return };
        assert_eq!(words, [4 * (30 + 1) * steps, 4 * steps]);
    }
}

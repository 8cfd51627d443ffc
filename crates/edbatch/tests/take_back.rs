//! Outputs that are taken back, of the graph at hand and of earlier ones.

use std::sync::Arc;

use edbatch::{Engine, EngineOptions, Rows, interpret};
use edbatch_graph::{Kind, Network, Shape};
use edbatch_models::{Build, BuildError, Model};
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const ROWS: u32 = 9;

/// Does what its input says.
#[derive(Clone)]
struct Obedient {
    network: Arc<Network>,
    cell: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Emits a row of the table.
    Emit(u32),
    /// Ends a graph.
    Await,
    /// Takes so many outputs back.
    TakeBack(usize),
}

impl Obedient {
    fn new() -> Self {
        let mut network = Network::new();
        let record = network.record("record", [("v", Shape::Vector(3))]).unwrap();
        let dims = [ROWS as usize, 3];
        let cell = network.cell("cell", record, |cell| vec![cell.lookup("row", "table", &dims)]);
        Self { network: Arc::new(network), cell: cell.unwrap() }
    }
}

impl Model for Obedient {
    type Input = Vec<Act>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, acts: &Vec<Act>) -> Result<(), BuildError> {
        for &act in acts {
            match act {
                Act::Emit(row) => build.emit(build.call(self.cell, &[row], &[])?),
                Act::Await => {
                    let value = build.call(self.cell, &[0], &[])?;
                    let mut greatest = Vec::new();
                    let [] = build.arg_max_each(&[value, value], [], &mut greatest).await;
                    assert_eq!(greatest.len(), 2);
                    assert_eq!(greatest[0], greatest[1]);
                }
                Act::TakeBack(outputs) => build.take_back(outputs),
            }
        }
        Ok(())
    }
}

/// Something to do, and the rows that are left then.
fn random(rng: &mut Xoshiro256PlusPlus) -> (Vec<Act>, Vec<u32>) {
    let (mut acts, mut left) = (Vec::new(), Vec::new());
    for _ in 0..rng.random_range(0..30) {
        acts.push(match rng.random_range(0..5) {
            0..3 => {
                let row = rng.random_range(0..ROWS);
                left.push(row);
                Act::Emit(row)
            }
            3 => Act::Await,
            _ => {
                let outputs = rng.random_range(0..=left.len());
                left.truncate(left.len() - outputs);
                Act::TakeBack(outputs)
            }
        });
    }
    (acts, left)
}

fn parameters(model: &Obedient) -> Parameters {
    Parameters::random(model.network(), &mut Xoshiro256PlusPlus::seed_from_u64(2))
}

#[test]
fn what_is_taken_back_is_no_output() {
    let model = Obedient::new();
    let parameters = parameters(&model);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let (inputs, left): (Vec<_>, Vec<_>) = (0..300).map(|_| random(&mut rng)).unzip();
    let table = parameters.get(edbatch_graph::ParameterId(0));
    let rows = |rows: &Vec<u32>| {
        let mut expected = Rows::new();
        rows.iter().for_each(|&row| expected.push(&table[3 * row as usize..][..3]));
        expected
    };
    let expected: Vec<Rows> = left.iter().map(rows).collect();
    assert!(expected.iter().any(|rows| rows.len() > 5) && expected.iter().any(Rows::is_empty));
    assert_eq!(interpret(&model, &parameters, &inputs).unwrap().outputs, expected);
    for threads in [1, 3] {
        let options = EngineOptions::new().threads(threads);
        let engine = Engine::with_options(model.clone(), parameters.clone(), options);
        let mut engine = engine.unwrap();
        assert_eq!(engine.run(&inputs).unwrap(), expected);
        let lengths = engine.run_arg_max(&inputs).unwrap();
        assert!(lengths.iter().map(Vec::len).eq(left.iter().map(Vec::len)));
        let mut streamed = vec![Rows::new(); inputs.len()];
        let done = |number: usize, rows: Result<&mut Rows, _>| {
            streamed[number].clone_from(rows.unwrap());
        };
        engine.stream(7, &inputs, done).unwrap();
        assert_eq!(streamed, expected);
    }
}

#[test]
#[should_panic(expected = "3 outputs taken back, of 2")]
fn more_than_there_are_cannot_be_taken_back() {
    let model = Obedient::new();
    let parameters = parameters(&model);
    let acts = vec![Act::Emit(1), Act::Await, Act::Emit(2), Act::TakeBack(3)];
    let _ = Engine::new(model, parameters).unwrap().run(&[acts]);
}

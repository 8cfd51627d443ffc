//! Optimizers, rates, clipping and groups against `torch.optim`.
//!
//! `fixtures/optimizers.py` created the file with torch 2.15.0, in float64: gradients of a matrix,
//! a vector and rows of a table, and the parameters after 20 updates, three in each epoch.

use edbatch::models::Model;
use edbatch::{Group, Optimizer, Rate, TrainError, Trainer, TrainerOptions};
use edbatch_graph::{Kind, Network, Shape};
use edbatch_runtime::{Gradient, Gradients, Parameters, UpdateRule};
use safetensors::SafeTensors;

use crate::fn_model::word_model;

const FILE: &[u8] = include_bytes!("../fixtures/optimizers.safetensors");
pub(crate) const STEPS: usize = 20;
const EPOCH: usize = 3;

/// A cell with the parameters of the fixture.
pub(crate) struct Fixture {
    pub(crate) network: Network,
    pub(crate) cell: Kind,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let mut network = Network::new();
        let scores = network.record("scores", [("y", Shape::Vector(3))]).unwrap();
        let cell = network.cell("cell", scores, |cell| {
            let t = cell.lookup("row", "t", &[6, 3]);
            let b = cell.parameter("b", &[4]);
            vec![cell.parameter("w", &[3, 4]).matmul(b) + t]
        });
        Self { cell: cell.unwrap(), network }
    }

    pub(crate) fn start(&self) -> Parameters {
        let parameters = self.network.parameters().iter();
        let values = parameters.map(|it| floats(&format!("start/{}", it.name)));
        Parameters::from_values(&self.network, values.collect()).unwrap()
    }

    fn trainer(
        &self,
        options: TrainerOptions,
    ) -> Result<Trainer<impl Model<Input = Vec<u32>> + use<>>, TrainError> {
        let model = word_model(self.network.clone(), self.cell);
        Trainer::with_options(model, self.start(), options)
    }

    /// Returns the gradients of a step.
    pub(crate) fn gradients(&self, step: usize) -> Gradients {
        let parameters = self.network.parameters().iter().map(|parameter| {
            let all = floats(&format!("gradients/{}", parameter.name));
            let elements = all[step * all.len() / STEPS..][..all.len() / STEPS].to_vec();
            match parameter.name.as_str() {
                "t" => Gradient::Rows { rows: named(step), elements },
                _ => Gradient::Whole(elements),
            }
        });
        Gradients { parameters: parameters.collect() }
    }

    /// Makes all updates.
    fn updated(&self, options: TrainerOptions) -> Parameters {
        let mut trainer = self.trainer(options).unwrap();
        self.update(&mut trainer, 0..STEPS);
        trainer.parameters().unwrap()
    }

    pub(crate) fn update(&self, trainer: &mut Trainer<impl Model>, steps: std::ops::Range<usize>) {
        let losses = floats("losses");
        for step in steps {
            trainer.set_gradients(self.gradients(step)).unwrap();
            let norm = trainer.update().unwrap();
            let expected = self.gradients(step).squared_norm().sqrt();
            assert_eq!(norm, expected);
            if step % EPOCH == EPOCH - 1 {
                trainer.end_epoch(losses[step / EPOCH].into());
            }
        }
    }
}

fn file() -> SafeTensors<'static> {
    SafeTensors::deserialize(FILE).unwrap()
}

fn floats(name: &str) -> Vec<f32> {
    let tensor = file().tensor(name).unwrap();
    tensor.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// The rows of the table that a step names.
fn named(step: usize) -> Vec<u32> {
    let tensor = file().tensor("named").unwrap();
    let (all, _) = tensor.data().as_chunks();
    all[3 * step..][..3].iter().map(|&bytes| u32::from_le_bytes(bytes)).collect()
}

fn of(rule: UpdateRule, rate: f64) -> Optimizer {
    Optimizer { rule, ..Optimizer::sgd(rate) }
}

/// The cases of the fixture with their options here.
pub(crate) fn cases() -> Vec<(&'static str, TrainerOptions)> {
    let sgd =
        |momentum, dampening, nesterov| of(UpdateRule::Sgd { momentum, dampening, nesterov }, 0.1);
    let ada_grad = UpdateRule::AdaGrad { rate_decay: 0.1, initial: 0.3, epsilon: 1e-3 };
    let rms_prop = |alpha, epsilon, momentum, centered| {
        of(UpdateRule::RmsProp { alpha, epsilon, momentum, centered }, 0.01).decay(0.02)
    };
    let adam = |betas, epsilon, decoupled| of(UpdateRule::Adam { betas, epsilon, decoupled }, 0.02);
    let optimizers = [
        ("sgd", Optimizer::sgd(0.1)),
        ("sgd decay", Optimizer::sgd(0.1).decay(0.1)),
        ("sgd momentum", sgd(0.9, 0.0, false)),
        ("sgd nesterov", sgd(0.8, 0.0, true)),
        ("sgd dampening", sgd(0.9, 0.4, false).decay(0.05)),
        ("ada_grad", Optimizer::ada_grad(0.05)),
        ("ada_grad options", of(ada_grad, 0.05).decay(0.1)),
        ("rms_prop", Optimizer::rms_prop(0.01).decay(0.02)),
        ("rms_prop momentum", rms_prop(0.9, 1e-8, 0.9, false)),
        ("rms_prop centered", rms_prop(0.99, 1e-3, 0.0, true)),
        ("rms_prop both", rms_prop(0.99, 1e-8, 0.5, true)),
        ("adam", Optimizer::adam(0.02)),
        ("adam options", adam([0.8, 0.95], 1e-3, false).decay(0.1)),
        ("adam_w", Optimizer::adam_w(0.02)),
        ("adam_w options", adam([0.5, 0.9], 1e-2, true).decay(0.3)),
    ];
    let new = TrainerOptions::new;
    let optimizers = optimizers.into_iter().map(|(name, it)| (name, new().optimizer(it)));
    let mut cases: Vec<_> = optimizers.collect();
    let group = Group { factor: 0.1, decay: Some(0.5), ..Group::default() };
    cases.push(("groups", new().optimizer(Optimizer::adam_w(0.02)).group("b", group)));
    let sgd = || new().optimizer(Optimizer::sgd(0.1));
    cases.push(("clip_norm", sgd().clip_norm(3.0)));
    cases.push(("clip_value", sgd().clip_value(0.7)));
    let adam = || new().optimizer(Optimizer::adam(0.05));
    cases.push(("step", adam().rate(Rate::Step { every: 2, factor: 0.5 })));
    cases.push(("exponential", adam().rate(Rate::Exponential { factor: 0.8 })));
    cases.push(("cosine", adam().rate(Rate::Cosine { epochs: 6 })));
    cases.push(("plateau", adam().rate(Rate::Plateau { factor: 0.3, patience: 1 })));
    cases.push(("warm_up", adam().rate(Rate::Exponential { factor: 0.8 }).warm_up(5)));
    cases
}

#[test]
fn twenty_updates_equal_those_of_pytorch() {
    let fixture = Fixture::new();
    let mut compared = 0;
    let cases = cases();
    let names: Vec<&str> = cases.iter().map(|&(name, _)| name).collect();
    for (case, options) in cases {
        let updated = fixture.updated(options);
        for name in ["w", "b", "t"] {
            let Ok(tensor) = file().tensor(&format!("{case}/{name}")) else { continue };
            let (expected, _) = tensor.data().as_chunks();
            let expected: Vec<f64> = expected.iter().map(|&it| f64::from_le_bytes(it)).collect();
            let greatest = expected.iter().fold(0.0f64, |max, x| max.max(x.abs()));
            let got = updated.named(name).unwrap();
            assert_eq!(got.len(), expected.len());
            for (element, (expected, &got)) in expected.iter().zip(&**got).enumerate() {
                assert!(
                    (expected - f64::from(got)).abs() <= 1e-6 * greatest,
                    "{case}: {name}[{element}]: expected {expected}, got {got}"
                );
            }
            compared += 1;
        }
    }
    // Every tensor of the file belongs to a case.
    let of_case = |name: &&str| names.iter().any(|case| name.starts_with(&format!("{case}/")));
    let file = file();
    assert_eq!(compared, file.names().iter().filter(|name| of_case(name)).count());
    assert_eq!(file.len(), compared + 8, "six inputs, the rows, and the losses");
}

/// Rows without a gradient keep their bits, under all rules and with decay.
#[test]
fn rows_that_are_not_named_keep_their_bits() {
    let fixture = Fixture::new();
    for (case, options) in cases() {
        let mut trainer = fixture.trainer(options).unwrap();
        for step in 0..STEPS {
            let before = trainer.parameters().unwrap();
            fixture.update(&mut trainer, step..step + 1);
            let after = trainer.parameters().unwrap();
            let rows = |parameters: &Parameters| {
                let table = parameters.named("t").unwrap();
                table.chunks(3).map(|row| [row[0], row[1], row[2]]).collect::<Vec<_>>()
            };
            let (before, after) = (rows(&before), rows(&after));
            for row in 0..6 {
                let changed = before[row].map(f32::to_bits) != after[row].map(f32::to_bits);
                let is_named = named(step).contains(&(row as u32));
                // The rate of a cosine ends at 0.
                let may_stay = trainer.learning_rate() == 0.0 || case == "cosine";
                assert!(changed == is_named || may_stay && !changed, "{case}: row {row}");
            }
        }
    }
}

/// A trainer that continues from a state ends with the same bits. A state of another optimizer, or
/// bytes that are no state, change nothing.
#[test]
fn a_state_continues_bit_by_bit() {
    let fixture = Fixture::new();
    let all = cases().into_iter().zip(cases()).zip(cases());
    for (((case, options), (_, again)), (_, third)) in all {
        let mut trainer = fixture.trainer(options).unwrap();
        fixture.update(&mut trainer, 0..7);
        let state = trainer.state().unwrap();
        fixture.update(&mut trainer, 7..STEPS);
        let mut resumed = fixture.trainer(again).unwrap();
        resumed.set_state(&state).unwrap();
        assert_eq!(resumed.updates(), 7);
        assert!(resumed.state().unwrap() == state, "{case}");
        let mut other = fixture.trainer(third).unwrap();
        fixture.update(&mut other, 0..2);
        let before = other.state().unwrap();
        for end in (0..state.len()).step_by(31) {
            assert!(other.set_state(&state[..end]).is_err(), "{case}: {end} bytes");
        }
        assert!(other.state().unwrap() == before);
        fixture.update(&mut resumed, 7..STEPS);
        assert!(resumed.parameters().unwrap() == trainer.parameters().unwrap(), "{case}");
        assert!(resumed.state().unwrap() == trainer.state().unwrap(), "{case}");
    }
    let options = |optimizer| TrainerOptions::new().optimizer(optimizer);
    let state = fixture.trainer(options(Optimizer::adam(0.1))).unwrap().state().unwrap();
    let mut sgd = fixture.trainer(options(Optimizer::sgd(0.1))).unwrap();
    let error = sgd.set_state(&state).unwrap_err().to_string();
    assert_eq!(
        error,
        "the state is not of this trainer: its optimizer is Adam { betas: [0.9, 0.999], epsilon: \
         1e-8, decoupled: false }, the trainer's is Sgd { momentum: 0.0, dampening: 0.0, nesterov: \
         false }"
    );
    let error = sgd.set_state(FILE).unwrap_err().to_string();
    assert_eq!(error, "the state is not of this trainer: it does not say `optimizer`");
    assert!(sgd.parameters().unwrap() == fixture.start() && sgd.updates() == 0);
}

/// A state between two bad epochs, and one after the rate was lowered, continue with the count of
/// bad epochs and with the lower rate.
#[test]
fn a_state_continues_on_a_plateau() {
    let fixture = Fixture::new();
    let options = || {
        let plateau = Rate::Plateau { factor: 0.5, patience: 1 };
        TrainerOptions::new().optimizer(Optimizer::sgd(0.8)).rate(plateau)
    };
    // The first loss is the best, so all later epochs are bad.
    let expected = [0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.1];
    for resumed_after in 0..expected.len() {
        let mut trainer = fixture.trainer(options()).unwrap();
        for (epoch, rate) in expected.into_iter().enumerate() {
            trainer.end_epoch(1.0 + epoch as f64);
            if epoch == resumed_after {
                let state = trainer.state().unwrap();
                trainer = fixture.trainer(options()).unwrap();
                trainer.set_state(&state).unwrap();
            }
            let got = trainer.learning_rate();
            assert_eq!(got, rate, "epoch {epoch}, resumed after {resumed_after}");
        }
    }
}

/// Rounding may make the mean of the squares less than the square of the mean.
#[test]
fn centred_rms_prop_of_equal_gradients_stays_finite() {
    let fixture = Fixture::new();
    for (momentum, alpha) in [(0.0, 0.99), (0.5, 0.9), (0.0, 0.5)] {
        let rule = UpdateRule::RmsProp { alpha, epsilon: 1e-8, momentum, centered: true };
        let options = TrainerOptions::new().optimizer(of(rule, 1e-3));
        let mut trainer = fixture.trainer(options).unwrap();
        let mut gradients = fixture.gradients(0);
        for gradient in &mut gradients.parameters {
            let (Gradient::Whole(elements) | Gradient::Rows { elements, .. }) = gradient else {
                unreachable!("all parameters have gradients")
            };
            (0..).zip(elements).for_each(|(i, it)| *it = 0.1 + 0.037 * i as f32);
        }
        for _ in 0..3000 {
            trainer.set_gradients(gradients.clone()).unwrap();
            trainer.update().unwrap();
        }
        let parameters = trainer.parameters().unwrap();
        let elements = parameters.slices().concat();
        assert!(elements.iter().all(|it| it.is_finite()), "{momentum}, {alpha}: {elements:?}");
    }
}

/// Parameters that the caller sets are trained from there, with the old moments.
#[test]
fn parameters_may_be_set() {
    let fixture = Fixture::new();
    let options = || TrainerOptions::new().optimizer(Optimizer::adam(0.02));
    let mut trainer = fixture.trainer(options()).unwrap();
    fixture.update(&mut trainer, 0..5);
    let parameters = trainer.parameters().unwrap();
    let expected = trainer.forward(&[vec![0], vec![5]]).unwrap();
    let mut other = fixture.trainer(options()).unwrap();
    fixture.update(&mut other, 0..5);
    other.set_parameters(&fixture.start()).unwrap();
    assert!(other.forward(&[vec![0], vec![5]]).unwrap() != expected);
    other.set_parameters(&parameters).unwrap();
    assert!(other.forward(&[vec![0], vec![5]]).unwrap() == expected);
    assert!(other.state().unwrap() == trainer.state().unwrap());
    let network = Network::new();
    let none = Parameters::from_values(&network, vec![]).unwrap();
    let error = other.set_parameters(&none).unwrap_err();
    assert!(matches!(error, TrainError::Parameters(_)), "{error}");
    assert!(other.parameters().unwrap() == parameters);
}

#[test]
fn options_out_of_range_and_groups_without_parameters_are_refused() {
    let fixture = Fixture::new();
    let refused = |options| fixture.trainer(options).err().expect("refused").to_string();
    let new = TrainerOptions::new;
    let group = |factor, decay| new().group("w", Group { factor, decay, frozen: false });
    for (options, text) in [
        (
            new().optimizer(Optimizer::adam(-1.0)),
            "rate: expected a finite number of at least 0, got -1",
        ),
        (new().rate(Rate::Cosine { epochs: 0 }), "epochs: expected at least 1 epoch, got 0"),
        (new().clip_norm(f64::NAN), "clip_norm: expected a finite number above 0, got NaN"),
        (new().clip_norm(0.0), "clip_norm: expected a finite number above 0, got 0"),
        (new().clip_value(-0.5), "clip_value: expected a finite number above 0, got -0.5"),
        (new().clip_value(f64::INFINITY), "clip_value: expected a finite number above 0, got inf"),
        (
            group(f64::INFINITY, None),
            "factor of a group: expected a finite number of at least 0, got inf",
        ),
        (
            group(1.0, Some(-1.0)),
            "decay of a group: expected a finite number of at least 0, got -1",
        ),
        (new().frozen("embd"), "no parameter of the model has a name that begins with `embd`"),
    ] {
        assert_eq!(refused(options), text);
    }
    let frozen = || new().frozen("w");
    let mut trainer = fixture.trainer(frozen()).unwrap();
    fixture.update(&mut trainer, 0..STEPS);
    let (start, updated) = (fixture.start(), trainer.parameters().unwrap());
    assert_eq!(
        ["w", "b", "t"].map(|name| start.named(name) == updated.named(name)),
        [true, false, false]
    );
}

/// A gradient that is not finite leaves parameters, moments and the number of updates as they are.
#[test]
fn gradients_that_are_not_finite_change_nothing() {
    let fixture = Fixture::new();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for (case, options) in cases() {
            let mut trainer = fixture.trainer(options).unwrap();
            fixture.update(&mut trainer, 0..2);
            let before = trainer.state().unwrap();
            for (index, parameter) in fixture.network.parameters().iter().enumerate() {
                let mut gradients = fixture.gradients(2);
                if let Gradient::Whole(elements) | Gradient::Rows { elements, .. } =
                    &mut gradients.parameters[index]
                {
                    elements[2] = bad;
                }
                trainer.set_gradients(gradients).unwrap();
                let error = trainer.update().unwrap_err().to_string();
                let expected = format!("the gradient of {} is not finite: ", parameter.name);
                assert!(error.starts_with(&expected), "{error}");
                assert!(trainer.state().unwrap() == before, "{case}: {}", parameter.name);
            }
        }
    }
    let mut trainer = fixture.trainer(TrainerOptions::new()).unwrap();
    let mut twice = fixture.gradients(0);
    for gradient in &mut twice.parameters {
        if let Gradient::Rows { rows, .. } = gradient {
            rows[1] = rows[0];
        }
    }
    let error = trainer.set_gradients(twice).unwrap_err();
    assert!(matches!(error, TrainError::GradientsOfParameters), "{error}");
}

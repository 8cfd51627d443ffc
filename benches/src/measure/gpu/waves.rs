//! The part `waves`: the unit tiles of a TreeLSTM alone, in every shape, for 1 to 4,096 rows a
//! wave. Their bits are compared with the processor's, and their times give the constants of the
//! model again. In TF32 and bf16, results are near the processor's, and equal rows have equal bits
//! at all places of all waves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use edbatch::models::{Model, TreeLstm, TreeSizes};
use edbatch_cuda::{CommandList, DeviceModel, Prediction};
use edbatch_graph::{Graph, Kind, Value};
use edbatch_layout::{Lifetimes, MiniBatch, Plan, Planner, Program, Want};
use edbatch_policy::Scheduler;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Given, Part, initial_rows};

use crate::Failure;
use crate::measure::device::Device;
use crate::measure::systems::{System, weights};
use crate::record::finding::{Finding, Outcome};
use crate::spread::Spread;

/// Elements of a hidden vector, rows of a wave, waves of a short and a long plan, and the number of
/// samples of a wave's time.
struct Sizes {
    hidden: usize,
    rows: &'static [usize],
    waves: [usize; 2],
    samples: usize,
}

const ON_DEVICE: Sizes = Sizes {
    hidden: 256,
    rows: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    waves: [2, 12],
    samples: 7,
};
const EMULATED: Sizes = Sizes { hidden: 64, rows: &[1, 9, 70], waves: [1, 2], samples: 1 };

/// Measures all shapes until a deadline.
pub(super) fn waves(
    device: &Device,
    until: Instant,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Finding>, Failure> {
    if Level::detect() == Level::Portable {
        let note = "this level of the processor rounds products";
        return Ok(vec![Finding::new("waves", "waves", Outcome::Skipped, note)]);
    }
    let subject = Subject::new(if device.is_emulated() { EMULATED } else { ON_DEVICE })?;
    let (mut findings, mut known) = (Vec::new(), BTreeMap::new());
    let systems = [System::Cuda, System::CudaTf32, System::CudaBf16];
    let all = systems.into_iter().flat_map(|system| {
        let options = system.on_cuda().expect("it is on a device");
        DeviceModel::costs(options.precision).into_iter().map(move |of| (system, options, of))
    });
    for (system, options, (number, shape, cost)) in all {
        let is_exact = system == System::Cuda;
        let shape = if is_exact { shape } else { format!("{shape} in {}", system.recorded()) };
        progress(&shape);
        let options = options.shape(Some(number));
        let mut model = device.model(&subject.program, &options);
        let plan = subject.plan(1, 1, Lifetimes::Distinct, 1);
        if subject.predict(&mut model, &plan)?.unit_tiles[number as usize - 1] == 0 {
            let note = "the device has too little shared memory";
            findings.push(Finding::new("waves", &shape, Outcome::Skipped, note));
            continue;
        }
        let mut own = OfShape {
            subject: &subject,
            system,
            device,
            model,
            backend: device.load(&subject.program, &subject.parameters, &options)?,
        };
        let mut points = Vec::new();
        for &rows in subject.sizes.rows {
            if Instant::now() >= until {
                let note = format!("the time was over at {shape} with {rows} rows");
                findings.push(Finding::new("waves", "waves", Outcome::Stopped, note));
                return Ok(findings);
            }
            own.compare(rows, &mut known)
                .map_err(|error| format!("{shape}, {rows} rows: {error}"))?;
            let (predicted, samples) = own.times(rows)?;
            // Times of the emulated device are meaningless.
            if !device.is_emulated() {
                let what = format!("{shape}, a wave of {rows} rows");
                findings.push(Finding::measured("waves", &what, &samples, "µs"));
                points.push([predicted, Spread::of(&samples).median]);
            }
        }
        let fitted = fitted(&points, cost);
        let bits = if is_exact { "the processor's bits" } else { "the same bits at all places" };
        let note = format!("{bits} for {:?} rows{fitted}", subject.sizes.rows);
        findings.push(Finding::new("waves", &shape, Outcome::Passed, note));
    }
    Ok(findings)
}

/// Describes the constants by which a model predicts the measured times: `points` has both.
fn fitted(points: &[[f64; 2]], cost: f64) -> String {
    let fixed = DeviceModel::wave_micros();
    let Some([own_fixed, times]) = line(points.iter().map(|[x, y]| [x - fixed, *y])) else {
        return String::new();
    };
    let farthest = points.iter().map(|[predicted, measured]| (measured / predicted - 1.0).abs());
    format!(
        "; a multiply-add {:.1} · 10⁻⁶ µs, in the model {:.1}; a wave besides {own_fixed:.2} µs, \
         in the model {fixed:.2}; the model is off by up to {:.0} %",
        1e6 * times * cost,
        1e6 * cost,
        100.0 * farthest.fold(0.0, f64::max)
    )
}

/// Returns a and b with the least sum of ((a + b x) / y - 1)², so that small and large times count
/// alike. Returns `None` without two different x.
fn line(points: impl Iterator<Item = [f64; 2]> + Clone) -> Option<[f64; 2]> {
    let sum = |of: fn([f64; 2]) -> f64| points.clone().map(of).sum::<f64>();
    let (ones, x, xx) =
        (sum(|[_, y]| 1.0 / (y * y)), sum(|[x, y]| x / (y * y)), sum(|[x, y]| x * x / (y * y)));
    let (y, xy) = (sum(|[_, y]| 1.0 / y), sum(|[x, y]| x / y));
    let determinant = ones * xx - x * x;
    (determinant > 1e-9 * ones * xx)
        .then(|| [(y * xx - xy * x) / determinant, (ones * xy - x * y) / determinant])
}

/// The model and the weights that all shapes share.
struct Subject {
    sizes: Sizes,
    program: Arc<Program>,
    parameters: edbatch_runtime::Parameters,
}

impl Subject {
    fn new(sizes: Sizes) -> Result<Self, Failure> {
        let (embed, hidden) = (sizes.hidden, sizes.hidden);
        let model = TreeLstm::new(TreeSizes { vocabulary: 100, embed, hidden, classes: 5 })?;
        let program = Arc::new(System::Cuda.program(model.network())?);
        let parameters = weights(model.network());
        Ok(Self { sizes, program, parameters })
    }

    /// Plans waves of inner nodes. A node reads two neighbours of the previous wave. Wants the last
    /// wave, or only its first node.
    fn plan(&self, rows: usize, waves: usize, lifetimes: Lifetimes, wanted: usize) -> Plan {
        let network = self.program.network();
        let kind = |name| network.cells().iter().position(|cell| cell.name() == name);
        let [leaf, node] = ["leaf", "node"].map(|name| Kind::new(kind(name).expect("a TreeLSTM")));
        let mut graph = Graph::new(network.clone());
        let mut call = |kind, tokens: &[u32], values: &[Value]| {
            graph.call(kind, tokens, values).expect("the cells of a TreeLSTM")
        };
        let mut last: Vec<Value> =
            (0..rows).map(|row| call(leaf, &[row as u32 % 100], &[])).collect();
        for _ in 0..waves {
            let next = |row: usize| call(node, &[], &[last[row], last[(row + 1) % rows]]);
            last = (0..rows).map(next).collect();
        }
        let wanted: Vec<_> = last[..wanted].iter().map(|&value| (value, Want::Elements)).collect();
        let (mut schedule, mut plan) = Default::default();
        Scheduler::by_depth().schedule(&graph, &mut schedule);
        let (program, graph, schedule) = (&*self.program, &graph, &schedule);
        let mini_batch = MiniBatch { program, graph, schedule, wanted: &wanted };
        Planner::new(lifetimes).plan(&mini_batch, &mut plan).expect("few rows");
        plan
    }

    fn predict(&self, model: &mut DeviceModel, plan: &Plan) -> Result<Prediction, Failure> {
        let mut all = Prediction::default();
        model.predict((&*self.program, plan), &mut CommandList::default(), &mut all)?;
        Ok(all)
    }

    /// Runs a plan.
    fn run(&self, backend: &mut dyn Backend, plan: &Plan) -> Result<(), Failure> {
        let initial = initial_rows(self.program.network(), &self.parameters);
        let given = Given { initial: &initial, places: &[], host: &[] };
        Ok(backend.run(&[Part { slot: 0, plan, given }])?)
    }
}

/// A shape on a device.
struct OfShape<'a> {
    subject: &'a Subject,
    system: System,
    device: &'a Device,
    model: DeviceModel,
    backend: Box<dyn Backend>,
}

impl OfShape<'_> {
    /// Compares a short plan with the processor's. `known` has the first row of other waves of a
    /// system.
    fn compare(
        &mut self,
        rows: usize,
        known: &mut BTreeMap<String, Vec<u32>>,
    ) -> Result<(), Failure> {
        let Subject { sizes, program, parameters } = self.subject;
        let precision = self.system.precision();
        let mut cpu = Cpu::new(program.clone(), parameters, Level::detect(), precision)?;
        let backends: [&mut dyn Backend; 2] = [&mut cpu, &mut *self.backend];
        let [expected, got] = backends.map(|backend| {
            let plan = self.subject.plan(rows, sizes.waves[0], backend.lifetimes(), rows);
            self.subject.run(backend, &plan)?;
            let outputs = backend.outputs(0, &plan);
            let row = |row: usize| outputs.fields(row).flatten().copied().collect();
            Ok::<Vec<Vec<f32>>, Failure>((0..rows).map(row).collect())
        });
        let (expected, got) = (expected?, got?);
        let pairs = || expected.iter().flatten().zip(got.iter().flatten());
        if self.system == System::Cuda {
            let is_same = pairs().all(|(a, b)| a.to_bits() == b.to_bits());
            return if is_same { Ok(()) } else { Err("different bits".into()) };
        }
        let off = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        if off > self.system.tolerance() {
            return Err(format!("differs by {off:e} from the processor").into());
        }
        // A row depends on its leaf and the next ones, a leaf a wave. There are a hundred leaves.
        let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        for row in 0..rows.saturating_sub(sizes.waves[0]) {
            let first = match row {
                0 => known.entry(self.system.name()).or_insert_with(|| bits(&got[0])).clone(),
                _ => bits(&got[row % 100]),
            };
            if first != bits(&got[row]) {
                return Err(format!("other bits of row {row}").into());
            }
        }
        Ok(())
    }

    /// Returns the µs of a wave by the model, and of several samples: each is the difference
    /// between a long plan and a short one, by its waves.
    fn times(&mut self, rows: usize) -> Result<(f64, Vec<f64>), Failure> {
        let Sizes { waves, samples, .. } = self.subject.sizes;
        let plans = waves.map(|waves| self.subject.plan(rows, waves, Lifetimes::Distinct, 1));
        let predicted = plans.each_ref().map(|plan| {
            Ok::<f64, Failure>(self.subject.predict(&mut self.model, plan)?.device_micros)
        });
        let mut took = |plan: &Plan| {
            let before = self.device.launch_times();
            self.subject.run(&mut *self.backend, plan)?;
            Ok::<f64, Failure>((self.device.launch_times() - before).device_ns as f64 / 1e3)
        };
        // Once more, for clocks and allocations.
        let mut sample = || Ok::<_, Failure>([took(&plans[0])?, took(&plans[1])?]);
        sample()?;
        let samples = (0..samples).map(|_| sample()).collect::<Result<Vec<_>, _>>()?;
        let of_wave = |[short, long]: [f64; 2]| (long - short) / (waves[1] - waves[0]) as f64;
        let [short, long] = predicted;
        Ok((of_wave([short?, long?]), samples.into_iter().map(of_wave).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{fitted, line};

    #[test]
    fn constants_of_a_model_are_found_again() {
        let x = [0.5, 1.0, 4.0, 100.0];
        let [a, b] = line(x.into_iter().map(|x| [x, 3.0 + 1.25 * x])).unwrap();
        assert!((a - 3.0).abs() < 1e-9 && (b - 1.25).abs() < 1e-9, "{a} {b}");
        assert!(line([[1.0, 2.0], [1.0, 3.0]].into_iter()).is_none());
        // Multiply-adds take twice the time of the model, and a wave 0.3 µs more.
        let points = x.map(|x| [2.7 + x, 3.0 + 2.0 * x]);
        let text = fitted(&points, 10.9e-6);
        assert!(text.starts_with("; a multiply-add 21.8 · 10⁻⁶ µs, in the model 10.9"), "{text}");
        assert!(text.contains("besides 3.00 µs, in the model 2.70"), "{text}");
        assert!(text.ends_with("off by up to 98 %"), "{text}");
        assert_eq!(fitted(&[], 1.0), "");
    }
}

//! What is to be held on an H200, and whether it is.

use super::baseline::{EAGER, REPLAYED, over_ours};
use super::record::{Record, median};
use super::setting::{Clock, Kernels, MODELS, Setting, Use};
use super::throughput::LOAD;

/// Which side of a bound is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// At most.
    Lower,
    /// At least.
    Higher,
}

/// A figure that is to be held.
#[derive(Clone, PartialEq, Debug)]
pub struct Held {
    /// What.
    pub what: String,
    /// Of the figures below.
    pub unit: &'static str,
    /// What was measured, if it was.
    pub measured: Option<f64>,
    /// What must be.
    pub must: f64,
    /// What should be.
    pub goal: f64,
    /// Which side is good.
    pub better: Better,
}

impl Held {
    /// Whether what must be is; `None` if it was not measured.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.measured.map(|measured| self.is_within(measured, self.must))
    }

    /// Whether what should be is.
    #[must_use]
    pub fn reaches_goal(&self) -> Option<bool> {
        self.measured.map(|measured| self.is_within(measured, self.goal))
    }

    fn is_within(&self, measured: f64, bound: f64) -> bool {
        match self.better {
            Better::Lower => measured <= bound,
            Better::Higher => measured >= bound,
        }
    }
}

/// µs of a mini-batch of 64 at H = 256: one at a time and side by side, must and goal.
const MICROS: [[(f64, f64); 2]; 4] = [
    [(150.0, 110.0), (60.0, 35.0)],
    [(600.0, 400.0), (150.0, 95.0)],
    [(500.0, 330.0), (260.0, 170.0)],
    [(4000.0, 2700.0), (2000.0, 1200.0)],
];

/// PyTorch's time over ours: must and goal.
const RATIOS: [(&str, &str, f64, f64); 5] = [
    (MODELS[0], REPLAYED, 3.0, 4.0),
    (MODELS[1], REPLAYED, 5.0, 8.0),
    (MODELS[2], REPLAYED, 2.0, 4.0),
    (MODELS[0], EAGER, 12.0, 20.0),
    (MODELS[1], EAGER, 30.0, 50.0),
];

/// All that is to be held, and what records say of it. Exact and unfolded, where it is not said.
#[must_use]
pub fn targets(records: &[Record]) -> Vec<Held> {
    let held = |what: &str, unit, better, (must, goal)| Held {
        what: what.into(),
        unit,
        measured: median(records, what),
        must,
        goal,
        better,
    };
    let mut all = Vec::new();
    for (model, bounds) in MODELS.into_iter().zip(MICROS) {
        for (use_, bounds) in [Use::One, Use::Many].into_iter().zip(bounds) {
            let what = Setting::main(model, Kernels::TEAMS, use_).what(Clock::EndToEnd);
            all.push(held(&what, "µs", Better::Lower, bounds));
        }
    }
    let trees = Setting::main(MODELS[0], Kernels::TEAMS, Use::One);
    let [host, device] =
        [Clock::Host, Clock::Execute].map(|clock| median(records, &trees.what(clock)));
    all.push(Held {
        what: format!("{}: the host's time over the rest, of a part", trees.model),
        unit: "×",
        measured: host.zip(device).map(|(host, device)| host / device),
        must: 1.0,
        goal: 20.0 / 87.0,
        better: Better::Lower,
    });
    for (model, way, must, goal) in RATIOS {
        all.push(held(&over_ours(model, way), "×", Better::Higher, (must, goal)));
    }
    for (hidden, bounds) in [(256, (35.0, 60.0)), (512, (45.0, 60.0))] {
        let setting = Setting { hidden, ..Setting::main(MODELS[0], Kernels::TEAMS, Use::Many) };
        all.push(held(&setting.share_of_peak(), "%", Better::Higher, bounds));
    }
    let tf32 = Setting::main(MODELS[0], Kernels::TF32, Use::One).what(Clock::EndToEnd);
    all.push(held(&tf32, "µs", Better::Lower, (110.0, 70.0)));
    all.push(held(LOAD, "s", Better::Lower, (0.3, 0.1)));
    all
}

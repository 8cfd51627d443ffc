//! Optimizers, by the names and the formulas of PyTorch.

use edbatch::runtime::UpdateRule;
use pyo3::prelude::*;

/// An optimizer of a Trainer: made by `sgd`, `ada_grad`, `rms_prop`, `adam` or `adam_w`.
#[pyclass(frozen, eq, module = "edbatch")]
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Optimizer(pub(crate) edbatch::Optimizer);

#[pymethods]
impl Optimizer {
    fn __repr__(&self) -> String {
        let edbatch::Optimizer { rule, rate, decay } = self.0;
        format!("<edbatch.Optimizer: {rule:?}, rate {rate}, decay {decay}>")
    }
}

/// `torch.optim.SGD`.
#[pyfunction]
#[pyo3(signature = (rate, *, momentum=0.0, dampening=0.0, nesterov=false, decay=0.0))]
pub(crate) fn sgd(
    rate: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    decay: f64,
) -> Optimizer {
    let rule = UpdateRule::Sgd { momentum, dampening, nesterov };
    Optimizer(edbatch::Optimizer { rule, rate, decay })
}

/// `torch.optim.Adagrad`.
#[pyfunction]
#[pyo3(signature = (rate=1e-2, *, rate_decay=0.0, initial=0.0, epsilon=1e-10, decay=0.0))]
pub(crate) fn ada_grad(
    rate: f64,
    rate_decay: f64,
    initial: f64,
    epsilon: f64,
    decay: f64,
) -> Optimizer {
    let rule = UpdateRule::AdaGrad { rate_decay, initial, epsilon };
    Optimizer(edbatch::Optimizer { rule, rate, decay })
}

/// `torch.optim.RMSprop`.
#[pyfunction]
#[pyo3(signature = (
    rate=1e-2, *, alpha=0.99, epsilon=1e-8, momentum=0.0, centered=false, decay=0.0
))]
pub(crate) fn rms_prop(
    rate: f64,
    alpha: f64,
    epsilon: f64,
    momentum: f64,
    centered: bool,
    decay: f64,
) -> Optimizer {
    let rule = UpdateRule::RmsProp { alpha, epsilon, momentum, centered };
    Optimizer(edbatch::Optimizer { rule, rate, decay })
}

/// `torch.optim.Adam`. Of a table that cells look up, it changes the rows that a mini-batch names,
/// as `SparseAdam` does.
#[pyfunction]
#[pyo3(signature = (rate=1e-3, *, betas=(0.9, 0.999), epsilon=1e-8, decay=0.0))]
pub(crate) fn adam(rate: f64, betas: (f64, f64), epsilon: f64, decay: f64) -> Optimizer {
    adaptive(rate, betas, epsilon, decay, false)
}

/// `torch.optim.AdamW`: like `adam`, with a weight decay that does not pass the moments.
#[pyfunction]
#[pyo3(signature = (rate=1e-3, *, betas=(0.9, 0.999), epsilon=1e-8, decay=1e-2))]
pub(crate) fn adam_w(rate: f64, betas: (f64, f64), epsilon: f64, decay: f64) -> Optimizer {
    adaptive(rate, betas, epsilon, decay, true)
}

fn adaptive(rate: f64, betas: (f64, f64), epsilon: f64, decay: f64, decoupled: bool) -> Optimizer {
    let rule = UpdateRule::Adam { betas: betas.into(), epsilon, decoupled };
    Optimizer(edbatch::Optimizer { rule, rate, decay })
}

/// Settings of the parameters whose names begin with a prefix: the factor of the learning rate,
/// and the weight decay if it is not the optimizer's. `frozen` parameters are not trained.
#[pyclass(frozen, eq, from_py_object, module = "edbatch")]
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Group(pub(crate) edbatch::Group);

#[pymethods]
impl Group {
    #[new]
    #[pyo3(signature = (*, factor=1.0, decay=None, frozen=false))]
    fn new(factor: f64, decay: Option<f64>, frozen: bool) -> Self {
        Self(edbatch::Group { factor, decay, frozen })
    }

    fn __repr__(&self) -> String {
        let edbatch::Group { factor, decay, frozen } = self.0;
        let decay = decay.map_or("None".into(), |decay| decay.to_string());
        let frozen = if frozen { "True" } else { "False" };
        format!("Group(factor={factor}, decay={decay}, frozen={frozen})")
    }
}

//! Trainers: losses, gradients and updates of the weights.

pub(crate) mod device;
mod running;

use std::collections::BTreeMap;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use edbatch::models;
use edbatch::runtime::{GivenPlace, Gradient, try_memory};
use edbatch::{TrainError, TrainerOptions};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::errors;
use crate::inputs::{Run, Wirer};
use crate::mini_batch::{rows_of, targets_of};
use crate::model::{Input, Wired};
use crate::network::Network;
use crate::optimizer::{Group, Optimizer};
use crate::options::{Device, policy_of};
use crate::packed::{self, Given, Packed};
use crate::train_outcome::{TrainReport, failure, plain};
use crate::weights::Weights;
use crate::{arrays, exclusive};
use running::until_a_signal;

/// A network with its weights, which it trains on mini-batches.
///
/// Inputs are call lists, or wired by `build`, as for an Engine; but `build` must not await.
/// `train` is a step for a cross-entropy; `forward` and `backward` leave the loss to you.
/// Gradients add up until `update` or `clear_gradients`.
///
/// Options: `optimizer` (`adam()` by default), `rate` (its change by epochs: "step:EVERY:FACTOR",
/// "exponential:FACTOR", "cosine:EPOCHS" or "plateau:FACTOR:PATIENCE"), `warm_up` (a number of
/// updates), `groups` (a Group for each prefix of names), `clip_norm` or `clip_value`,
/// `given_gradients` for `backward`, `seed` of dropout, `dropout=False` to turn it off, and
/// `threads`, `policy`, `memory_limit`, `work` and `device` as for an Engine; but one device. All
/// devices give the CPU's bits. Training is in f32 alone.
///
/// Raises WeightsError if the weights do not fit the network, ValueError for invalid options, and
/// DeviceError if the device cannot be used.
#[pyclass(frozen, weakref, module = "edbatch")]
pub(crate) struct Trainer {
    trainer: Mutex<edbatch::Trainer<Wired>>,
    wirer: Wirer,
    /// The shapes of the last packed run.
    packed: Mutex<Option<Packed>>,
    /// The places of given values in memory of tensors, of the last decided run.
    places: Mutex<Vec<GivenPlace>>,
    on_device: bool,
    threads: usize,
    process: u32,
}

impl Trainer {
    fn lock(&self) -> PyResult<MutexGuard<'_, edbatch::Trainer<Wired>>> {
        let threads = (self.threads > 1 || self.on_device).then_some(self.process);
        exclusive::lock(&self.trainer, threads, "trainer", "build a trainer for each thread")
    }

    /// Wires inputs, and runs a function without the interpreter, until Ctrl-C.
    fn with<R: Send>(
        &self,
        inputs: &Bound<'_, PyAny>,
        given: Option<Given>,
        run: impl Send + FnOnce(&mut edbatch::Trainer<Wired>, &[Input]) -> Result<R, TrainError>,
    ) -> PyResult<R> {
        let py = inputs.py();
        let mut trainer = self.lock()?;
        let trainer: &mut edbatch::Trainer<Wired> = &mut trainer;
        let of_inputs = Run::of(trainer.model(), given);
        let wired = self.wirer.wire_all(&of_inputs, inputs)?;
        let done = until_a_signal(py, trainer, |trainer| run(trainer, &wired))?;
        let done = done.map_err(|error| failure(py, &wired, error));
        self.wirer.recycle(wired);
        done
    }
}

#[pymethods]
impl Trainer {
    #[new]
    #[pyo3(signature = (
        network, weights, build=None, *, optimizer=None, rate=None, warm_up=0, groups=None,
        clip_norm=None, clip_value=None, given_gradients=false, dropout=true, seed=0, threads=1,
        policy=None, memory_limit=None, work=None, device="cpu"
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        network: &Bound<'_, Network>,
        weights: &Bound<'_, Weights>,
        build: Option<Py<PyAny>>,
        optimizer: Option<&Bound<'_, Optimizer>>,
        rate: Option<&str>,
        warm_up: u64,
        groups: Option<BTreeMap<String, Group>>,
        clip_norm: Option<f64>,
        clip_value: Option<f64>,
        given_gradients: bool,
        dropout: bool,
        seed: u64,
        threads: usize,
        policy: Option<PathBuf>,
        memory_limit: Option<u64>,
        work: Option<Py<PyAny>>,
        device: &str,
    ) -> PyResult<Self> {
        let device = Device::of_trainer(device)?;
        let frozen = Network::intern(network)?;
        let mut options = TrainerOptions::new().warm_up(warm_up).seed(seed).threads(threads);
        if let Some(optimizer) = optimizer {
            options = options.optimizer(optimizer.get().0);
        }
        if let Some(rate) = rate {
            let invalid = |error| PyValueError::new_err(format!("rate: {error}, got {rate:?}"));
            options = options.rate(rate.parse().map_err(invalid)?);
        }
        for (prefix, Group(group)) in groups.unwrap_or_default() {
            options = options.group(prefix, group);
        }
        options = match (clip_norm, clip_value) {
            (None, None) => options,
            (Some(norm), None) => options.clip_norm(norm),
            (None, Some(value)) => options.clip_value(value),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("expected clip_norm or clip_value, got both"));
            }
        };
        if given_gradients {
            options = options.given_gradients();
        }
        if !dropout {
            options = options.without_dropout();
        }
        let policy = policy_of(policy.as_deref(), &frozen)?;
        let options = policy.into_iter().fold(options, TrainerOptions::policy);
        let options = memory_limit.into_iter().fold(options, TrainerOptions::memory_limit);
        let parameters = weights.get().for_network(&frozen)?;
        let model = Wired { empty: Arc::new(models::CallList::new(frozen.clone())), zoo: None };
        let trainer = device.trainer(model, &frozen, parameters, options).map_err(plain)?;
        let network = network.clone().unbind();
        let wirer = Wirer { network, build, work, folder: None, pool: Mutex::default() };
        let process = std::process::id();
        let (trainer, packed, places) = (Mutex::new(trainer), Mutex::default(), Mutex::default());
        let on_device = device != Device::Cpu;
        Ok(Self { trainer, wirer, packed, places, on_device, threads, process })
    }

    /// Computes the mean loss of a mini-batch and its gradients, and updates the parameters.
    /// `targets` has for each input an array of integers: a class for each emitted row, or -1 for
    /// none. The loss of a row is its cross-entropy, from scores before a softmax.
    ///
    /// Raises the exception of the first input that fails, with the note "input 3 of 64", and
    /// ValueError if targets do not fit, or if the loss or a gradient is not finite. Ctrl-C raises
    /// KeyboardInterrupt in the middle of a step. In all cases no parameter has changed, and all
    /// gradients are cleared.
    #[pyo3(signature = (inputs, targets, /))]
    fn train(
        &self,
        inputs: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
    ) -> PyResult<TrainReport> {
        let targets = targets_of(targets)?;
        let report = self.with(inputs, None, |trainer, inputs| trainer.train(inputs, &targets))?;
        Ok(report.into())
    }

    /// Trains on mini-batches in order: pairs of inputs and targets, as for `train`. Returns their
    /// reports, which `each`, a function, also gets one by one; if it returns False, that ends it.
    /// A loop over `train` has the same weights and reports.
    ///
    /// On a device, inputs are wired on the calling thread, and decided on as many others as the
    /// trainer has `threads`, while the device runs earlier mini-batches. So a few are read ahead,
    /// and when `each` ends it, one more mini-batch may have begun; its report follows.
    ///
    /// Raises like `train`, and whatever `mini_batches` and `each` raise. The mini-batches before
    /// have been trained on then, and later ones have not.
    #[pyo3(signature = (mini_batches, /, each=None))]
    fn train_each(
        &self,
        mini_batches: &Bound<'_, PyAny>,
        each: Option<Py<PyAny>>,
    ) -> PyResult<Vec<TrainReport>> {
        running::train_each(self, mini_batches, each.as_ref())
    }

    /// Adds the gradients of `weight` times the sum of all cross-entropies to the gradients of
    /// parameters. Returns this loss, and the number of rows with a target.
    ///
    /// Raises like `train`; all gradients are cleared then.
    #[pyo3(signature = (inputs, targets, /, weight=1.0))]
    fn accumulate(
        &self,
        inputs: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
        weight: f32,
    ) -> PyResult<(f64, u64)> {
        let targets = targets_of(targets)?;
        let loss = self
            .with(inputs, None, |trainer, inputs| trainer.accumulate(inputs, &targets, weight))?;
        Ok((loss.loss, loss.terms))
    }

    /// Updates the parameters by their gradients, and clears these. Returns the norm of all
    /// gradients, before clipping.
    ///
    /// Raises ValueError if a gradient is not finite. Then no parameter has changed.
    fn update(&self, py: Python<'_>) -> PyResult<f64> {
        let mut trainer = self.lock()?;
        let trainer: &mut edbatch::Trainer<Wired> = &mut trainer;
        py.detach(|| trainer.update()).map_err(plain)
    }

    /// Runs inputs, and keeps their values for `backward`. Returns what `Engine.run` returns. A
    /// second `forward` forgets the first. Raises KeyboardInterrupt on Ctrl-C, like `train`;
    /// gradients stay as they are.
    #[pyo3(signature = (inputs, /))]
    fn forward<'py>(&self, inputs: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let outputs = self.with(inputs, None, |trainer, inputs| trainer.forward(inputs))?;
        outputs.into_iter().map(|rows| arrays::of_rows(inputs.py(), rows)).collect()
    }

    /// Adds the gradients of a loss to the gradients of parameters. `gradients` has an array for
    /// each array that `forward` returned, of the same shape. With `given_gradients=True`, returns
    /// for each input the gradients of the values that it gave, in order, as `forward` returns
    /// emitted ones.
    ///
    /// Raises RuntimeError without a `forward`, ValueError if a shape is another, and
    /// KeyboardInterrupt on Ctrl-C. All gradients are cleared then.
    #[pyo3(signature = (gradients, /))]
    fn backward<'py>(&self, gradients: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = gradients.py();
        let gradients = rows_of(gradients)?;
        let mut trainer = self.lock()?;
        let trainer: &mut edbatch::Trainer<Wired> = &mut trainer;
        let given = until_a_signal(py, trainer, |trainer| trainer.backward(&gradients))?;
        let given = given.map_err(plain)?;
        given.into_iter().map(|rows| arrays::of_rows(py, rows)).collect()
    }

    /// Like `forward`, for given rows as one array for each record: see `Engine._run_packed`.
    #[pyo3(signature = (inputs, given, /))]
    fn _forward_packed<'py>(
        &self,
        inputs: &Bound<'py, PyAny>,
        given: packed::Arguments<'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let given = Given::read(inputs.py(), given)?;
        let rows = given.rows.clone();
        let (packed, elements) = self.with(inputs, Some(given), |trainer, inputs| {
            let placed =
                inputs.iter().filter_map(|input| Some(input.given.as_ref()?.places.clone()));
            Ok(Packed::of(rows, placed.collect(), trainer.forward(inputs)?))
        })?;
        let outputs = packed.outputs(inputs.py(), elements)?;
        *self.packed.lock().unwrap_or_else(PoisonError::into_inner) = Some(packed);
        Ok(outputs)
    }

    /// Like `backward` after `_forward_packed`, for the gradients of all elements. Returns a vector
    /// for each record: the gradients of its given rows.
    #[pyo3(signature = (gradients, /))]
    fn _backward_packed<'py>(
        &self,
        gradients: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyArray1<f32>>>> {
        let py = gradients.py();
        let array = arrays::floats::<PyValueError>(gradients, || "gradients".into())?;
        let elements = array.as_slice().expect("C order");
        let packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let packed = packed.ok_or_else(|| plain(TrainError::NothingForward))?;
        let mut trainer = self.lock()?;
        let given = until_a_signal(py, &mut trainer, |trainer| {
            let of_outputs = packed.output_gradients(elements);
            let of_given = trainer.backward(&of_outputs.ok_or(TrainError::NothingForward)?)?;
            Ok(packed.given_gradients(of_given))
        })?;
        let given = given.map_err(plain)?.into_iter();
        Ok(given.map(|elements| PyArray1::from_vec(py, elements)).collect())
    }

    /// The gradients of all parameters by name, in their shapes: sums since they were cleared.
    /// Frozen parameters have zeros. `sparse` names parameters that cells only look up: instead of
    /// an array, they have the rows that were read, and the elements of the gradients of these.
    ///
    /// Raises ValueError if a gradient is not finite.
    #[pyo3(signature = (*, sparse=vec![]))]
    fn gradients<'py>(&self, py: Python<'py>, sparse: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        let mut trainer = self.lock()?;
        let mut gradients = trainer.gradients().map_err(plain)?;
        let (all, network) = (PyDict::new(py), self.wirer.network.get().freeze());
        let mut rows = vec![];
        for (parameter, gradient) in network.parameters().iter().zip(&mut gradients.parameters) {
            if sparse.contains(&parameter.name) && matches!(gradient, Gradient::Rows { .. }) {
                rows.push((&parameter.name, mem::replace(gradient, Gradient::None)));
            }
        }
        let dense = network.parameters().iter().filter(|each| !sparse.contains(&each.name));
        let bytes = dense.map(|parameter| parameter.elements()).sum::<usize>() * size_of::<f32>();
        try_memory(bytes, "the gradients").map_err(errors::backend)?;
        for (parameter, values) in network.parameters().iter().zip(gradients.to_dense(&network)) {
            all.set_item(&parameter.name, arrays::shaped(py, values, &parameter.dims))?;
        }
        for (name, gradient) in rows {
            if let Gradient::Rows { rows, elements } = gradient {
                let rows = PyArray1::from_vec(py, rows);
                all.set_item(name, (rows, PyArray1::from_vec(py, elements)))?;
            }
        }
        Ok(all)
    }

    /// Sets the gradients of parameters to zero.
    fn clear_gradients(&self) -> PyResult<()> {
        self.lock()?.clear_gradients();
        Ok(())
    }

    /// Returns a copy of the parameters, as Weights.
    fn parameters(&self) -> PyResult<Weights> {
        let network = self.wirer.network.get().freeze();
        Weights::of_network(&network, &self.lock()?.parameters().map_err(plain)?)
    }

    /// Replaces the parameters. Moments of the optimizer and the number of updates stay.
    ///
    /// Raises WeightsError if they do not fit the network. Then nothing has changed.
    #[pyo3(signature = (weights, /))]
    fn set_parameters(&self, weights: &Bound<'_, Weights>) -> PyResult<()> {
        let parameters = weights.get().for_network(&self.wirer.network.get().freeze())?;
        self.lock()?.set_parameters(&parameters).map_err(plain)
    }

    /// Returns all that later steps depend on, as bytes: the parameters, the moments of the
    /// optimizer, the number of updates and the epochs of the rate.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.lock()?.state().map_err(plain)?))
    }

    /// Continues from a state of a trainer with the same network and optimizer, bit by bit.
    ///
    /// Raises ValueError if it is of another trainer. Then nothing has changed.
    #[pyo3(signature = (state, /))]
    fn set_state(&self, state: &[u8]) -> PyResult<()> {
        self.lock()?.set_state(state).map_err(plain)
    }

    /// Writes the parameters to a safetensors file.
    #[pyo3(signature = (path, /))]
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.parameters()?.save(path)
    }

    /// Ends an epoch, so that the learning rate follows `rate`. Only "plateau" reads the loss.
    #[pyo3(signature = (loss=0.0, /))]
    fn end_epoch(&self, loss: f64) -> PyResult<()> {
        self.lock()?.end_epoch(loss);
        Ok(())
    }

    /// The learning rate of the next update, for parameters without a group.
    #[getter]
    fn learning_rate(&self) -> PyResult<f64> {
        Ok(self.lock()?.learning_rate())
    }

    /// The number of updates so far.
    #[getter]
    fn updates(&self) -> PyResult<u64> {
        Ok(self.lock()?.updates())
    }

    /// Sets the number of updates. Dropout and the warm-up depend on it. For optimizers of your
    /// own, which update by `set_parameters`.
    #[pyo3(signature = (updates, /))]
    fn set_updates(&self, updates: u64) -> PyResult<()> {
        self.lock()?.set_updates(updates);
        Ok(())
    }

    fn __repr__(&self) -> PyResult<String> {
        let cells = self.wirer.network.get().with(|network| network.kind_names().join(", "));
        Ok(format!("<edbatch.Trainer: cells {cells}; {} updates>", self.updates()?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.wirer.network)?;
        visit.call(&self.wirer.build)?;
        visit.call(&self.wirer.work)
    }
}

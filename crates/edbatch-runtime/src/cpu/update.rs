//! Updates of weights, which all forks of a backend share.

use std::sync::{Arc, PoisonError};

use edbatch_graph::{Network, ParameterId};
use edbatch_layout::Weight;

use super::load::{Loaded, Weights};
use crate::backend::{Gradient, Gradients, TrainingState, Update};
use crate::kernels::{Change, Level, OutOfMemory, PackedWeights, update as update_elements};
use crate::thread_pool::ClaimedPool;
use crate::{BackendError, Parameters};

/// The moments of a parameter.
type Moments = Vec<Arc<Vec<f32>>>;

/// Minimum number of elements of an update that threads share.
const MIN_SHARED: usize = 1 << 16;

impl Loaded {
    /// Updates the trained parameters that have gradients, and packs them again. `limits` are the
    /// factor of the gradients and their maximum magnitude.
    pub(super) fn update(
        &self,
        update: &Update<'_>,
        (gradients, limits): (&Gradients, [f32; 2]),
        workers: &mut Option<ClaimedPool<'_>>,
    ) -> Result<(), BackendError> {
        let trained = &self.program.training().expect("it has gradients").trained;
        let is_updated =
            |index: usize| trained[index] && !matches!(gradients.parameters[index], Gradient::None);
        let mut weights = self.weights.write().unwrap_or_else(PoisonError::into_inner);
        let Weights { kept, moments, .. } = &mut *weights;
        // All memory is allocated before any weight changes.
        let (count, initial) = (update.rule.moments().len(), update.rule.initial_moment());
        for (index, (kept, moments)) in kept.iter_mut().zip(&mut *moments).enumerate() {
            if !is_updated(index) {
                continue;
            }
            let values = kept[0].as_mut().expect(KEPT);
            make_unique(values)?;
            while moments.len() < count {
                moments.push(Arc::new(filled(values.len(), initial)?));
            }
            moments.iter_mut().try_for_each(make_unique)?;
        }
        let parameters = kept.iter_mut().zip(moments).zip(&gradients.parameters).enumerate();
        let parameters = parameters.filter(|&(index, _)| is_updated(index));
        let level = self.level;
        type Kept<'a> = ((&'a mut [Option<Arc<Vec<f32>>>; 2], &'a mut Moments), &'a Gradient);
        let run = |(index, ((kept, moments), gradient)): (usize, Kept<'_>)| {
            let values = kept[0].as_mut().expect(KEPT);
            let change = |of_rows| update.change(index, of_rows, limits);
            update_parameter(level, change, (values, moments), gradient);
        };
        let elements: usize = gradients.parameters.iter().map(|it| it.elements().len()).sum();
        let mut workers = workers.as_mut().filter(|_| elements >= MIN_SHARED);
        match &mut workers {
            Some(workers) => {
                workers.share(parameters.collect::<Vec<_>>().into_iter(), |_, it| run(it));
            }
            None => parameters.for_each(run),
        }
        self.repack(&mut weights, is_updated, workers);
        Ok(())
    }

    /// Packs and transposes again the parameters that have changed.
    fn repack(
        &self,
        weights: &mut Weights,
        has_changed: impl Fn(usize) -> bool + Sync,
        workers: Option<&mut ClaimedPool<'_>>,
    ) {
        let network = &**self.program.network();
        let Weights { packed, kept, .. } = weights;
        for (index, [values, transposed]) in kept.iter_mut().enumerate() {
            let (Some(values), Some(transposed)) = (values, transposed) else { continue };
            if has_changed(index) {
                let columns = network.parameters()[index].dims[1];
                let transposed = Arc::get_mut(transposed).expect("nothing else shares a transpose");
                transpose(values, columns, transposed);
            }
        }
        let kept = &*kept;
        let repack = |_: usize, (packed, stack): (&mut PackedWeights, &Vec<Weight>)| {
            let mut first = 0;
            for &weight in stack {
                let id = weight.parameter();
                let index = id.0 as usize;
                if has_changed(index) {
                    let values = kept[index][0].as_ref().expect(KEPT);
                    match weight {
                        Weight::AsIs(_) => packed.repack(first, values),
                        Weight::Transposed(_) => packed.repack_transposed(first, values),
                    }
                }
                first += outputs(network, weight);
            }
        };
        let stacks = packed.iter_mut().zip(&self.stacks);
        match workers {
            Some(workers) => workers.share(stacks, repack),
            None => stacks.for_each(|stack| repack(0, stack)),
        }
    }

    /// Returns the parameters and their moments. They share the memory of the weights, until the
    /// next update.
    pub(super) fn state(&self) -> TrainingState {
        let weights = self.weights();
        let values = weights.kept.iter().map(|kept| kept[0].clone().expect(KEPT)).collect();
        let parameters = Parameters::of_values(self.declared.clone(), values);
        TrainingState { parameters, moments: weights.moments.clone() }
    }

    /// Replaces the parameters and their moments.
    pub(super) fn set_state(&self, state: &TrainingState) -> Result<(), BackendError> {
        let parameters = state.for_network(self.program.network())?;
        let mut weights = self.weights.write().unwrap_or_else(PoisonError::into_inner);
        for (id, kept) in (0..).map(ParameterId).zip(&mut weights.kept) {
            kept[0] = Some(parameters.get(id).clone());
        }
        weights.moments.clone_from(&state.moments);
        self.repack(&mut weights, |_| true, None);
        Ok(())
    }
}

/// The message for a parameter that has no values in a program for training.
const KEPT: &str = "a program for training keeps all parameters";

/// Updates a parameter, or the rows of a table that have a gradient. `change` returns the change of
/// rows or of the whole parameter.
fn update_parameter(
    level: Level,
    change: impl Fn(bool) -> Change,
    (values, moments): (&mut Arc<Vec<f32>>, &mut [Arc<Vec<f32>>]),
    gradient: &Gradient,
) {
    let values = unique(values);
    let mut moments = moments.iter_mut().map(unique);
    let mut moments: [&mut [f32]; 3] = std::array::from_fn(|_| moments.next().unwrap_or_default());
    match gradient {
        Gradient::None => {}
        Gradient::Whole(elements) => {
            update_elements(level, &change(false), values, elements, moments);
        }
        Gradient::Rows { rows, elements } => {
            let change = change(true);
            let width = elements.len().checked_div(rows.len()).unwrap_or(0);
            for (&row, elements) in rows.iter().zip(elements.chunks_exact(width.max(1))) {
                let row = row as usize * width..(row as usize + 1) * width;
                let moments = moments.each_mut().map(|moment| match moment.is_empty() {
                    true => &mut [],
                    false => &mut moment[row.clone()],
                });
                update_elements(level, &change, &mut values[row.clone()], elements, moments);
            }
        }
    }
}

/// Returns values for which [`make_unique`] was called.
fn unique(values: &mut Arc<Vec<f32>>) -> &mut [f32] {
    Arc::get_mut(values).expect("made unique")
}

/// Copies values if others share them.
fn make_unique(values: &mut Arc<Vec<f32>>) -> Result<(), BackendError> {
    if Arc::get_mut(values).is_none() {
        let mut copy = reserved(values.len())?;
        copy.extend_from_slice(values);
        *values = Arc::new(copy);
    }
    Ok(())
}

fn filled(elements: usize, value: f32) -> Result<Vec<f32>, BackendError> {
    let mut values = reserved(elements)?;
    values.resize(elements, value);
    Ok(values)
}

fn reserved(elements: usize) -> Result<Vec<f32>, BackendError> {
    let mut values = Vec::new();
    let reserved = values.try_reserve_exact(elements);
    let error = OutOfMemory { bytes: 4 * elements as u64 };
    reserved.map_err(|_| error.of("the parameters and moments of an update"))?;
    Ok(values)
}

/// Writes the transpose of a matrix.
fn transpose(values: &[f32], columns: usize, to: &mut [f32]) {
    let rows = values.len() / columns;
    for (row, values) in values.chunks_exact(columns).enumerate() {
        to[row..].iter_mut().step_by(rows).zip(values).for_each(|(to, &value)| *to = value);
    }
}

/// Returns the number of outputs of a weight.
fn outputs(network: &Network, weight: Weight) -> usize {
    let dims = &network.parameter(weight.parameter()).dims;
    weight.rows_and_columns(dims).expect("products have matrices").0
}

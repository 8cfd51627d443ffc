//! The gradients of parameters that a trainer has summed, or that its caller has set.

use std::collections::HashSet;
use std::time::Instant;

use edbatch_models::Model;
use edbatch_runtime::{Gradient, Gradients};

use super::{Trainer, training};
use crate::{RunError, TrainError};

impl<M: Model> Trainer<M> {
    /// Returns the gradients of parameters: the sums over all mini-batches since
    /// [`clear_gradients`](Self::clear_gradients), or what the caller has
    /// [set](Self::set_gradients).
    ///
    /// # Errors
    /// If a gradient is not finite, or memory cannot be allocated.
    pub fn gradients(&mut self) -> Result<Gradients, TrainError> {
        self.squared_norm()?;
        let gradients = match &self.set {
            Some(set) => set.try_clone(),
            None => training(&mut *self.backend).gradients(),
        };
        let mut gradients = gradients.map_err(RunError::from)?;
        gradients.parameters.truncate(self.model.network().parameters().len());
        let parameters = self.model.network().parameters().iter();
        for (parameter, gradient) in parameters.zip(&gradients.parameters) {
            if !gradient.elements().iter().all(|element| element.is_finite()) {
                return Err(TrainError::NotFiniteGradient { parameter: parameter.name.clone() });
            }
        }
        Ok(gradients)
    }

    /// Returns the sum of the squares of all [gradients](Self::gradients), without copying them.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn squared_norm(&mut self) -> Result<f64, TrainError> {
        if let Some(set) = &self.set {
            return Ok(set.squared_norm());
        }
        let summing = Instant::now();
        let norm = training(&mut *self.backend).finish().map_err(RunError::from)?;
        self.times.sums += summing.elapsed();
        Ok(norm)
    }

    /// Replaces the gradients of parameters, for example by their sums over several processes.
    ///
    /// # Errors
    /// If they do not have the shapes of the parameters, or name a row twice.
    pub fn set_gradients(&mut self, mut gradients: Gradients) -> Result<(), TrainError> {
        let parameters = self.model.network().parameters();
        let fits = |(index, gradient): (usize, &Gradient)| {
            let Some(parameter) = parameters.get(index) else { return false };
            let (rows, elements) = (parameter.dims[0], parameter.elements());
            match gradient {
                Gradient::None => true,
                Gradient::Whole(values) => values.len() == elements,
                Gradient::Rows { rows: named, elements: values } => {
                    let mut distinct = HashSet::new();
                    values.len() * rows == named.len() * elements
                        && named.iter().all(|&row| (row as usize) < rows && distinct.insert(row))
                }
            }
        };
        let mut all = gradients.parameters.iter().enumerate();
        if gradients.parameters.len() != parameters.len() || !all.all(fits) {
            return Err(TrainError::GradientsOfParameters);
        }
        // Masks have no gradients.
        let all = self.dropout.network.parameters().len();
        gradients.parameters.resize(all, Gradient::None);
        self.set = Some(gradients);
        Ok(())
    }

    /// Sets the gradients of parameters to zero, for the next mini-batch.
    pub fn clear_gradients(&mut self) {
        self.set = None;
        self.accumulated = 0;
        training(&mut *self.backend).forget();
    }

    /// Clears the gradients if a mini-batch failed: a part of it may have been added.
    pub(super) fn or_clear<T>(&mut self, done: Result<T, TrainError>) -> Result<T, TrainError> {
        if done.is_err() {
            self.clear_gradients();
        }
        done
    }
}

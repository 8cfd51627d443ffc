//! Runs whose outputs leave the backend as the indices of their greatest elements.

use std::borrow::Borrow;

use edbatch_models::Model;

use super::Engine;
use crate::{InputError, RunError, RunOptions};

impl<M: Model> Engine<M> {
    /// Runs one mini-batch as [`run`](Self::run) does, for the index of the greatest element of
    /// each row alone: classes, tags, words. The scores stay where they are computed, and none of
    /// them is copied, which a device with many scores gains most from.
    ///
    /// Indices are [`arg_max`](edbatch_models::arg_max) of the rows: of equal elements the lowest;
    /// NaN is never greatest. Of a value of several fields, or of a matrix, they count all elements
    /// as a row of `run` has them.
    ///
    /// ```
    /// # use edbatch::Engine;
    /// # use edbatch::models::{BiLstmTagger, Model, TaggerSizes, arg_max};
    /// # use edbatch::datasets::Sentence;
    /// # use edbatch::runtime::Parameters;
    /// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    /// # let (embed, hidden, mlp) = (4, 4, 4);
    /// # let sizes = TaggerSizes { vocabulary: 9, embed, hidden, layers: 1, mlp, tags: 3 };
    /// # let model = BiLstmTagger::new(sizes)?;
    /// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// # let parameters = Parameters::random(model.network(), &mut rng);
    /// # let mut engine = Engine::new(model, parameters)?;
    /// # let sentence = |words: &[u32]| {
    /// #     Sentence { words: words.to_vec(), tags: vec![None; words.len()] }
    /// # };
    /// let sentences = [sentence(&[1, 2, 5]), sentence(&[4])];
    /// let tags: Vec<Vec<u32>> = engine.run_arg_max(&sentences)?;
    ///
    /// let scores = engine.run(&sentences)?;
    /// assert_eq!(tags[0], scores[0].iter().map(arg_max).collect::<Vec<u32>>());
    /// assert_eq!(tags[1].len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_arg_max(&mut self, inputs: &[M::Input]) -> Result<Vec<Vec<u32>>, RunError> {
        let mut results = vec![Ok(Vec::new()); inputs.len()];
        let took = self.workers.run(&self.model, inputs, &mut results, &|_| true)?;
        let results = results.into_iter().enumerate();
        let outputs = results
            .map(|(instance, result)| result.map_err(|error| RunError::Input { instance, error }))
            .collect::<Result<_, _>>()?;
        self.count(&took);
        Ok(outputs)
    }

    /// As [`run_arg_max`](Self::run_arg_max), but an input that fails takes nothing with it, as in
    /// [`run_each`](Self::run_each).
    ///
    /// # Errors
    /// As [`run_each`](Self::run_each).
    pub fn run_each_arg_max(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Result<Vec<u32>, InputError>>, RunError> {
        let mut results = vec![Ok(Vec::new()); inputs.len()];
        let took = self.workers.run(&self.model, inputs, &mut results, options.still_wanted)?;
        self.count(&took);
        Ok(results)
    }

    /// As [`stream`](Self::stream), for the index of the greatest element of each row alone, as
    /// [`run_arg_max`](Self::run_arg_max) gives it.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn stream_arg_max(
        &mut self,
        width: usize,
        inputs: impl IntoIterator<Item: Borrow<M::Input>>,
        mut done: impl FnMut(usize, Result<&mut Vec<u32>, InputError>),
    ) -> Result<(), RunError> {
        self.stream_into(width, inputs, &mut done)
    }
}

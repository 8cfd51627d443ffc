//! The division of mini-batches into those to learn on and those to evaluate on.

use edbatch_graph::Dag;

/// Mini-batches to learn on, and mini-batches held out to evaluate on. There is at least one of
/// each, and all have the same kinds.
///
/// ```
/// use edbatch_graph::PlainDag;
/// use edbatch_policy::{EmptyTrainingSet, TrainingSet, hold_out};
///
/// let dag = edbatch_graph::parse_text("2\n0 0\n1 1 0\n")?;
/// let (train, held_out) = hold_out(vec![dag; 8]);
/// let set = TrainingSet::new(&train, &held_out)?;
/// assert_eq!((set.train().len(), set.held_out().len()), (6, 2));
/// // A single mini-batch is evaluated on itself.
/// assert_eq!(TrainingSet::new(&train[..1], &[])?.held_out().len(), 1);
/// assert_eq!(TrainingSet::<PlainDag>::new(&[], &[]).err(), Some(EmptyTrainingSet));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TrainingSet<'a, D> {
    train: &'a [D],
    held_out: &'a [D],
}

impl<'a, D: Dag> TrainingSet<'a, D> {
    /// A set to learn on `train` and evaluate on `held_out`, or on `train` if `held_out` is empty.
    ///
    /// # Errors
    /// If `train` is empty.
    pub fn new(train: &'a [D], held_out: &'a [D]) -> Result<Self, EmptyTrainingSet> {
        if train.is_empty() {
            return Err(EmptyTrainingSet);
        }
        Ok(Self { train, held_out: if held_out.is_empty() { train } else { held_out } })
    }

    /// The mini-batches to learn on.
    #[must_use]
    pub fn train(&self) -> &'a [D] {
        self.train
    }

    /// The mini-batches to evaluate on.
    #[must_use]
    pub fn held_out(&self) -> &'a [D] {
        self.held_out
    }

    pub(crate) fn kinds(&self) -> usize {
        self.train.iter().map(Dag::kinds).max().unwrap_or(0)
    }
}

/// Divides mini-batches into those to learn on and those held out. Holds out every fourth; of two
/// or three, the last; of a single one, none.
#[must_use]
pub fn hold_out<D>(mini_batches: Vec<D>) -> (Vec<D>, Vec<D>) {
    let count = mini_batches.len();
    divide(mini_batches, |index| index % 4 == 3 || (count < 4 && index + 1 == count && index > 0))
}

/// Divides mini-batches into those for learning and selection, and those for a final
/// [`compare`](fn@crate::compare). Sets a quarter aside, at least three. If there are fewer than
/// six, sets none aside: the rest would be too few to learn on.
#[must_use]
pub fn set_aside<D>(mini_batches: Vec<D>) -> (Vec<D>, Vec<D>) {
    let count = mini_batches.len();
    let aside = if count < 6 { 0 } else { (count / 4).max(3) };
    // Spread evenly, since inputs may be sorted.
    divide(mini_batches, |index| (index + 1) * aside / count > index * aside / count)
}

/// Divides items by their index, and keeps their order.
fn divide<D>(items: Vec<D>, is_in_second: impl Fn(usize) -> bool) -> (Vec<D>, Vec<D>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        if is_in_second(index) { second.push(item) } else { first.push(item) }
    }
    (first, second)
}

/// The error of a training set without mini-batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected at least one mini-batch to learn on, got none")]
pub struct EmptyTrainingSet;

//! The sizes of mini-batches that are compared.

use std::io;
use std::iter::successors;

use crate::Failure;
use crate::measure::workload::MiniBatch;

/// Maximum instances of a mini-batch, unless the smallest size has more.
const LARGEST: usize = 1024;
/// Minimum number of mini-batches of every size.
const MINI_BATCHES: usize = 4;

/// Mini-batches of several sizes. Whatever the size, together they cover the same instances: twice
/// the size makes half as many mini-batches. If the whole set is a size, others may omit its end.
pub(super) struct Sizes {
    instances: usize,
    /// Instances in a mini-batch of the smallest size, and the number of such mini-batches.
    pub(super) batch: usize,
    count: usize,
    /// The sizes as multiples of the smallest, in ascending order.
    merged: Vec<usize>,
    /// True if larger sizes are tried even if the speed falls.
    pub(super) all: bool,
}

impl Sizes {
    /// The size `batch`, doubled up to [`LARGEST`] or the number of instances of the set. A set
    /// that is too small for [`MINI_BATCHES`] of the largest size is repeated. A mini-batch has an
    /// instance twice only if the smallest size exceeds the set.
    pub(super) fn new(instances: usize, batch: usize) -> Self {
        let fits = |&merged: &usize| merged == 1 || merged * batch <= LARGEST.min(instances);
        let merged = successors(Some(1), |merged| Some(2 * merged)).take_while(fits);
        let merged: Vec<usize> = merged.collect();
        let count = MINI_BATCHES * merged.last().expect("1 fits");
        Self { instances, batch, count, merged, all: false }
    }

    /// For a device: the size `batch`, 4 times and 16 times as much, and the whole set.
    pub(super) fn of_device(instances: usize, batch: usize) -> Self {
        let count = (instances / batch).max(1);
        let mut merged = [1, 4, 16].map(|merged: usize| merged.min(count)).to_vec();
        merged.push(count);
        merged.dedup();
        Self { instances, batch, count, merged, all: true }
    }

    /// Returns the mini-batches of a size.
    pub(super) fn of(&self, merged: usize) -> Vec<MiniBatch> {
        let (count, size) = (self.count / merged, merged * self.batch);
        (0..count).map(|i| MiniBatch { first: i * size % self.instances, size }).collect()
    }

    /// Returns the numbers of all mini-batches of a size.
    pub(super) fn numbers(&self, merged: usize) -> Vec<usize> {
        (0..self.of(merged).len()).collect()
    }

    /// Returns the number of instances in all mini-batches of a size.
    pub(super) fn work(&self, merged: usize) -> f64 {
        (self.count / merged * merged * self.batch) as f64
    }

    /// Tries growing sizes until speed falls or the peer skips one; on a device, does not stop when
    /// speed falls. Returns the fastest as a multiple of the smallest.
    pub(super) fn climb(
        &self,
        mut seconds: impl FnMut(usize) -> Result<f64, Failure>,
    ) -> Result<usize, Failure> {
        let (mut best, mut fastest) = (1, f64::INFINITY);
        for &merged in &self.merged {
            let next = match seconds(merged) {
                Err(failure) if merged > 1 && failure.is::<io::Error>() => break,
                seconds => seconds? / self.work(merged),
            };
            if next <= fastest {
                (best, fastest) = (merged, next);
            } else if !self.all {
                break;
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind::TimedOut};

    use super::{MINI_BATCHES, Sizes};

    #[test]
    fn every_size_has_the_same_instances_and_four_mini_batches() {
        for (instances, largest) in [(2210, 1024), (1696, 1024), (316, 256), (270, 256), (50, 64)] {
            let sizes = Sizes::new(instances, 64);
            let of = |&merged: &usize| {
                let mini_batches = sizes.of(merged);
                assert!(mini_batches.len() >= MINI_BATCHES);
                let each = |mini_batch: &super::MiniBatch| {
                    let all = mini_batch.first..mini_batch.first + mini_batch.size;
                    all.map(|instance| instance % instances).collect::<Vec<_>>()
                };
                mini_batches.iter().flat_map(each).collect::<Vec<_>>()
            };
            let all: Vec<Vec<usize>> = sizes.merged.iter().map(of).collect();
            assert!(all.iter().all(|of_size| *of_size == all[0]), "{instances}");
            assert_eq!(sizes.merged.last().map(|merged| merged * 64), Some(largest));
        }
    }

    #[test]
    fn a_device_tries_all_sizes_up_to_the_whole_set() {
        let sizes = Sizes::of_device(2210, 64);
        let of = |merged: &usize| (merged * 64, sizes.of(*merged).len());
        let all: Vec<_> = sizes.merged.iter().map(of).collect();
        assert_eq!(all, [(64, 34), (256, 8), (1024, 2), (34 * 64, 1)]);
        // 64 and the whole set are as fast, but 1,024 is twice as fast.
        let seconds = |merged| Ok(sizes.work(merged) * if merged == 16 { 1.0 } else { 2.0 });
        assert_eq!(sizes.climb(seconds).unwrap(), 16);
        let skipping = |merged| match merged {
            16.. => Err(Error::new(TimedOut, "too slow").into()),
            merged => Ok(sizes.work(merged)),
        };
        assert_eq!(sizes.climb(skipping).unwrap(), 4);
        assert!(sizes.climb(|_| Err(Error::new(TimedOut, "too slow").into())).is_err());
        assert_eq!(Sizes::of_device(50, 64).merged, [1]);
        assert_eq!(Sizes::of_device(300, 64).merged, [1, 4]);
    }

    #[test]
    fn sizes_are_doubled_until_the_speed_falls() {
        let sizes = Sizes::new(1024, 64);
        for (seconds, best, tried) in [
            ([5.0, 4.0, 3.0, 3.5, 1.0], 4, 4),
            ([5.0, 4.0, 3.0, 2.0, 1.0], 16, 5),
            ([1.0, 4.0, 0.5, 0.5, 0.5], 1, 2),
        ] {
            let mut turns = seconds.into_iter();
            assert_eq!(sizes.climb(|_| Ok(turns.next().unwrap())).unwrap(), best);
            assert_eq!(turns.len(), 5 - tried);
        }
    }
}

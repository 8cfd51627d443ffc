//! The order of examples in an epoch.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

/// Returns the mini-batches of an epoch: all indices below `n`, shuffled, `batch` at a time. The
/// last mini-batch may be smaller. A `batch` of 0 counts as 1.
///
/// The order depends on the arguments alone, and changes from epoch to epoch.
///
/// ```
/// use edbatch::shuffled;
///
/// let mini_batches: Vec<Vec<usize>> = shuffled(5, 2, 1, 0).collect();
/// assert_eq!(mini_batches.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
/// let mut all = mini_batches.concat();
/// all.sort();
/// assert_eq!(all, [0, 1, 2, 3, 4]);
/// ```
pub fn shuffled(n: usize, batch: usize, seed: u64, epoch: u64) -> impl Iterator<Item = Vec<usize>> {
    /// An odd number with random bits, so that other seeds and epochs give other random numbers.
    const EPOCH: u64 = 0xd134_2543_de82_ef95;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ epoch.wrapping_mul(EPOCH));
    let mut order: Vec<usize> = (0..n).collect();
    for end in (1..n).rev() {
        // Fisher and Yates, with the high half of a product, which is the same on all machines.
        let other = (u128::from(rng.next_u64()) * (end as u128 + 1)) >> 64;
        order.swap(end, other as usize);
    }
    let batch = batch.max(1);
    (0..n.div_ceil(batch)).map(move |index| {
        order[index * batch..(index * batch).saturating_add(batch).min(n)].to_vec()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_depends_on_seed_and_epoch_alone() {
        let order = |seed, epoch| shuffled(100, 7, seed, epoch).collect::<Vec<_>>();
        assert_eq!(order(1, 2), order(1, 2));
        assert_eq!(order(1, 2).concat(), shuffled(100, usize::MAX, 1, 2).next().unwrap());
        let orders = [order(1, 2), order(1, 3), order(2, 2), order(2, 1)];
        for (index, order) in orders.iter().enumerate() {
            assert!(!orders[..index].contains(order));
            let mut all = order.concat();
            all.sort_unstable();
            assert_eq!(all, (0..100).collect::<Vec<_>>());
        }
        assert_eq!(shuffled(0, 0, 1, 1).count(), 0);
        assert_eq!(shuffled(3, 0, 1, 1).count(), 3);
    }
}

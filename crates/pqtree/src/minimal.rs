//! Finds a minimal conflict among several sets.
//!
//! Reduce the sets in order. The first refused set, j, is in every conflict among the sets up to j,
//! and the later sets are not needed. Start again: reduce set j first, then the sets before it in
//! order. The set that is refused now is the next one found. Repeat until the found sets alone are
//! in conflict.
//!
//! If any found set is left out, the rest can be reduced: when that set was refused, all others of
//! the result had been reduced, among other sets. The result is minimal by inclusion, not in size.
//!
//! *Source*: J. Chinneck, "Feasibility and Infeasibility in Optimization" (2008), section 6.2, the
//! additive method.
//!
//! *Cost*: the reductions of all sets, once for each set of the result.

use crate::conflict::ReduceError;
use crate::reduce::ReduceAllError;
use crate::tree::PqTree;
use alloc::vec::Vec;

impl PqTree {
    /// Finds a minimal conflict: some of the sets that cannot all be reduced together, though they
    /// can if any one of them is left out. Returns their indices in `sets`, ascending, or `None` if
    /// all sets can be reduced. The tree is unchanged.
    ///
    /// The result is minimal by inclusion; another conflict may have fewer sets. No index is larger
    /// than the index of the first set that is refused when all are reduced in order.
    ///
    /// *Cost*: reducing all sets, once for each set of the result and once more.
    ///
    /// # Errors
    ///
    /// If the search reaches a set with a leaf that is out of range or repeated.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let sets = [&[0, 1][..], &[3, 4], &[1, 2], &[0, 1, 2], &[0, 2], &[2, 3]];
    /// // Each of the pairs 0 1, 1 2 and 0 2 is possible, and any two of them, but not all three.
    /// assert_eq!(PqTree::new(5).minimal_conflict(&sets)?, Some(vec![0, 2, 4]));
    /// # Ok::<(), pqtree::ReduceAllError>(())
    /// ```
    pub fn minimal_conflict<S: AsRef<[u32]>>(
        &mut self,
        sets: &[S],
    ) -> Result<Option<Vec<usize>>, ReduceAllError> {
        let mut found = Vec::new();
        let mut end = sets.len();
        loop {
            let order = found.iter().copied().chain(0..end);
            match self.first_refused(order.map(|index| (index, sets[index].as_ref())))? {
                None if found.is_empty() => return Ok(None),
                Some(refused) if !found.contains(&refused) => {
                    found.push(refused);
                    end = refused;
                }
                // The found sets alone are in conflict.
                _ => break,
            }
        }
        found.sort_unstable();
        Ok(Some(found))
    }

    /// Returns the first set that is refused after the sets before it. The tree is unchanged.
    fn first_refused<'a>(
        &mut self,
        sets: impl Iterator<Item = (usize, &'a [u32])>,
    ) -> Result<Option<usize>, ReduceAllError> {
        let mut refused = Ok(None);
        // The closure always fails, so that the reductions are undone.
        let _: Result<(), ()> = self.attempt(|tree| {
            for (index, set) in sets {
                match tree.reduce(set) {
                    Ok(_) => continue,
                    Err(ReduceError::Conflict) => refused = Ok(Some(index)),
                    Err(error) => refused = Err(ReduceAllError { index, error }),
                }
                break;
            }
            Err(())
        });
        refused
    }
}

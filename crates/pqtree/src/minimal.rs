//! Which of several sets conflict with each other: some of them, of which none can be left out.
//!
//! Reduce the sets in order. The first that is refused, j, is in every conflict among the sets up
//! to j; those after it are not needed. So begin again with set j, then the sets before it in
//! order, and find another one; until those found conflict by themselves.
//!
//! Without any one of those found, the rest can be reduced: each was refused where, of the sets of
//! the result, only it was missing. The result is minimal, not the smallest there is.
//!
//! *Source*: the deletion filter's kin for growing sets; J. Chinneck, "Feasibility and
//! Infeasibility in Optimization" (2008), section 6.2, the additive method.
//!
//! *Cost*: the reductions of all sets, once for each set of the result.

use crate::conflict::ReduceError;
use crate::reduce::ReduceAllError;
use crate::tree::PqTree;
use alloc::vec::Vec;

impl PqTree {
    /// Of sets that cannot all be reduced, some that cannot either, and of which none can be left
    /// out: their places in `sets`, ascending. `None` if all can be reduced. The tree stays as it
    /// is.
    ///
    /// So it is a least conflict by inclusion. Another one may be of fewer sets: of the conflicts
    /// that end with the first set that is refused in order, one is found, not the smallest.
    ///
    /// *Cost*: that of reducing all sets, once for each set of the result and once more.
    ///
    /// # Errors
    ///
    /// If a set has a leaf that is out of range, or named twice, and is looked at.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let sets = [&[0, 1][..], &[3, 4], &[1, 2], &[0, 1, 2], &[0, 2], &[2, 3]];
    /// // Of three, two can be neighbours, and two more, and then not the last two.
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
                // Those found conflict by themselves.
                _ => break,
            }
        }
        found.sort_unstable();
        Ok(Some(found))
    }

    /// The first of several sets that is refused after the ones before it. The tree stays as it is.
    fn first_refused<'a>(
        &mut self,
        sets: impl Iterator<Item = (usize, &'a [u32])>,
    ) -> Result<Option<usize>, ReduceAllError> {
        let mut refused = Ok(None);
        // An error, so that the sets are taken back.
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

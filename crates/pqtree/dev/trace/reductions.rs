//! Operations that reduce a tree: by one set, by several, and until the first conflict.

use super::Trace;
use super::checks::{check_proof, lists};
use std::hash::BuildHasher;

impl Trace<'_> {
    pub(super) fn reduce(&mut self) -> &'static str {
        let set = self.set();
        let (text, hash) = (self.tree.to_string(), self.hash.hash_one(&self.tree));
        let expected = self.tree.can_reduce(&set);
        let implied = self.tree.is_consecutive(&set).expect("a set");
        assert_eq!(self.tree.to_string(), text, "a query changed the tree");
        let before = lists(&self.tree);
        let last_changed = self.changed();
        let model = self.model.as_ref().map(|model| model.reduce(&set));
        match self.tree.reduce(&set) {
            Ok(reduced) => {
                assert_eq!(expected, Ok(()));
                assert_eq!(reduced.changed, !implied);
                assert_eq!(reduced.changed, self.tree.to_string() != text);
                self.check_changed(&before);
                assert_eq!(self.tree.is_consecutive(&set), Ok(true));
                assert_eq!(self.tree.conflict(&set), Ok(None));
                self.check_home(reduced.home, &set);
                self.model = model.map(|model| model.expect("the tree accepted the set"));
                if reduced.changed { "reduced" } else { "implied" }
            }
            Err(error) => {
                assert_eq!(expected, Err(error));
                assert_eq!((self.tree.to_string(), self.hash.hash_one(&self.tree)), (text, hash));
                check_proof(&mut self.tree, &set);
                assert_eq!(self.changed(), last_changed);
                assert!(model.flatten().is_none(), "{set:?} in {}", self.tree);
                "refused"
            }
        }
    }

    pub(super) fn attempt(&mut self) -> &'static str {
        let (one, two) = (self.set(), self.set());
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
        let (before, last_changed) = (lists(&self.tree), self.changed());
        let result = self.tree.attempt(|tree| {
            tree.reduce(&one)?;
            let undone = tree.checkpoint();
            _ = tree.reduce(&two);
            tree.rollback(undone);
            let _ = tree.checkpoint();
            tree.attempt(|tree| tree.reduce(&two))
        });
        match result {
            Ok(_) => self.check_changed(&before),
            Err(_) => assert_eq!(self.changed(), last_changed),
        }
        let Some(model) = &self.model else { return "attempt on an empty tree" };
        let both = model.reduce(&one).and_then(|model| model.reduce(&two));
        assert_eq!(result.is_ok(), both.is_some());
        match both {
            Some(both) => self.model = Some(both),
            None => self.is_back(&text, &copy),
        }
        "attempt"
    }

    pub(super) fn reduce_several(&mut self) -> &'static str {
        let sets = [self.set(), self.set(), self.set()];
        let Some(mut model) = self.model.clone() else { return "reduce several of an empty tree" };
        let first_failure = {
            let mut model = Some(model.clone());
            sets.iter().position(|set| {
                model = model.as_ref().and_then(|model| model.reduce(set));
                model.is_none()
            })
        };
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
        let (before, last_changed) = (lists(&self.tree), self.changed());
        let all = self.tree.reduce_all(&sets);
        assert_eq!(all.err().map(|error| error.index), first_failure);
        if first_failure.is_some() {
            self.is_back(&text, &copy);
            assert_eq!(self.changed(), last_changed);
        } else {
            self.check_changed(&before);
            self.check_cache();
        }
        let mut reduce = |set: &Vec<u32>| model.reduce(set).map(|next| model = next).is_some();
        let expected: Vec<bool> = sets.iter().map(&mut reduce).collect();
        assert_eq!(self.tree.reduce_greedy(&sets), Ok(expected));
        self.model = Some(model);
        "reduce several"
    }

    /// Finds a minimal conflict of six sets: its last set is the first that the model refuses, and
    /// the model accepts all of its sets but any one.
    pub(super) fn minimal_conflict(&mut self) -> &'static str {
        let sets: [Vec<u32>; 6] = std::array::from_fn(|_| self.set());
        let Some(model) = self.model.clone() else { return "minimal conflict of an empty tree" };
        let first_refused = |indices: &[usize]| {
            let mut model = Some(model.clone());
            indices.iter().copied().find(|&index| {
                model = model.as_ref().and_then(|model| model.reduce(&sets[index]));
                model.is_none()
            })
        };
        let (text, copy, changed) = (self.tree.to_string(), self.tree.clone(), self.changed());
        let found = self.tree.minimal_conflict(&sets).expect("the leaves are in range");
        self.is_back(&text, &copy);
        assert_eq!(self.changed(), changed);
        assert_eq!(
            found.as_ref().and_then(|it| it.last().copied()),
            first_refused(&[0, 1, 2, 3, 4, 5])
        );
        let Some(found) = found else { return "no conflict" };
        assert!(found.is_sorted_by(|a, b| a < b) && first_refused(&found).is_some());
        for &left_out in &found {
            let others: Vec<usize> = found.iter().copied().filter(|&it| it != left_out).collect();
            assert_eq!(first_refused(&others), None, "{found:?} of {sets:?} is not minimal");
        }
        "minimal conflict"
    }
}

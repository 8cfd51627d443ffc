//! The free ranges of an arena: few of them in a list, many in two trees.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The free ranges below the end of an arena. Adjacent ranges are merged.
///
/// *Cost*: linear in the number of ranges up to [`FEW`](Self::FEW), beyond it logarithmic. Deep
/// graphs have thousands, most of them too small for any batch.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeRanges {
    /// Ascending. Without ranges if there are many.
    few: Vec<Range<u64>>,
    many: Option<Many>,
}

/// The starts and ends, and the sizes and starts, of the same ranges.
#[derive(Clone, Debug, Default)]
struct Many {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeRanges {
    /// A list of this length is as fast as trees.
    const FEW: usize = 512;

    pub(super) fn clear(&mut self) {
        self.few.clear();
        self.many = None;
    }

    /// Takes `len` elements from the start of the smallest range that is large enough, of equal
    /// ones the first. Returns their offset.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        if let Some(many) = &mut self.many {
            let &(size, start) = many.by_size.range((len, 0)..).next()?;
            many.remove(start..start + size);
            if size > len {
                many.insert(start + len..start + size);
            }
            return Some(start);
        }
        let fitting = self.few.iter().enumerate();
        let fitting = fitting.filter(|(_, range)| range.end - range.start >= len);
        let (index, range) = fitting.min_by_key(|(_, range)| range.end - range.start)?;
        let start = range.start;
        if range.end - start == len {
            self.few.remove(index);
        } else {
            self.few[index].start += len;
        }
        Some(start)
    }

    /// Takes the last range, if it ends at `end`. Returns its start.
    pub(super) fn take_last(&mut self, end: u64) -> Option<u64> {
        let Some(many) = &mut self.many else {
            return self.few.pop_if(|last| last.end == end).map(|last| last.start);
        };
        let (&start, _) = many.by_start.last_key_value().filter(|&(_, &last)| last == end)?;
        many.remove(start..end);
        Some(start)
    }

    /// Adds a range, which is not empty.
    pub(super) fn add(&mut self, range: Range<u64>) {
        if let Some(many) = &mut self.many {
            return many.add(range);
        }
        let at = self.few.partition_point(|free| free.start < range.start);
        let joins_next = self.few.get(at).is_some_and(|next| next.start == range.end);
        let joins_last = at > 0 && self.few[at - 1].end == range.start;
        match (joins_last, joins_next) {
            (true, true) => {
                self.few[at - 1].end = self.few[at].end;
                self.few.remove(at);
            }
            (true, false) => self.few[at - 1].end = range.end,
            (false, true) => self.few[at].start = range.start,
            (false, false) => self.few.insert(at, range),
        }
        if self.few.len() > Self::FEW {
            let many = self.many.insert(Many::default());
            self.few.drain(..).for_each(|range| many.insert(range));
        }
    }
}

impl Many {
    fn insert(&mut self, range: Range<u64>) {
        self.by_start.insert(range.start, range.end);
        self.by_size.insert((range.end - range.start, range.start));
    }

    fn remove(&mut self, range: Range<u64>) {
        self.by_start.remove(&range.start);
        self.by_size.remove(&(range.end - range.start, range.start));
    }

    fn add(&mut self, mut range: Range<u64>) {
        if let Some((&start, &end)) = self.by_start.range(..range.start).next_back()
            && end == range.start
        {
            self.remove(start..end);
            range.start = start;
        }
        if let Some(&end) = self.by_start.get(&range.end) {
            self.remove(range.end..end);
            range.end = end;
        }
        self.insert(range);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

    use super::*;

    impl FreeRanges {
        /// All ranges, ascending.
        pub(in super::super) fn list(&self) -> Vec<Range<u64>> {
            let many = self.many.iter().flat_map(|many| &many.by_start);
            self.few.iter().cloned().chain(many.map(|(&start, &end)| start..end)).collect()
        }
    }

    /// The units of an arena, each free or not.
    struct Units(Vec<bool>);

    impl Units {
        fn ranges(&self) -> Vec<Range<u64>> {
            let mut ranges: Vec<Range<u64>> = Vec::new();
            for unit in (0..self.0.len()).filter(|&unit| self.0[unit]) {
                match ranges.last_mut() {
                    Some(last) if last.end == unit as u64 => last.end += 1,
                    _ => ranges.push(unit as u64..unit as u64 + 1),
                }
            }
            ranges
        }

        fn set(&mut self, range: Range<u64>, is_free: bool) {
            self.0[range.start as usize..range.end as usize].fill(is_free);
        }
    }

    #[test]
    fn few_and_many_ranges_are_those_of_an_arena_of_units() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let (mut free, mut units) = (FreeRanges::default(), Units(vec![false; 20_000]));
        let mut taken = vec![0..10_000, 10_000..20_000];
        let mut seen_many = false;
        for step in 0..4000 {
            // Ranges become many, then few again by merging.
            let frees = rng.random_bool(if step < 2500 { 0.75 } else { 0.3 });
            if frees && !taken.is_empty() {
                let at = rng.random_range(0..taken.len());
                let whole = taken.swap_remove(at);
                let start = rng.random_range(whole.start..whole.end);
                let range = start..whole.end.min(start + rng.random_range(1..3));
                for rest in [whole.start..start, range.end..whole.end] {
                    taken.extend((!rest.is_empty()).then_some(rest));
                }
                units.set(range.clone(), true);
                free.add(range);
            } else {
                let len = rng.random_range(1..9);
                let fits =
                    units.ranges().into_iter().filter(|range| range.end - range.start >= len);
                let best = fits.min_by_key(|range| (range.end - range.start, range.start));
                let start = free.take(len);
                assert_eq!(start, best.map(|range| range.start), "step {step}");
                let range = start.map(|start| start..start + len);
                range.iter().for_each(|range| units.set(range.clone(), false));
                taken.extend(range);
            }
            if step % 97 == 0 {
                let last = units.ranges().pop().filter(|last| last.end == 20_000);
                assert_eq!(free.take_last(20_000), last.as_ref().map(|last| last.start));
                last.iter().for_each(|last| units.set(last.clone(), false));
                taken.extend(last);
            }
            seen_many |= free.many.is_some();
            assert_eq!(free.list(), units.ranges(), "step {step}");
        }
        assert!(seen_many);
        free.clear();
        assert_eq!((free.list(), free.many.is_none()), (Vec::new(), true));
    }
}

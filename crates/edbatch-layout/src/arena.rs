//! Which parts of an arena are free: rows are given back when their last reader has run.

use std::ops::Range;

/// The free ranges of an arena that grows where none is long enough.
///
/// *Cost*: linear in the number of ranges that are free at once, which is at most that of batches
/// that are alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arena {
    /// Ascending; no two touch.
    free: Vec<Range<u64>>,
    end: u64,
}

impl Arena {
    /// Forgets all; so many elements at the front are taken.
    pub(crate) fn reset(&mut self, taken: u64) {
        self.free.clear();
        self.end = taken;
    }

    /// The most elements that were taken or free at once.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Takes the smallest range that `len` elements fit into, or grows. Returns where they begin.
    pub(crate) fn take(&mut self, len: u64) -> u64 {
        let fitting = self.free.iter().enumerate();
        let fitting = fitting.filter(|(_, range)| range.end - range.start >= len);
        let Some((index, range)) = fitting.min_by_key(|(_, range)| range.end - range.start) else {
            let last = self.free.pop_if(|last| last.end == self.end);
            let start = last.map_or(self.end, |last| last.start);
            self.end = start + len;
            return start;
        };
        let start = range.start;
        if range.end - start == len {
            self.free.remove(index);
        } else {
            self.free[index].start += len;
        }
        start
    }

    /// Gives back a range that was taken.
    pub(crate) fn give(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let at = self.free.partition_point(|free| free.start < range.start);
        let joins_next = self.free.get(at).is_some_and(|next| next.start == range.end);
        let joins_last = at > 0 && self.free[at - 1].end == range.start;
        match (joins_last, joins_next) {
            (true, true) => {
                self.free[at - 1].end = self.free[at].end;
                self.free.remove(at);
            }
            (true, false) => self.free[at - 1].end = range.end,
            (false, true) => self.free[at].start = range.start,
            (false, false) => self.free.insert(at, range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(steps: &str, expected: &str) {
        let mut arena = Arena::default();
        arena.reset(16);
        let mut log = Vec::new();
        for step in steps.split(' ') {
            match step.split_once('-') {
                Some((start, end)) => arena.give(start.parse().unwrap()..end.parse().unwrap()),
                None => log.push(arena.take(step.parse().unwrap()).to_string()),
            }
        }
        let free: Vec<String> =
            arena.free.iter().map(|range| format!("{}-{}", range.start, range.end)).collect();
        assert_eq!(format!("{} | {} | {}", log.join(" "), free.join(" "), arena.end()), expected);
    }

    #[test]
    fn neighbours_join_and_the_smallest_that_fits_is_taken() {
        check("16 16 16 16", "16 32 48 64 |  | 80");
        check("16 16 16 16 16-32 48-64 16", "16 32 48 64 16 | 48-64 | 80");
        check("16 16 16 16 16-32 48-64 32-48", "16 32 48 64 | 16-64 | 80");
        check("32 16 16 16 16-48 64-80 16", "16 48 64 80 64 | 16-48 | 96");
        check("16 16-32 32", "16 16 |  | 48");
    }
}

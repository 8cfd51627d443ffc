//! Counts of rejected and accepted mutants, and their expected results.

use std::collections::BTreeMap;

/// A sort of mutation: the changed item, and the change.
pub(crate) type Sort = (&'static str, &'static str);

/// The expected results for mutants of one item.
pub(crate) struct Law {
    pub(crate) what: &'static str,
    /// Fragments of the possible error messages.
    pub(crate) says: &'static [&'static [&'static str]],
    /// Changes that may be harmless, and the reason.
    pub(crate) harmless: &'static [(&'static str, &'static str)],
}

/// The results of mutants, by sort.
#[derive(Default)]
pub(crate) struct Tally {
    counts: BTreeMap<Sort, Count>,
}

#[derive(Default)]
struct Count {
    rejected: usize,
    harmless: usize,
}

impl Tally {
    pub(crate) fn rejected(&mut self, laws: &[Law], sort: Sort, message: &str) {
        self.counts.entry(sort).or_default().rejected += 1;
        let law = law_of(laws, sort);
        let says = law.says.iter().copied().flatten().any(|says| message.contains(says));
        assert!(says, "{sort:?} is rejected for another reason: {message}");
    }

    pub(crate) fn harmless(&mut self, laws: &[Law], sort: Sort, mutant: &dyn std::fmt::Display) {
        self.counts.entry(sort).or_default().harmless += 1;
        let mut ways = law_of(laws, sort).harmless.iter().map(|(how, _)| *how);
        assert!(ways.any(|how| how == sort.1), "{sort:?} is accepted:\n{mutant}");
    }

    /// Adds the counts of other mutants.
    pub(crate) fn add(&mut self, other: Self) {
        for (sort, Count { rejected, harmless }) in other.counts {
            let count = self.counts.entry(sort).or_default();
            count.rejected += rejected;
            count.harmless += harmless;
        }
    }

    /// Checks that every law was used, and that each sort was rejected at least once, except the
    /// sorts that are always harmless.
    pub(crate) fn check(&self, laws: &[Law], always_harmless: &[Sort]) {
        for law in laws {
            let occurred = self.counts.keys().any(|&(what, _)| what == law.what);
            assert!(occurred, "no mutant of {}", law.what);
        }
        for (sort, Count { rejected, harmless }) in &self.counts {
            let (what, how) = sort;
            println!("{what:<18} {how:<18} {rejected:>7} rejected, {harmless:>5} harmless");
            assert_eq!(*rejected == 0, always_harmless.contains(sort), "{sort:?} was rejected");
        }
        let total: usize = self.counts.values().map(|count| count.rejected + count.harmless).sum();
        println!("{total} mutants of {} sorts", self.counts.len());
    }
}

fn law_of(laws: &[Law], (what, how): Sort) -> &Law {
    let law = laws.iter().find(|law| law.what == what);
    law.unwrap_or_else(|| panic!("no law for {what}, {how}"))
}

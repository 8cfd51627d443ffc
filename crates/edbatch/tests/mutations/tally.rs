//! How many mutants of each sort there were, what became of them, and what should have.

use std::collections::BTreeMap;

/// A sort of mutation: what was changed, and how.
pub(crate) type Sort = (&'static str, &'static str);

/// What may become of the mutants in which one thing was changed.
pub(crate) struct Law {
    pub(crate) what: &'static str,
    /// What the checker says of it: one of these.
    pub(crate) says: &'static [&'static [&'static str]],
    /// How it may be changed without effect on any result, and why.
    pub(crate) harmless: &'static [(&'static str, &'static str)],
}

/// What became of the mutants, by their sort.
#[derive(Default)]
pub(crate) struct Tally {
    counts: BTreeMap<Sort, Count>,
}

#[derive(Default)]
struct Count {
    refused: usize,
    harmless: usize,
}

impl Tally {
    pub(crate) fn refused(&mut self, laws: &[Law], sort: Sort, message: &str) {
        self.counts.entry(sort).or_default().refused += 1;
        let law = law_of(laws, sort);
        let says = law.says.iter().copied().flatten().any(|says| message.contains(says));
        assert!(says, "{sort:?} is refused for another reason: {message}");
    }

    pub(crate) fn harmless(&mut self, laws: &[Law], sort: Sort, mutant: &dyn std::fmt::Display) {
        self.counts.entry(sort).or_default().harmless += 1;
        let mut ways = law_of(laws, sort).harmless.iter().map(|(how, _)| *how);
        assert!(ways.any(|how| how == sort.1), "{sort:?} is accepted:\n{mutant}");
    }

    /// Every sort occurred and was refused; but for what can only be harmless.
    pub(crate) fn check(&self, laws: &[Law], always_harmless: &[Sort]) {
        for law in laws {
            let occurred = self.counts.keys().any(|&(what, _)| what == law.what);
            assert!(occurred, "no mutant of {}", law.what);
        }
        for (sort, Count { refused, harmless }) in &self.counts {
            println!("{:<18} {:<18} {refused:>7} refused, {harmless:>5} harmless", sort.0, sort.1);
            assert_eq!(*refused == 0, always_harmless.contains(sort), "{sort:?} was refused");
        }
        let total: usize = self.counts.values().map(|count| count.refused + count.harmless).sum();
        println!("{total} mutants of {} sorts", self.counts.len());
    }
}

fn law_of(laws: &[Law], (what, how): Sort) -> &Law {
    let law = laws.iter().find(|law| law.what == what);
    law.unwrap_or_else(|| panic!("no law for {what}, {how}"))
}

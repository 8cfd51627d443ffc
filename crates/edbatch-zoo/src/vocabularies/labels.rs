//! The labels in files of inputs: class numbers, or names.

use std::collections::HashSet;

use crate::targets::CLASS_OR_NONE;

/// If a numeric label reaches this limit, all labels are names of classes.
pub(super) const MAX_CLASSES: usize = 1 << 16;

/// Distinct labels, in the order of their first occurrence.
#[derive(Default)]
pub(super) struct Labels {
    pub(super) names: Vec<String>,
    known: HashSet<String>,
    /// The largest class number in `labels` of lattices plus one.
    pub(super) end: usize,
    /// The number of -1 in `labels` of lattices.
    pub(super) minus_ones: usize,
    /// The number of labels with the text `-1`.
    minus_one_texts: usize,
    only_classes: bool,
    /// See [`Vocabularies`](super::Vocabularies).
    pub(super) unwritable: Vec<String>,
}

impl Labels {
    /// No labels yet; [`check`](Self::check) refuses negative numbers other than -1.
    pub(super) fn only_classes() -> Self {
        Self { only_classes: true, ..Self::default() }
    }

    pub(super) fn insert(&mut self, label: &str) {
        self.minus_one_texts += usize::from(label == NO_CLASS);
        if !self.known.contains(label) {
            self.names.push(label.into());
            self.known.insert(label.into());
        }
    }

    pub(super) fn contains(&self, label: &str) -> bool {
        self.known.contains(label)
    }

    /// Returns the check of each label while a file is read.
    pub(super) fn check(&self) -> impl Fn(&str) -> Result<(), String> + use<> {
        let only_classes = self.only_classes;
        move |label| match only_classes && is_negative(label) {
            true => Err(CLASS_OR_NONE.into()),
            false => Ok(()),
        }
    }

    fn numbers(&self) -> impl Iterator<Item = Option<usize>> {
        let classes = self.names.iter().filter(|&name| name != NO_CLASS);
        classes.map(|name| name.parse().ok().filter(|&number| number < MAX_CLASSES))
    }

    /// Returns true if labels are numbers of classes, or -1.
    pub(super) fn are_numbers(&self) -> bool {
        self.numbers().all(|number| number.is_some())
    }

    /// Returns a negative number other than -1 if all labels are numbers.
    pub(super) fn negative(&self) -> Option<&String> {
        let are_numbers = self.names.iter().all(|name| is_number(name));
        self.names.iter().find(|name| are_numbers && is_negative(name))
    }

    /// Returns the number of classes.
    pub(super) fn classes(&self) -> usize {
        match self.are_numbers() {
            true => self.numbers().flatten().map(|number| number + 1).fold(self.end, usize::max),
            false => self.names.len(),
        }
    }

    /// Returns the number of labels -1 that mean no class.
    pub(super) fn unlabelled(&self) -> usize {
        self.minus_ones + if self.are_numbers() { self.minus_one_texts } else { 0 }
    }
}

/// The label without a class, if all labels are numbers.
const NO_CLASS: &str = "-1";

fn is_negative(label: &str) -> bool {
    label != NO_CLASS && label.starts_with('-') && is_number(label)
}

/// Returns true for a decimal number, but not for `nan` and `inf`.
fn is_number(label: &str) -> bool {
    label.ends_with(|last: char| last.is_ascii_digit()) && label.parse::<f64>().is_ok()
}

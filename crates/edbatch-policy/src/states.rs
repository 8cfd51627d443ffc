//! States as numbers: a word of symbols leads, letter by letter, through a dense transition table.
//!
//! *Cost*: one look-up a letter, no hashing and no comparison; a row of the table per prefix.

use crate::Symbol;

/// The states met so far. A state is the row at which its last letter arrives; row 0 is the start.
#[derive(Clone, Debug)]
pub(crate) struct States {
    features: usize,
    letters: usize,
    /// Where letter `l` leads from row `r`: `next[r * letters + l]`, or 0 for nowhere.
    next: Vec<u32>,
}

impl States {
    pub(crate) fn new(features: u16, kinds: usize) -> Self {
        let features = usize::from(features);
        let letters = (features + kinds).max(1);
        Self { features, letters, next: vec![0; letters] }
    }

    /// Number of rows, of states and of prefixes of states.
    pub(crate) fn rows(&self) -> usize {
        self.next.len() / self.letters
    }

    pub(crate) fn find(&self, state: &[Symbol]) -> Option<usize> {
        let mut row = 0;
        for &symbol in state {
            row = self.next[row * self.letters + self.letter(symbol)] as usize;
            if row == 0 {
                return None;
            }
        }
        Some(row)
    }

    pub(crate) fn intern(&mut self, state: &[Symbol]) -> usize {
        let mut row = 0;
        for &symbol in state {
            let step = row * self.letters + self.letter(symbol);
            if self.next[step] == 0 {
                self.next[step] = u32::try_from(self.rows()).expect("fewer than 2^32 states");
                self.next.resize(self.next.len() + self.letters, 0);
            }
            row = self.next[step] as usize;
        }
        row
    }

    fn letter(&self, symbol: Symbol) -> usize {
        match symbol {
            Symbol::Feature(feature) => usize::from(feature),
            Symbol::Kind(kind) => self.features + kind.index(),
        }
    }
}

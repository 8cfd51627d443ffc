//! Numbers for states. The symbols of a state lead through a dense transition table (a trie).
//!
//! *Cost*: one table lookup per symbol, without hashing; one row of the table per prefix.

use crate::Symbol;

/// The known states. A state's number is the row that its last symbol leads to; row 0 is the root.
#[derive(Clone, Debug)]
pub(crate) struct States {
    features: usize,
    symbols: usize,
    /// `next[r * symbols + s]` is the row that symbol `s` leads to from row `r`, or 0 for none.
    next: Vec<u32>,
}

impl States {
    pub(crate) fn new(features: u16, kinds: usize) -> Self {
        let features = usize::from(features);
        let symbols = (features + kinds).max(1);
        Self { features, symbols, next: vec![0; symbols] }
    }

    /// Number of rows, for states and for prefixes of states.
    pub(crate) fn rows(&self) -> usize {
        self.next.len() / self.symbols
    }

    pub(crate) fn find(&self, state: &[Symbol]) -> Option<usize> {
        let mut row = 0;
        for &symbol in state {
            row = self.next[row * self.symbols + self.column(symbol)] as usize;
            if row == 0 {
                return None;
            }
        }
        Some(row)
    }

    pub(crate) fn intern(&mut self, state: &[Symbol]) -> usize {
        let mut row = 0;
        for &symbol in state {
            let entry = row * self.symbols + self.column(symbol);
            if self.next[entry] == 0 {
                self.next[entry] = u32::try_from(self.rows()).expect("fewer than 2^32 states");
                self.next.resize(self.next.len() + self.symbols, 0);
            }
            row = self.next[entry] as usize;
        }
        row
    }

    fn column(&self, symbol: Symbol) -> usize {
        match symbol {
            Symbol::Feature(feature) => usize::from(feature),
            Symbol::Kind(kind) => self.features + kind.index(),
        }
    }
}

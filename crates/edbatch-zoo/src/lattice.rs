//! The cells and the wiring that the lattice models share: one call for each character and word.

use edbatch_datasets::{Lattice, WordArc};
use edbatch_graph::{CellBuilder, CellError, Kind, Network, RecordId, Tensor, Value};
use edbatch_models::{Build, BuildError};

use crate::cells::{linear, logits};
use crate::model::Built;

/// The sizes of a lattice model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatticeSizes {
    /// Number of characters.
    pub chars: usize,
    /// Number of words.
    pub words: usize,
    /// Elements of an embedding.
    pub embed: usize,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Number of classes.
    pub classes: usize,
}

/// The cells of a lattice model, and the state before the first character.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatticeKinds {
    start: Value,
    char: Kind,
    word: Kind,
    output: Kind,
}

/// Returns the number of characters and words.
pub(crate) fn work(lattice: &Lattice<u32>) -> usize {
    lattice.len() + lattice.words.len()
}

impl LatticeKinds {
    /// Declares the cells for a state of `N` fields, hidden vector first. `step` adds the equations
    /// of the next state, given the name of a cell, an embedding and the previous state. `initial`
    /// names the parameters of the first state.
    pub(crate) fn declare<const N: usize>(
        network: &mut Network,
        sizes: LatticeSizes,
        state: RecordId,
        initial: [&str; N],
        step: for<'c> fn(&'c CellBuilder, &str, Tensor<'c>, [Tensor<'c>; N]) -> Vec<Tensor<'c>>,
    ) -> Result<Self, CellError> {
        let LatticeSizes { chars, words, embed, classes, .. } = sizes;
        let scores = logits(network, classes)?;
        let start = network.initial(state, &initial)?;
        let mut arc = |name: &str, rows: usize| {
            network.cell(name, state, |cell| {
                let x = cell.lookup(name, &format!("{name}_embed.weight"), &[rows, embed]);
                step(cell, name, x, cell.many("from", state).mean())
            })
        };
        let (char, word) = (arc("char", chars)?, arc("word", words)?);
        let output = network.cell("output", scores, |cell| {
            let fields: [Tensor<'_>; N] = cell.many("arcs", state).mean();
            vec![linear(cell, "out", classes, fields[0])]
        })?;
        Ok(Self { start, char, word, output })
    }

    /// Calls the cells for one lattice. State j, the state after character j, is the mean of the
    /// arcs that end there. No node computes this mean: each reader of the state reads all these
    /// arcs and averages them itself.
    pub(crate) async fn build(&self, build: &Build<'_>, lattice: &Lattice<u32>) -> Built {
        let length = lattice.chars.len();
        let outside = |word: &&WordArc<u32>| word.start >= word.end || word.end as usize >= length;
        if let Some(WordArc { start, end, .. }) = lattice.words.iter().find(outside) {
            return Err(BuildError::Input(format!(
                "a word from character {start} to {end} of a lattice of {length} characters: \
                 expected start < end < {length}"
            )));
        }
        // A word's arc is called right after the arc of its last character, so that the arcs of
        // each state are contiguous.
        let mut by_end: Vec<_> = lattice.words.iter().collect();
        by_end.sort_by_key(|word| word.end);
        let mut words = by_end.into_iter().peekable();
        // The arcs that end in state j are `arcs[first[j]..first[j + 1]]`.
        let mut arcs = Vec::with_capacity(1 + lattice.chars.len() + lattice.words.len());
        let mut first = Vec::with_capacity(2 + lattice.chars.len());
        first.extend([0, 1]);
        arcs.push(self.start);
        for (j, &char) in lattice.chars.iter().enumerate() {
            arcs.push(build.call(self.char, &[char], &arcs[first[j]..first[j + 1]])?);
            while let Some(word) = words.next_if(|word| word.end as usize == j) {
                let start = word.start as usize;
                let from = &arcs[first[start]..first[start + 1]];
                arcs.push(build.call(self.word, &[word.word], from)?);
            }
            first.push(arcs.len());
        }
        let states = first[1..].windows(2).map(|state| &arcs[state[0]..state[1]]);
        Ok(build.emit_each(self.output, states)?)
    }
}

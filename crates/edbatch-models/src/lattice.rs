//! How the lattice models wire a lattice: a call for each character and each word.

use edbatch_datasets::{Lattice, WordArc};
use edbatch_graph::{Kind, Value};

use crate::Build;
use crate::model::BuildError;

/// The cells of a lattice model, and the state before the first character.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wiring {
    pub(crate) start: Value,
    pub(crate) char: Kind,
    pub(crate) word: Kind,
    pub(crate) output: Kind,
}

impl Wiring {
    /// State j comes after character j. It is not a node of its own: who reads it reads all the
    /// arcs into it, the character's first.
    pub(crate) fn build(
        &self,
        build: &Build<'_>,
        lattice: &Lattice<u32>,
    ) -> Result<(), BuildError> {
        let length = lattice.chars.len();
        let outside = |word: &&WordArc<u32>| word.start >= word.end || word.end as usize >= length;
        if let Some(WordArc { start, end, .. }) = lattice.words.iter().find(outside) {
            return Err(BuildError::Input(format!(
                "a word from character {start} to {end} of a lattice of {length} characters: \
                 expected start < end < {length}"
            )));
        }
        // A word's arc is called once its last character's is, so that each state's arcs are
        // contiguous.
        let mut by_end: Vec<_> = lattice.words.iter().collect();
        by_end.sort_by_key(|word| word.end);
        let mut words = by_end.into_iter().peekable();
        // Arcs into state j: `arcs[first[j]..first[j + 1]]`.
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

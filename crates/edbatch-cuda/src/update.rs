//! Updates of parameters on a device: the changes as `kernels/update.cu` reads them.

use edbatch_runtime::kernels::{Change, Rule};

/// The words of a change, and the elements of a chunk.
const CHANGE: usize = 14;
const CHUNK: u32 = 1024;

/// The changes of an update, and the chunks into which blocks divide them.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) changes: Vec<u32>,
    pub(crate) chunks: Vec<u32>,
    /// The rows of tables that change.
    pub(crate) rows: Vec<u32>,
    /// The bits of gradients, if the host has them.
    pub(crate) gradients: Option<Vec<u32>>,
}

/// The elements that change: the places of the parameter and of its gradient, and the number of
/// elements of the gradient; then its rows and the elements of a row, unless it has all.
pub(crate) struct Changed<'a> {
    pub(crate) at: u32,
    pub(crate) from: u32,
    pub(crate) elements: u32,
    pub(crate) rows: Option<(&'a [u32], u32)>,
}

impl Changes {
    /// Adds a change; without one, the elements are only packed again.
    pub(crate) fn add(&mut self, changed: &Changed<'_>, change: Option<&Change>) {
        let Changed { at, from, elements, rows } = *changed;
        let number = (self.changes.len() / CHANGE) as u32;
        let ([rule, flags], [rate, epsilon, first, second, root], [decay, keep]) = match change {
            None => ([NO_RULE, 0], [0.0; 5], [0.0; 2]),
            Some(change) => {
                let (rule, factors) = rule_words(change.rule);
                (rule, factors, [change.decay, change.keep])
            }
        };
        let (list, width) = rows.map_or((0, 0), |(rows, width)| {
            let list = self.rows.len() as u32;
            self.rows.extend(rows);
            (list, width)
        });
        self.changes.extend([rule, flags, at, from, elements, list, width]);
        self.changes.extend(
            [rate, decay, keep, epsilon, first, second, root].map(|factor| factor.to_bits()),
        );
        self.chunks.extend((0..elements).step_by(CHUNK as usize).flat_map(|first| [number, first]));
    }
}

/// The number of the rule that changes nothing.
const NO_RULE: u32 = 5;

/// The number and the flags of a rule; then its rate, epsilon, both factors and the root's factor.
fn rule_words(rule: Rule) -> ([u32; 2], [f32; 5]) {
    match rule {
        Rule::Descent { rate } => ([0, 0], [rate, 0.0, 0.0, 0.0, 0.0]),
        Rule::Momentum { rate, momentum, gradient, nesterov } => {
            ([1, nesterov.into()], [rate, 0.0, momentum, gradient, 0.0])
        }
        Rule::AdaGrad { rate, epsilon } => ([2, 0], [rate, epsilon, 0.0, 0.0, 0.0]),
        Rule::RmsProp { rate, new, epsilon, momentum, centered } => {
            ([3, 2 * u32::from(centered)], [rate, epsilon, new, momentum, 0.0])
        }
        Rule::Adam { rate, new, root, epsilon } => ([4, 0], [rate, epsilon, new[0], new[1], root]),
    }
}

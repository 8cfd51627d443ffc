//! The places that the steps of a cell read and write.

use super::{Base, CellStep, Mode, Place, RowStep, Scores};

impl CellStep {
    /// Returns the places that the step reads, with the number of elements per call.
    #[must_use]
    pub fn reads(&self) -> Vec<(Place, u32)> {
        match self {
            Self::Reduce { port, from, width, .. } => {
                vec![(Place { base: Base::Port(*port), offset: *from }, *width)]
            }
            Self::Product { rows, width, x, out, mode, .. } => match mode {
                Mode::Set => vec![(*x, *width)],
                Mode::Add => vec![(*x, *width), (*out, *rows)],
                Mode::From(start) => vec![(*x, *width), (*start, *rows)],
            },
            Self::MatMul { left, right, bias, m, k, n, .. } => {
                let right = right.iter().map(|&(place, rows)| (place, rows * n));
                let bias = bias.map(|place| (place, *m));
                [(*left, m * k)].into_iter().chain(right).chain(bias).collect()
            }
            Self::Elementwise { width, inputs, .. } => {
                inputs.iter().map(|&place| (place, *width)).collect()
            }
            Self::Attention { port, scores, values, heads, width, .. } => {
                let field = |offset| Place { base: Base::Port(*port), offset };
                match *scores {
                    Scores::Field(scores) => {
                        vec![(field(scores), *heads), (field(*values), *width)]
                    }
                    Scores::Keys { query, keys, width: of_keys } => {
                        vec![(query, of_keys), (field(keys), of_keys), (field(*values), *width)]
                    }
                }
            }
            Self::AttentionBack { of, query, gradient, .. } => {
                let field = |(offset, width)| (Place { base: Base::Port(of.port), offset }, width);
                let own = [(*query, of.keys.1), (*gradient, of.values.1)];
                own.into_iter().chain([field(of.keys), field(of.values)]).collect()
            }
            Self::Rows(step) => step.reads(),
        }
    }

    /// Returns the places that the step reads, except a result that it accumulates into.
    pub(crate) fn inputs_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Self::Product { x, mode: Mode::From(start), .. } => vec![x, start],
            Self::Product { x, .. } => vec![x],
            Self::MatMul { left, right, bias, .. } => {
                let right = right.iter_mut().map(|(place, _)| place);
                [left].into_iter().chain(right).chain(bias).collect()
            }
            Self::Elementwise { inputs, .. } => inputs.iter_mut().collect(),
            Self::AttentionBack { query, gradient, .. } => vec![query, gradient],
            Self::Attention { scores: Scores::Keys { query, .. }, .. } => vec![query],
            Self::Rows(step) => step.operands_mut().iter_mut().collect(),
            Self::Reduce { .. } | Self::Attention { scores: Scores::Field(_), .. } => vec![],
        }
    }

    /// Returns the places that the step writes.
    pub(crate) fn outputs_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Self::Elementwise { outputs, .. } => outputs.iter_mut().collect(),
            Self::Reduce { out, .. }
            | Self::Product { out, .. }
            | Self::MatMul { out, .. }
            | Self::Attention { out, .. }
            | Self::AttentionBack { out, .. }
            | Self::Rows(RowStep { out, .. }) => vec![out],
        }
    }

    /// Sorts the outputs of an element-wise step by their places, after the places have changed.
    pub(crate) fn sort_outputs(&mut self) {
        if let Self::Elementwise { outputs, program, .. } = self {
            let mut order: Vec<usize> = (0..outputs.len()).collect();
            order.sort_unstable_by_key(|&index| outputs[index]);
            program.reorder_outputs(&order);
            outputs.sort_unstable();
        }
    }

    /// Returns true if the step both reads and writes the same region or the output. A product that
    /// accumulates into its own result does not count.
    pub(crate) fn reads_what_it_writes(&self) -> bool {
        let writes = self.writes();
        let own = |read: &(Place, u32)| {
            matches!(self, Self::Product { mode: Mode::Add, .. }) && writes.contains(read)
        };
        let same = |place: Place| writes.iter().any(|(out, _)| out.base == place.base);
        self.reads().iter().any(|read| !own(read) && same(read.0))
    }

    /// Returns the places that the step writes, with the number of elements per call.
    #[must_use]
    pub fn writes(&self) -> Vec<(Place, u32)> {
        match self {
            Self::Reduce { width, out, .. } | Self::Attention { width, out, .. } => {
                vec![(*out, *width)]
            }
            Self::AttentionBack { of, out, .. } => vec![(*out, of.keys.1 + 2 * of.heads)],
            Self::Product { rows, out, .. } => vec![(*out, *rows)],
            Self::MatMul { m, n, out, .. } => vec![(*out, m * n)],
            Self::Elementwise { width, outputs, .. } => {
                outputs.iter().map(|&place| (place, *width)).collect()
            }
            Self::Rows(step) => vec![(step.out, step.written())],
        }
    }
}

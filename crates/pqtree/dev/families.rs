//! Families of consecutive-ones instances, for tests and benches. Most sets of leaves are intervals
//! of a hidden order. The same arguments always give the same instance.

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

/// The distribution of the intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    /// All of one length.
    Fixed(usize),
    /// Lengths from 2 to a limit, uniform.
    Uniform(usize),
    /// Lengths from 2 to n/4, uniform in their logarithm.
    Logarithmic,
    /// Begin and end uniform.
    Matrix,
    /// Like `Logarithmic`, but in one set of four, one member is exchanged for a leaf outside, so
    /// that the set may be impossible.
    Corrupted,
    /// The sets of a random PQ-tree, shuffled. Takes no budget.
    Tree,
}

/// Generates sets over the leaves `0..n`, until their sizes sum up to `budget`.
pub(crate) fn generate(family: Family, n: usize, budget: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut random = Random::new(seed);
    let mut hidden: Vec<u32> = (0..n as u32).collect();
    random.shuffle(&mut hidden);
    let mut sets = Vec::new();
    if let Family::Tree = family {
        tree(&mut random, &hidden, 0, n, &mut sets);
        random.shuffle(&mut sets);
        return sets;
    }
    let mut total = 0;
    while total < budget {
        let (begin, end) = match family {
            Family::Fixed(length) => {
                let begin = random.below(n - length + 1);
                (begin, begin + length)
            }
            Family::Uniform(limit) => {
                let length = 2 + random.below(limit - 1);
                let begin = random.below(n - length + 1);
                (begin, begin + length)
            }
            Family::Matrix => {
                let begin = random.below(n - 2);
                (begin, begin + 2 + random.below(n - begin - 2))
            }
            Family::Logarithmic | Family::Corrupted | Family::Tree => {
                let (low, high) = (2f64.ln(), (n as f64 / 4.0).ln());
                let length = ((low + (high - low) * random.unit()).exp() as usize).max(2);
                let begin = random.below(n - length + 1);
                (begin, begin + length)
            }
        };
        let mut set = interval(&mut random, &hidden, begin, end);
        if matches!(family, Family::Corrupted) && random.below(4) == 0 {
            let outside = loop {
                let place = random.below(n);
                if !(begin..end).contains(&place) {
                    break place;
                }
            };
            let exchanged = random.below(set.len());
            set[exchanged] = hidden[outside];
        }
        total += set.len();
        sets.push(set);
    }
    sets
}

fn interval(random: &mut Random, hidden: &[u32], begin: usize, end: usize) -> Vec<u32> {
    let mut set = hidden[begin..end].to_vec();
    random.shuffle(&mut set);
    set
}

fn tree(random: &mut Random, hidden: &[u32], begin: usize, end: usize, sets: &mut Vec<Vec<u32>>) {
    let length = end - begin;
    if length < 2 {
        return;
    }
    let degree = (2 + random.below(7)).min(length);
    let mut cuts = Vec::new();
    if length <= 16 {
        cuts.extend(begin + 1..end);
        random.shuffle(&mut cuts);
        cuts.truncate(degree - 1);
    } else {
        while cuts.len() < degree - 1 {
            let cut = begin + 1 + random.below(length - 1);
            if !cuts.contains(&cut) {
                cuts.push(cut);
            }
        }
    }
    cuts.extend([begin, end]);
    cuts.sort_unstable();
    let is_q = random.below(2) == 0 && degree >= 3;
    if is_q {
        for three in cuts.windows(3) {
            sets.push(interval(random, hidden, three[0], three[2]));
        }
    } else if length < hidden.len() {
        sets.push(interval(random, hidden, begin, end));
    }
    for two in cuts.windows(2) {
        tree(random, hidden, two[0], two[1], sets);
    }
}

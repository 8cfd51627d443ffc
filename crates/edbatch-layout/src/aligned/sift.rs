//! Giving up operands of large problems: each pass sifts them once, instead of both passes being
//! run for each run of them.
//!
//! 1. The [first pass](super::gradual) takes the operands one after the other, and leaves out
//!    whatever cannot be joined.
//! 2. On the tree that comes out, the [second pass](super::orient) does the same with what is left,
//!    in directions that the [majority](super::majority) wants.
//! 3. What is kept satisfies both passes. What was given up in the second still narrows that tree,
//!    so the tree is made again without it, and as much as was refused is [tried
//!    again](mod@super::give_up) as a budget allows.
//!
//! Asking for contiguity first and for directions last is also the better order: an operand with
//! its positions the wrong way round joins nodes that belong together, and is then seen to be the
//! only one that is turned.
//!
//! *Source*: ours. *Cost*: near-linear, and a linear test for each try of the third step.

use super::accepted::Accepted;
use super::component::Component;
use super::gradual::Gradual;
use super::majority::majority_first;
use super::orient::orient_each;
use super::snapshot::Snapshot;

/// How often the first pass may look at each position. Four times is common.
const LOOKS: u64 = 64;

/// What sifting a sequence leaves.
pub(super) struct Sifted<'a> {
    pub(super) accepted: Accepted<'a>,
    /// The elements accepted.
    pub(super) kept: Vec<u32>,
    /// How many positions were looked at.
    pub(super) work: u64,
}

/// Accepts what it can of the elements of a sequence.
pub(super) fn sift<'a>(component: &'a Component, sequence: &[u32]) -> Sifted<'a> {
    let mut gradual = Gradual::none(component);
    let limit = LOOKS * u64::from(component.positions());
    for &element in sequence {
        // One that cannot be added is not kept.
        let _is_kept = gradual.work < limit && gradual.add(element);
    }
    let snapshot = Snapshot::of(&gradual.tree);
    let sequence = majority_first(&snapshot, component, &mut gradual.kept);
    orient_each(&snapshot, component, &mut gradual.kept, &sequence);
    let kept: Vec<u32> = gradual.kept.concat();
    let mut accepted = Accepted::none(component);
    let addition = accepted.add(&kept).expect("both passes were satisfied, with more asked");
    accepted.keep(addition);
    Sifted { accepted, kept, work: gradual.work }
}

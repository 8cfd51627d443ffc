//! Directions by majority: how the Q-nodes of a tree should lie if not all operands can have their
//! way.
//!
//! Every operand says of some nodes whether they lie as those of its batch's first operand do, or
//! turned. Taken one after the other, a few wrong ones that come early would turn much of the tree
//! the wrong way. So weigh what is said of the same two nodes, join nodes by the clearest
//! majorities first, and then turn single nodes while that helps. Of each batch, those operands
//! that agree with the directions found are to be accepted first: the heaviest group of those that
//! differ from them in the same way.
//!
//! *Source*: ours; a maximum spanning forest and local search, for a problem (MAX-2-XOR) that is
//! NP-hard. *Cost*: O(positions · log positions).

use std::cmp::Reverse;

use super::component::Component;
use super::isomorphism::{Listener, Matcher};
use super::relation::{Relation, Turn};
use super::snapshot::Snapshot;

/// How often all nodes are looked at for one to turn.
const ROUNDS: u32 = 16;

/// Puts the elements first in their batches, and in the sequence that is returned, that agree with
/// the majority.
pub(super) fn majority_first(
    tree: &Snapshot,
    component: &Component,
    kept: &mut [Vec<u32>],
) -> Vec<u32> {
    let claims = claims(tree, component, kept);
    let turns = directions(tree, component, &claims);
    let weight = |group: &[Claim]| -> u64 {
        group.iter().map(|claim| component.elements[claim.element as usize].weight).sum()
    };
    let (mut winners, mut losers) = (Vec::new(), Vec::new());
    let mut claims = claims.into_iter();
    for batch in kept.iter_mut().filter(|batch| !batch.is_empty()) {
        let mut claims: Vec<Claim> = claims.by_ref().take(batch.len()).collect();
        for relation in claims.iter_mut().flat_map(|claim| &mut claim.relations) {
            let differs = turns[relation.a as usize] != turns[relation.b as usize];
            relation.turned = differs != relation.turned;
        }
        // What is left of a claim is in what it differs from the directions found.
        let key = |claim: &Claim| claim.relations.iter().map(|r| r.turned).collect::<Vec<_>>();
        claims.sort_by_cached_key(key);
        let mut groups: Vec<&[Claim]> = claims.chunk_by(|a, b| key(a) == key(b)).collect();
        groups.sort_by_key(|group| Reverse(weight(group)));
        batch.clear();
        for (place, group) in groups.into_iter().enumerate() {
            let elements = group.iter().map(|claim| claim.element);
            batch.extend(elements.clone());
            if place == 0 { &mut winners } else { &mut losers }.extend(elements);
        }
    }
    winners.append(&mut losers);
    winners
}

/// What an element says of the directions of nodes: each relates one of the batch's first element
/// to one of its own.
struct Claim {
    element: u32,
    relations: Vec<Related>,
}

#[derive(Clone, Copy)]
struct Related {
    a: u32,
    b: u32,
    turned: bool,
}

fn claims(tree: &Snapshot, component: &Component, kept: &[Vec<u32>]) -> Vec<Claim> {
    let mut matcher = Matcher::default();
    let positions = |index: u32| component.elements[index as usize].positions.as_slice();
    let mut claims = Vec::new();
    for batch in kept {
        for &element in batch {
            let mut claim = Claim { element, relations: Vec::new() };
            matcher.match_operands(tree, positions(batch[0]), positions(element), &mut claim);
            claims.push(claim);
        }
    }
    claims
}

/// For each node, whether it should be turned.
fn directions(tree: &Snapshot, component: &Component, claims: &[Claim]) -> Vec<bool> {
    let mut votes = votes(component, claims);
    let mut relation = Relation::new(tree.len());
    votes.sort_by_key(|vote| Reverse(vote.balance.abs()));
    for vote in &votes {
        // One that contradicts the ones before it is outvoted.
        let _outvoted = relation.relate(vote.a, vote.b, &Turn(vote.balance < 0));
    }
    let mut turns: Vec<bool> = (0..tree.len()).map(|node| relation.find(node).1.0).collect();
    let mut votes_of = vec![Vec::new(); tree.len() as usize];
    for vote in &votes {
        votes_of[vote.a as usize].push((vote.b, vote.balance));
        votes_of[vote.b as usize].push((vote.a, vote.balance));
    }
    for _ in 0..ROUNDS {
        let mut changed = false;
        for (node, votes) in votes_of.iter().enumerate() {
            let agrees = |&(other, balance): &(u32, i128)| {
                if turns[node] == turns[other as usize] { balance } else { -balance }
            };
            if votes.iter().map(agrees).sum::<i128>() < 0 {
                turns[node] = !turns[node];
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    turns
}

/// What is said of two nodes: positive if they rather lie alike.
struct Vote {
    a: u32,
    b: u32,
    balance: i128,
}

fn votes(component: &Component, claims: &[Claim]) -> Vec<Vote> {
    let mut votes = Vec::new();
    for claim in claims {
        let weight = i128::from(component.elements[claim.element as usize].weight);
        for &Related { a, b, turned } in
            claim.relations.iter().filter(|related| related.a != related.b)
        {
            let balance = if turned { -weight } else { weight };
            votes.push(Vote { a: a.min(b), b: a.max(b), balance });
        }
    }
    votes.sort_unstable_by_key(|vote| (vote.a, vote.b));
    votes.dedup_by(|later, kept| {
        let same = (later.a, later.b) == (kept.a, kept.b);
        if same {
            kept.balance += later.balance;
        }
        same
    });
    votes
}

impl Listener for Claim {
    fn directions(&mut self, a: u32, b: u32, turned: bool) {
        self.relations.push(Related { a, b, turned });
    }

    fn permutations(&mut self, _: u32, _: u32, _: &[u32]) {}

    fn missing(&mut self, _: &mut dyn Iterator<Item = u32>) {
        unreachable!("operands have equal trees after the first pass");
    }
}

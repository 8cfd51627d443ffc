//! PQ-trees: all orders of a set in which given subsets stay consecutive.
//!
//! For example: order the columns of a 0/1 matrix so that the ones of every row are consecutive,
//! the genes of several genomes so that each cluster is unbroken, or the variables of a program so
//! that each batch of them is one block of memory. There may be no such order, or one, or 10^100. A
//! [`PqTree`] represents *all* of them, in memory proportional to the number of elements. Adding a
//! subset takes time nearly proportional to the size of that subset.
//!
//! ```
//! use pqtree::PqTree;
//!
//! let mut tree = PqTree::new(5);
//! tree.reduce(&[0, 1])?;
//! tree.reduce(&[1, 2])?;
//! assert_eq!(tree.to_string(), "(3 4 [0 1 2])");
//! assert_eq!(tree.orders_count(), Some(12));
//! assert!(tree.contains_order(&[4, 2, 1, 0, 3]));
//!
//! // 0 and 2 cannot be neighbours any more. The tree is unchanged, and can explain why.
//! assert!(tree.reduce(&[0, 2]).is_err());
//! let conflict = tree.conflict(&[0, 2])?.expect("the set is refused");
//! let why = "1 lies between 0 and 2 in every order, but is not in the set";
//! assert_eq!(conflict.to_string(), why);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # PQ-trees in five pictures
//!
//! The elements are the leaves. There are two kinds of inner nodes. The children of a **P**-node,
//! drawn `( )`, may be in any order. The children of a **Q**-node, drawn `[ ]`, are in the given
//! order or its reverse. After any such choices, reading the leaves from left to right gives one of
//! the orders that the tree *admits*. A new tree admits every order:
//!
//! ```text
//!            P                   (0 1 2 3 4)          5! = 120 orders
//!     ┌───┬──┴┬───┬───┐
//!     0   1   2   3   4
//! ```
//!
//! *Reducing* the set {0, 1} puts these two below a P-node of their own. They may swap places, and
//! the pair may be anywhere.
//!
//! ```text
//!            P                   (2 3 4 (0 1))        4! · 2! = 48 orders
//!     ┌───┬──┴┬─────┐
//!     2   3   4     P
//!                 ┌─┴─┐
//!                 0   1
//! ```
//!
//! Then {1, 2}: 2 must be next to 1, and so must 0, so 1 is in the middle. The three become a
//! Q-node, which can only be reversed.
//!
//! ```text
//!            P                   (3 4 [0 1 2])        3! · 2 = 12 orders
//!     ┌───┬──┴──┐
//!     3   4     Q
//!            ┌──┼──┐
//!            0  1  2
//! ```
//!
//! Then {2, 3, 4}: 3 and 4, in any order, join the Q-node at the end where 2 is.
//!
//! ```text
//!             Q                  [0 1 2 (3 4)]        2 · 2! = 4 orders
//!     ┌───┬───┴──┬─────┐
//!     0   1      2     P
//!                    ┌─┴─┐
//!                    3   4
//! ```
//!
//! And {0, 2} is impossible, because 1 is between them. A refused reduction changes nothing. On
//! request, the tree names leaves that [prove](Conflict) the refusal.
//!
//! The tree also shows the sets that are consecutive in *every* order: the leaves of any node, and
//! of any run of children of a Q-node. There are no others.
//!
//! # Overview
//!
//! | to | use |
//! |---|---|
//! | keep a set together | [`reduce`](PqTree::reduce), [`reduce_all`](PqTree::reduce_all), [`reduce_greedy`](PqTree::reduce_greedy) |
//! | query | [`can_reduce`](PqTree::can_reduce), [`is_consecutive`](PqTree::is_consecutive), [`smallest_consecutive_superset`](PqTree::smallest_consecutive_superset) |
//! | explain a refusal | [`conflict`](PqTree::conflict), [`minimal_conflict`](PqTree::minimal_conflict) |
//! | undo | [`attempt`](PqTree::attempt), [`checkpoint`](PqTree::checkpoint), [`rollback`](PqTree::rollback), [`commit`](PqTree::commit) |
//! | get an order | [`frontier`](PqTree::frontier), [`write_frontier`](PqTree::write_frontier), [`orders`](PqTree::orders), [`nth_order`](PqTree::nth_order), [`sample_with`](PqTree::sample_with) |
//! | test or count orders | [`contains_order`](PqTree::contains_order), [`orders_count`](PqTree::orders_count), [`orders_count_exact`](PqTree::orders_count_exact), [`orders_log2`](PqTree::orders_log2) |
//! | inspect the tree | [`root`](PqTree::root), [`children`](PqTree::children), [`parent`](PqTree::parent), [`siblings`](PqTree::siblings), [`kind`](PqTree::kind), [`pre_order`](PqTree::pre_order), [`post_order`](PqTree::post_order), [`changed`](PqTree::changed) |
//! | combine trees | [`intersect`](PqTree::intersect), [`project`](PqTree::project), [`restrictions`](PqTree::restrictions), [`from_orders`](PqTree::from_orders) |
//! | change the leaves | [`insert`](PqTree::insert), [`insert_under`](PqTree::insert_under), [`remove`](PqTree::remove), [`replace`](PqTree::replace), [`replace_set`](PqTree::replace_set), [`merge`](PqTree::merge) |
//! | name the leaves | [`Labeled`] |
//! | order in a circle | [`CircularTree`] |
//! | print and parse | `Display`, `FromStr`, [`dot`](PqTree::dot), serde; also for labels and circular trees |
//! | compare | `Eq` and `Hash` by the orders admitted, [`canonical`](PqTree::canonical) |
//!
//! Features, all off by default: `rand` for `PqTree::sample`, `serde` for `Serialize` and
//! `Deserialize`. The crate is `no_std` with `alloc`. It has no required dependencies and no
//! `unsafe`.
//!
//! # When not to use it
//!
//! When no perfect order exists and you need the *best* one: that problem is NP-hard, and
//! [`reduce_greedy`](PqTree::reduce_greedy) is only a heuristic. When you [remove](PqTree::remove)
//! many single leaves by number: each removal takes O(n), because leaves are numbered without gaps.
//! [`replace_set`](PqTree::replace_set) is faster, but renumbers other leaves. The crate needs
//! atomic operations on pointer-sized words.
//!
//! # Cost
//!
//! A tree takes 12 bytes per leaf and 24 per inner node. The unit of time is a *lookup* of the
//! parent of a node, by union–find with path halving: O(log n) amortised, and nearly always one
//! step.
//!
//! - Reducing a set S: O(|S|) lookups, amortised over all reductions of a tree.
//! - Reducing a set that is consecutive already: O(|S|) lookups. The structure is not written.
//! - A refusal: O(|S| + depth) lookups, where depth is the number of ancestors of the deepest leaf
//!   of S. The number of their children does not matter. Most refusals stop earlier.
//! - The [proof](PqTree::conflict) of a refusal, on request: O(|S| log |S| + ancestors of S +
//!   height).
//! - Undoing a change: the same as the change.
//!
//! The cost of each other method is in its documentation; most take O(n). Nothing recurses, so deep
//! trees are not a special case.
//!
//! # How it works
//!
//! The tree is a PC-tree, Hsu and McConnell's simplification of Booth and Lueker's PQ-tree, rooted
//! at a leaf that is in no set. So one rule replaces the nine classic templates. A reduction first
//! labels and checks the nodes, and changes the tree only if it is certain to succeed. In the
//! source, read the modules `label`, `apex`, `check` and `rearrange`, then `work` and `nodes`.
//!
//! *Further reading*: K. Booth and G. Lueker, "Testing for the consecutive ones property, interval
//! graphs, and graph planarity using PQ-tree algorithms" (1976); W.-L. Hsu and R. McConnell, "PC
//! trees and circular-ones arrangements" (2003); S. Fink, M. Pfretzschner and I. Rutter,
//! "Experimental comparison of PC-trees and PQ-trees" (ESA 2021).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

// The README is tested like the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod apex;
mod builder;
mod canonical;
mod changed;
mod check;
mod circular;
mod conflict;
mod count;
mod dot;
mod explain;
mod graft;
mod intersect;
mod intervals;
mod journal;
mod label;
mod labeled;
mod leaves;
mod log2;
mod minimal;
mod node;
mod nodes;
mod orders;
mod rearrange;
mod reduce;
mod segments;
#[cfg(feature = "serde")]
mod serde;
mod span;
mod stack;
mod text;
mod tree;
#[cfg(test)]
mod visits;
mod walk;
mod work;

pub use circular::{CircularConflict, CircularNode, CircularTree};
pub use conflict::{Conflict, LeafError, ReduceError};
pub use count::OrderCount;
pub use dot::Dot;
pub use graft::Replaced;
pub use intervals::OrdersError;
pub use journal::Checkpoint;
pub use labeled::{
    Labeled, LabeledAllError, LabeledCheckpoint, LabeledConflict, LabeledError, LabeledParseError,
};
pub use node::{Kind, NodeId};
pub use orders::Orders;
pub use reduce::{ReduceAllError, Reduced};
pub use text::ParseError;
pub use tree::PqTree;
pub use walk::{Children, Leaves, PostOrder, PreOrder};

// All public types are `Send` and `Sync`.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<PqTree>();
    is_send_and_sync::<CircularTree>();
    is_send_and_sync::<Labeled<u8>>();
    is_send_and_sync::<(Checkpoint, LabeledCheckpoint, Reduced, Replaced, OrderCount)>();
    is_send_and_sync::<(Children<'_>, Leaves<'_>, PostOrder<'_>, PreOrder<'_>)>();
    is_send_and_sync::<(Orders<'_>, Dot<'_>, NodeId, Kind, CircularNode)>();
    is_send_and_sync::<(Conflict, CircularConflict, LabeledConflict<'_, u8>)>();
    is_send_and_sync::<(LeafError, ReduceError, ReduceAllError, OrdersError, ParseError)>();
    is_send_and_sync::<(LabeledError, LabeledAllError, LabeledParseError<u8>)>();
};

//! PQ-trees: all orders of a set in which given subsets stay consecutive.
//!
//! Put the columns of a 0/1 matrix in an order in which the ones of every row are together; the
//! genes of some genomes so that each cluster is unbroken; the variables of a program so that each
//! batch of them is one piece of memory. There may be no such order, or one, or 10^100 of them. A
//! [`PqTree`] holds *all* of them at once, in memory that grows with the number of elements, and
//! takes one more subset in time that grows with that subset.
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
//! // 0 and 2 can no longer be neighbours: the tree stays as it was, and says why if it is asked.
//! assert!(tree.reduce(&[0, 2]).is_err());
//! let conflict = tree.conflict(&[0, 2])?.expect("it was refused");
//! let why = "1, not of the set, lies between 0 and 2 in every order";
//! assert_eq!(conflict.to_string(), why);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # PQ-trees in five pictures
//!
//! The elements are the leaves. An inner node is of one of two kinds. The children of a **P**-node,
//! drawn `( )`, stand in any order; those of a **Q**-node, drawn `[ ]`, in the order given or in
//! its reverse. Reading the leaves from left to right after any such choices gives the orders that
//! the tree *admits*. At first, everything goes:
//!
//! ```text
//!            P                   (0 1 2 3 4)          5! = 120 orders
//!     ┌───┬──┴┬───┬───┐
//!     0   1   2   3   4
//! ```
//!
//! *Reducing* the set {0, 1} puts these two under a P-node of their own: they may change places
//! with each other, and the pair may stand anywhere.
//!
//! ```text
//!            P                   (2 3 4 (0 1))        4! · 2! = 48 orders
//!     ┌───┬──┴┬─────┐
//!     2   3   4     P
//!                 ┌─┴─┐
//!                 0   1
//! ```
//!
//! Then {1, 2}: 2 has to stand beside 1, and 0 still does, so that 1 is in the middle. The three
//! are a Q-node: only to be turned around.
//!
//! ```text
//!            P                   (3 4 [0 1 2])        3! · 2 = 12 orders
//!     ┌───┬──┴──┐
//!     3   4     Q
//!            ┌──┼──┐
//!            0  1  2
//! ```
//!
//! Then {2, 3, 4}: 3 and 4, in any order, join the line at the end at which 2 is.
//!
//! ```text
//!             Q                  [0 1 2 (3 4)]        2 · 2! = 4 orders
//!     ┌───┬───┴──┬─────┐
//!     0   1      2     P
//!                    ┌─┴─┐
//!                    3   4
//! ```
//!
//! And {0, 2} is impossible, as 1 is between them. A refused reduction changes nothing; if asked,
//! the tree names leaves that [prove](Conflict) the refusal.
//!
//! What is consecutive in *every* order can be read off as well: the leaves of any node, and of any
//! run of children of a Q-node; nothing else.
//!
//! # What there is
//!
//! | to | use |
//! |---|---|
//! | keep a set together | [`reduce`](PqTree::reduce), [`reduce_all`](PqTree::reduce_all), [`reduce_greedy`](PqTree::reduce_greedy) |
//! | ask first | [`can_reduce`](PqTree::can_reduce), [`is_consecutive`](PqTree::is_consecutive), [`smallest_consecutive_superset`](PqTree::smallest_consecutive_superset) |
//! | know why not | [`conflict`](PqTree::conflict), [`minimal_conflict`](PqTree::minimal_conflict) |
//! | try, and go back | [`attempt`](PqTree::attempt), [`checkpoint`](PqTree::checkpoint), [`rollback`](PqTree::rollback), [`commit`](PqTree::commit) |
//! | get an order | [`frontier`](PqTree::frontier), [`write_frontier`](PqTree::write_frontier), [`orders`](PqTree::orders), [`nth_order`](PqTree::nth_order), [`sample_with`](PqTree::sample_with) |
//! | test or count orders | [`contains_order`](PqTree::contains_order), [`orders_count`](PqTree::orders_count), [`orders_count_exact`](PqTree::orders_count_exact), [`orders_log2`](PqTree::orders_log2) |
//! | look at the tree | [`root`](PqTree::root), [`children`](PqTree::children), [`parent`](PqTree::parent), [`siblings`](PqTree::siblings), [`kind`](PqTree::kind), [`pre_order`](PqTree::pre_order), [`post_order`](PqTree::post_order), [`changed`](PqTree::changed) |
//! | combine trees | [`intersect`](PqTree::intersect), [`project`](PqTree::project), [`restrictions`](PqTree::restrictions), [`from_orders`](PqTree::from_orders) |
//! | change the leaves | [`insert`](PqTree::insert), [`insert_under`](PqTree::insert_under), [`remove`](PqTree::remove), [`replace`](PqTree::replace), [`replace_set`](PqTree::replace_set), [`merge`](PqTree::merge) |
//! | name the leaves | [`Labeled`] |
//! | order in a circle | [`CircularTree`] |
//! | write and read | `Display`, `FromStr`, [`dot`](PqTree::dot), serde; also labels and circles |
//! | compare | `Eq` and `Hash` by the orders admitted, [`canonical`](PqTree::canonical) |
//!
//! Features, none of them on: `rand` for `PqTree::sample`, `serde` for `Serialize` and
//! `Deserialize`. The crate is `no_std` with `alloc`, has no dependency that is not optional, and
//! no `unsafe`.
//!
//! # When not to use it
//!
//! For the *best* order where no perfect one is to be had, [`reduce_greedy`](PqTree::reduce_greedy)
//! is but a heuristic: the exact question is NP-hard. Leaves are numbered without gaps, so that
//! [removing](PqTree::remove) one by number takes O(n); [`replace_set`](PqTree::replace_set) moves
//! others instead. The crate needs atomic operations on words of pointer size.
//!
//! # What it costs
//!
//! A tree of n leaves: 12 bytes a leaf and 24 an inner node. With *find* for the time to find the
//! parent of a node, which is by union–find with path halving: O(log n) amortised, and nearly
//! always one step,
//!
//! - reducing a set S: O(|S|) finds, amortised over all reductions of a tree;
//! - a set that is consecutive already: O(|S|) finds, and no structure is written;
//! - a refusal: O(|S| + depth) finds, depth being the number of ancestors of the deepest leaf of S,
//!   however many children these have; on most refusals as few as are needed to know;
//! - the [proof](PqTree::conflict) of a refusal, when asked for: O(|S| log |S| + ancestors of S +
//!   height);
//! - undoing: as much as was done.
//!
//! All else says what it costs; mostly O(n). Nothing recurses, so a tree may be as deep as it has
//! leaves.
//!
//! # How it works
//!
//! The tree is a PC-tree, Hsu and McConnell's simplification of Booth and Lueker's PQ-tree, hung up
//! at a leaf that is in no set; so the nine templates of the classic become one rule. A reduction
//! first labels and checks, and writes only when it is sure to succeed. The modules say more, in
//! the order `label`, `apex`, `check`, `rearrange`, over `work` and `nodes`.
//!
//! *Read on*: K. Booth and G. Lueker, "Testing for the consecutive ones property, interval graphs,
//! and graph planarity using PQ-tree algorithms" (1976); W.-L. Hsu and R. McConnell, "PC trees and
//! circular-ones arrangements" (2003); S. Fink, M. Pfretzschner and I. Rutter, "Experimental
//! comparison of PC-trees and PQ-trees" (ESA 2021).
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

// Trees can be sent to other threads and looked at from them, and so can all that comes with them.
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

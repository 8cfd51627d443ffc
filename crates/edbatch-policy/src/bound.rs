//! No schedule has fewer batches than this.

use edbatch_graph::{Dag, Kind, NodeId};

use crate::{Chains, Frontier};

/// The sum, over the kinds, of the longest chain of that kind. Nodes of one chain need a batch
/// each, and a batch serves one kind: no schedule has fewer batches.
///
/// *Source*: appendix A.3 of the paper, with transitive chains (see [`Chains`]): on the authors'
/// lattices they give 239 where direct edges give 14.
///
/// ```
/// let chain = edbatch_graph::parse_text("3\n0 0\n1 1 0\n0 1 1\n")?;
/// assert_eq!(edbatch_policy::lower_bound(&chain), 3);
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[must_use]
pub fn lower_bound(dag: &impl Dag) -> usize {
    Chains::new(&Frontier::new(dag)).bound()
}

/// A bound that is never weaker, and stronger where two kinds alternate: it looks at pairs of
/// paths.
///
/// The batches of two kinds `s` and `t`, in order, are a common supersequence of all paths' letters
/// `s` and `t`. So they are at least as many as the shortest common supersequence of any two paths
/// has letters, which a table of the size of the two paths gives; the other kinds need their
/// longest chains. Of all paths we take some with many `s`, many `t`, or many of both; and pairs of
/// kinds that gain something, the best first, as long as they share no kind.
///
/// It helps on trees with two inner kinds and on random strings (chains whose kinds are the
/// letters), and hardly on lattices, whose critical chains follow each other.
///
/// *Cost*: for each pair of kinds with chains, five passes over the edges and a table for each of
/// some hundred pairs of paths: milliseconds, where [`lower_bound`] takes microseconds.
///
/// ```
/// use edbatch_policy::{lower_bound, pair_bound};
///
/// // Chains 0 1 and 1 0: one of the kinds must run twice.
/// let dag = edbatch_graph::parse_text("4\n0 0\n1 1 0\n1 0\n0 1 2\n")?;
/// assert_eq!((lower_bound(&dag), pair_bound(&dag)), (2, 3));
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[must_use]
pub fn pair_bound(dag: &impl Dag) -> usize {
    let frontier = crate::quotient(&Frontier::new(dag));
    let chains = Chains::new(&frontier);
    let kinds = (0..frontier.kinds()).map(Kind::new);
    let present: Vec<_> = kinds.filter(|&kind| chains.longest(kind) > 0).collect();
    let mut gains = Vec::new();
    for (i, &s) in present.iter().enumerate() {
        for &t in &present[i + 1..] {
            let alone = (chains.longest(s) + chains.longest(t)) as usize;
            let together = pair(&frontier, s, t);
            if together > alone {
                gains.push((together - alone, s, t));
            }
        }
    }
    gains.sort_by_key(|&(gain, s, t)| (std::cmp::Reverse(gain), s, t));
    let mut used = vec![false; frontier.kinds()];
    let mut bound = chains.bound();
    for (gain, s, t) in gains {
        if !used[s.index()] && !used[t.index()] {
            (used[s.index()], used[t.index()]) = (true, true);
            bound += gain;
        }
    }
    bound
}

/// How many of one kind a path should have for each of the other.
const WISHES: [[u32; 2]; 5] = [[1, 0], [2, 1], [1, 1], [1, 2], [0, 1]];

/// How many paths to take for each wish.
const PATHS: usize = 6;

/// The batches that two kinds need, bounded by pairs of paths.
fn pair(frontier: &Frontier, s: Kind, t: Kind) -> usize {
    let mut paths: Vec<Vec<Kind>> = Vec::new();
    for wish in WISHES {
        let worth = |kind| {
            if kind == s {
                wish[0]
            } else if kind == t {
                wish[1]
            } else {
                0
            }
        };
        paths.extend(richest(frontier, worth, |kind| kind == s || kind == t));
    }
    paths.sort_unstable();
    paths.dedup();
    let pairs = paths.iter().enumerate().flat_map(|(i, p)| paths[i..].iter().map(move |q| (p, q)));
    pairs.map(|(p, q)| supersequence(p, q)).max().unwrap_or(0)
}

/// The kinds, of those asked for, on the paths that are worth most.
fn richest(
    frontier: &Frontier,
    worth: impl Fn(Kind) -> u32,
    keep: impl Fn(Kind) -> bool,
) -> Vec<Vec<Kind>> {
    let nodes = frontier.nodes();
    let mut most = vec![0; nodes];
    let mut next = vec![None; nodes];
    for node in (0..nodes).rev().map(NodeId::new) {
        let users = frontier.users(node).iter().copied();
        next[node.index()] = users.max_by_key(|user| most[user.index()]);
        let rest = next[node.index()].map_or(0, |user: NodeId| most[user.index()]);
        most[node.index()] = worth(frontier.kind(node)) + rest;
    }
    let sources = frontier.arguments().filter(|(_, arguments)| arguments.len() == 0);
    let mut starts: Vec<_> = sources.map(|(node, _)| node).collect();
    starts.sort_by_key(|node| std::cmp::Reverse(most[node.index()]));
    let path = |&start: &NodeId| {
        let path = std::iter::successors(Some(start), |node| next[node.index()]);
        path.map(|node| frontier.kind(node)).filter(|&kind| keep(kind)).collect()
    };
    starts.iter().take(PATHS).map(path).collect()
}

/// The length of a shortest common supersequence of two strings.
pub(crate) fn supersequence(p: &[Kind], q: &[Kind]) -> usize {
    // With nothing of `p`, all of `q`; then letter after letter of `p`.
    let mut row: Vec<usize> = (0..=q.len()).collect();
    for (i, letter) in p.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for j in 1..=q.len() {
            let shared = diagonal;
            diagonal = row[j];
            row[j] = 1 + if q[j - 1] == *letter { shared } else { row[j].min(row[j - 1]) };
        }
    }
    row[q.len()]
}

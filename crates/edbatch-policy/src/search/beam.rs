//! Beam search over the orders of kinds.
//!
//! *Source*: our own. The bound is the same as in [`Critical`](crate::Critical).
//!
//! A state is the set of completed nodes. All states of a level have the same number of batches.
//! The children of a state run one ready kind each. Of all children of a level the best `width` are
//! kept: those with the smallest sum of batches so far and bound on the rest. Ties go to the state
//! with the smallest remaining urgency: the squares of [`Chains::needs`], summed over the nodes
//! that have not run.
//!
//! Some children are never searched. A kind whose ratio is 1 begins a shortest schedule (the
//! paper's lemma), so it is the only child. Two paths to the same set of nodes are one state. A
//! child that cannot be better than the best known schedule is dropped. If no other child had to be
//! dropped, the search has *closed*: the best known schedule is optimal. (States are identified by
//! random hashes of 64 bits. A proof is wrong only if two of its states have the same hash.)
//!
//! The value of a child is computed from the counters of its parent. Only the children that are
//! kept are created, by copying the parent and running the batch.
//!
//! *Cost*: a state copies O(nodes × kinds with chains) counters and runs one batch.

use std::collections::HashSet;

use edbatch_graph::{Kind, NodeId};

use crate::memory::is_available;
use crate::{Chains, Frontier, KindFrontiers};

/// The search problem, computed once for a graph.
pub(crate) struct Problem {
    frontier: Frontier,
    /// The state before the first batch.
    root: State,
    node_info: Vec<NodeInfo>,
    /// The start of each kind in [`State::waiting`].
    starts: Vec<u32>,
    /// The column of each kind in [`State::counts`], if it has one.
    column: Vec<Option<u32>>,
    columns: usize,
}

struct NodeInfo {
    kind: Kind,
    height: u32,
    /// The square of the node's needs. (Other powers rank states equally well. The square is exact
    /// in integers, so it can be subtracted.)
    urgency: u64,
    /// A random number. The hash of a state is the exclusive or over its completed nodes.
    hash: u64,
}

/// A set of completed nodes, and values that follow from it.
#[derive(Clone, Default)]
struct State {
    /// For each node, the number of arguments that have not run.
    pending: Vec<u32>,
    /// The counts of [`KindFrontiers`], by node and column.
    counts: Vec<u32>,
    /// For each kind and height, the number of nodes that have not become ready.
    waiting: Vec<u32>,
    kinds: Vec<KindState>,
    remaining: usize,
    /// The number of batches so far.
    batches: usize,
    /// A lower bound on the number of batches still to come.
    bound: usize,
    urgency: u64,
    hash: u64,
    /// The index of the last step on the path to this state.
    step: u32,
}

#[derive(Clone, Default)]
struct KindState {
    ready: Vec<NodeId>,
    /// The sum of the urgencies of the ready nodes.
    urgency: u64,
    /// The exclusive or of the hashes of the ready nodes.
    hash: u64,
    /// The number of nodes in the kind's frontier, each counted by its weight.
    frontier: usize,
    highest: u32,
}

/// A candidate for the next level, whose state has not been created.
#[derive(Clone, Copy)]
struct Child {
    /// The number of batches so far, plus the bound on the rest.
    total: usize,
    urgency: u64,
    hash: u64,
    parent: u32,
    kind: Kind,
}

/// The result of one beam search, level by level.
pub(crate) struct Pass {
    /// The kinds of the best schedule found, if it is shorter than the best known one.
    pub(crate) found: Option<Vec<Kind>>,
    /// True if no state was dropped for lack of width.
    pub(crate) closed: bool,
    /// True if the search ended because memory is exhausted.
    pub(crate) is_exhausted: bool,
}

impl Problem {
    /// The search problem of a graph before its first batch, or `None` if memory is exhausted.
    pub(crate) fn new(frontier: Frontier) -> Option<Self> {
        let chains = Chains::new(&frontier);
        let kind_frontiers = KindFrontiers::try_new(&frontier, &chains)?;
        let mut problem = Self {
            starts: Vec::new(),
            column: Vec::new(),
            columns: 0,
            root: State::default(),
            node_info: Vec::new(),
            frontier,
        };
        problem.init_nodes(&chains);
        problem.init_root(&chains, kind_frontiers);
        Some(problem)
    }

    /// The sum of the longest chains: no schedule has fewer batches.
    pub(crate) fn bound(&self) -> usize {
        self.root.bound
    }

    /// The approximate size of a state in bytes.
    pub(crate) fn state_bytes(&self) -> usize {
        let State { pending, counts, waiting, kinds, .. } = &self.root;
        4 * (pending.len() + counts.len() + waiting.len() + self.node_info.len())
            + size_of::<KindState>() * kinds.len()
            + size_of::<State>()
    }

    /// Searches level by level for a schedule of fewer than `known` batches. `is_over` is asked
    /// before every state.
    pub(crate) fn pass(&self, width: usize, known: usize, is_over: &dyn Fn() -> bool) -> Pass {
        let mut pass = Pass { found: None, closed: true, is_exhausted: false };
        let mut known = known;
        let mut steps: Vec<(u32, Kind)> = Vec::new();
        let mut level = vec![self.root.clone()];
        let mut spare = Vec::new();
        let mut children = Vec::new();
        let mut hashes = HashSet::new();
        'levels: while !level.is_empty() {
            // Each child is listed and hashed, and lists may be copied when they grow.
            let ready = |state: &State| state.kinds.iter().filter(|k| !k.ready.is_empty()).count();
            let candidates: usize = level.iter().map(ready).sum();
            let states = candidates.min(width).saturating_mul(2 * self.state_bytes());
            let lists = 4 * size_of::<Child>() * (steps.len() + candidates);
            if !is_available(states.saturating_add(lists)) {
                (pass.closed, pass.is_exhausted) = (false, true);
                break;
            }
            self.children(&level, known, &mut children);
            pass.closed &= keep_best(&mut children, &mut hashes, width);
            let mut next: Vec<State> = Vec::with_capacity(children.len());
            for child in &children {
                if is_over() {
                    pass.closed = false;
                    break 'levels;
                }
                let mut state: State = spare.pop().unwrap_or_default();
                state.clone_from(&level[child.parent as usize]);
                steps.push((state.step, child.kind));
                state.step = u32::try_from(steps.len()).expect("fewer than 2^32 states");
                self.run(&mut state, child.kind);
                if state.remaining > 0 {
                    next.push(state);
                } else if state.batches < known {
                    known = state.batches;
                    pass.found = Some(trace(&steps, state.step));
                }
            }
            spare.append(&mut level);
            level = next;
        }
        pass
    }

    fn init_nodes(&mut self, chains: &Chains) {
        for node in (0..self.frontier.nodes()).map(NodeId::new) {
            self.node_info.push(NodeInfo {
                kind: self.frontier.kind(node),
                height: chains.height(node),
                urgency: u64::from(chains.needs(node)).pow(2),
                hash: splitmix64(node.0.into()),
            });
        }
    }

    fn init_root(&mut self, chains: &Chains, kind_frontiers: KindFrontiers) {
        let frontier = &self.frontier;
        let root = &mut self.root;
        for kind in (0..frontier.kinds()).map(Kind::new) {
            let highest = chains.longest(kind);
            self.starts.push(NodeId::new(root.waiting.len()).0);
            root.waiting.resize(root.waiting.len() + highest as usize + 1, 0);
            root.bound += highest as usize;
            root.kinds.push(KindState {
                frontier: kind_frontiers.size(kind),
                highest,
                ..KindState::default()
            });
        }
        for (node, arguments) in frontier.arguments() {
            let info = &self.node_info[node.index()];
            root.pending.push(NodeId::new(arguments.len()).0);
            root.waiting[(self.starts[info.kind.index()] + info.height) as usize] += 1;
            root.urgency += info.urgency;
        }
        root.remaining = frontier.nodes();
        (self.columns, self.column, root.counts) = kind_frontiers.into_counts();
        let kinds = (0..frontier.kinds()).map(Kind::new);
        for &node in kinds.flat_map(|kind| frontier.ready(kind)) {
            become_ready(&mut self.root, &self.node_info, &self.starts, node);
        }
    }

    /// Collects the children of a level that may lead to schedules of fewer than `known` batches.
    fn children(&self, level: &[State], known: usize, children: &mut Vec<Child>) {
        children.clear();
        for (parent, state) in level.iter().enumerate() {
            let ready = || (0..state.kinds.len()).map(Kind::new).filter(|k| state.is_ready(*k));
            let forced = ready().find(|&kind| self.is_forced(state, kind));
            for kind in ready().filter(|&kind| forced.is_none_or(|forced| kind == forced)) {
                let of_kind = &state.kinds[kind.index()];
                let child = Child {
                    total: state.batches + 1 + state.bound - usize::from(self.lowers(state, kind)),
                    urgency: state.urgency - of_kind.urgency,
                    hash: state.hash ^ of_kind.hash,
                    parent: NodeId::new(parent).0,
                    kind,
                };
                if child.total < known {
                    children.push(child);
                }
            }
        }
    }

    fn is_forced(&self, state: &State, kind: Kind) -> bool {
        let of_kind = &state.kinds[kind.index()];
        self.frontier.weight_of(&of_kind.ready) == of_kind.frontier
    }

    fn lowers(&self, state: &State, kind: Kind) -> bool {
        let highest = state.kinds[kind.index()].highest;
        state.waiting[(self.starts[kind.index()] + highest) as usize] == 0
    }

    fn run(&self, state: &mut State, kind: Kind) {
        state.batches += 1;
        let lowers = self.lowers(state, kind);
        let of_kind = &mut state.kinds[kind.index()];
        let batch = std::mem::take(&mut of_kind.ready);
        state.urgency -= std::mem::take(&mut of_kind.urgency);
        state.hash ^= std::mem::take(&mut of_kind.hash);
        of_kind.frontier -= self.frontier.weight_of(&batch);
        if lowers {
            of_kind.highest -= 1;
            state.bound -= 1;
        }
        state.remaining -= batch.len();
        for &node in &batch {
            for &user in self.frontier.users(node) {
                let pending = &mut state.pending[user.index()];
                *pending -= 1;
                if *pending == 0 {
                    become_ready(state, &self.node_info, &self.starts, user);
                }
            }
        }
        if let Some(column) = self.column[kind.index()] {
            self.advance_users(state, kind, column, batch);
        }
    }

    /// Updates the users of nodes that lost their last ancestor of this kind, like
    /// [`KindFrontiers`].
    fn advance_users(&self, state: &mut State, kind: Kind, column: u32, mut lost: Vec<NodeId>) {
        while let Some(node) = lost.pop() {
            for &user in self.frontier.users(node) {
                let count = &mut state.counts[user.index() * self.columns + column as usize];
                *count -= 1;
                if *count == 0 {
                    if self.node_info[user.index()].kind == kind {
                        state.kinds[kind.index()].frontier += self.frontier.weight(user) as usize;
                    } else {
                        lost.push(user);
                    }
                }
            }
        }
    }
}

impl State {
    fn is_ready(&self, kind: Kind) -> bool {
        !self.kinds[kind.index()].ready.is_empty()
    }
}

fn become_ready(state: &mut State, node_info: &[NodeInfo], starts: &[u32], node: NodeId) {
    let info = &node_info[node.index()];
    let of_kind = &mut state.kinds[info.kind.index()];
    of_kind.ready.push(node);
    of_kind.urgency += info.urgency;
    of_kind.hash ^= info.hash;
    state.waiting[(starts[info.kind.index()] + info.height) as usize] -= 1;
}

/// Removes duplicates, then keeps the best `width` children. Returns true if these are all.
fn keep_best(children: &mut Vec<Child>, hashes: &mut HashSet<u64>, width: usize) -> bool {
    let key = |child: &Child| (child.total, child.urgency, child.hash, child.parent, child.kind);
    children.sort_unstable_by_key(key);
    hashes.clear();
    children.retain(|child| hashes.insert(child.hash));
    let all = children.len() <= width;
    children.truncate(width);
    all
}

/// The kinds on the path to a step, from the first.
fn trace(steps: &[(u32, Kind)], mut step: u32) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while step > 0 {
        let (before, kind) = steps[step as usize - 1];
        kinds.push(kind);
        step = before;
    }
    kinds.reverse();
    kinds
}

fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

//! Beam search over the orders of kinds.
//!
//! *Source*: our own; the state, the bound and the forced moves are those of
//! [`Critical`](crate::Critical).
//!
//! A state is the set of nodes that ran. All states of a level have had as many batches. A state's
//! children run one ready kind each; of all the children of a level, the best `width` live on:
//! those with the least total of batches so far and bound on the rest, ties to the state with the
//! least urgency left (the square of [`Chains::needs`], summed over the nodes that have not run).
//!
//! What needs no search is not searched. A kind whose ratio is 1 begins a shortest schedule (the
//! paper's lemma), so it is the only child. Two ways to one set of nodes are one state. A child
//! that cannot beat the best schedule known is dropped. If nothing else had to be dropped, the
//! search has *closed*: there is no better schedule. (States are identified by random names of 64
//! bits: a proof is wrong with the probability that two of its states share one.)
//!
//! A child's value is known before it is made, from its parent's counters; only those that live on
//! are made, by copying the parent and running the batch.
//!
//! *Cost*: a state copies O(nodes × kinds with chains) counters and runs its batch.

use std::collections::HashSet;

use edbatch_graph::{Kind, NodeId};

use crate::{Chains, Frontier, KindFrontiers};

/// What is searched, computed once.
pub(crate) struct Problem {
    frontier: Frontier,
    /// A state of which nothing ran.
    root: State,
    of_node: Vec<OfNode>,
    /// Per kind, where its heights begin in [`State::waiting`].
    starts: Vec<u32>,
    /// Per kind, its column of counts.
    column: Vec<Option<u32>>,
    columns: usize,
}

struct OfNode {
    kind: Kind,
    height: u32,
    /// How much hangs on it: the square of its needs. (Powers tell the states of a level apart
    /// equally well; this one can be taken back without rounding.)
    urgency: u64,
    /// A random word: the exclusive or over the nodes that ran names the state.
    name: u64,
}

/// A set of nodes that ran, and what follows from it.
#[derive(Clone, Default)]
struct State {
    /// Per node, how many arguments have not run.
    pending: Vec<u32>,
    /// Per node and column, as in [`KindFrontiers`].
    counts: Vec<u32>,
    /// Per kind and height, how many nodes are not ready.
    waiting: Vec<u32>,
    kinds: Vec<OfKind>,
    remaining: usize,
    /// The number of batches so far.
    batches: usize,
    /// A lower bound on the number of batches still to come.
    bound: usize,
    urgency: u64,
    name: u64,
    /// The last step on the way here.
    step: u32,
}

#[derive(Clone, Default)]
struct OfKind {
    ready: Vec<NodeId>,
    /// Σ over the ready nodes.
    urgency: u64,
    /// Exclusive or over the ready nodes.
    name: u64,
    /// How many remaining nodes are first among their kind.
    first: usize,
    highest: u32,
}

/// A state that could be made.
#[derive(Clone, Copy)]
struct Child {
    /// Batches so far and the bound on the rest.
    total: usize,
    urgency: u64,
    name: u64,
    parent: u32,
    kind: Kind,
}

/// How a pass over the levels ended.
pub(crate) struct Pass {
    /// The best schedule found, as kinds; none if none beats the best known.
    pub(crate) found: Option<Vec<Kind>>,
    /// Whether no state had to be dropped for lack of width.
    pub(crate) closed: bool,
    /// How many states were made.
    pub(crate) states: u64,
}

impl Problem {
    /// The problem of a graph of which nothing ran.
    pub(crate) fn new(frontier: Frontier) -> Self {
        let chains = Chains::new(&frontier);
        let mut problem = Self {
            starts: Vec::new(),
            column: Vec::new(),
            columns: 0,
            root: State::default(),
            of_node: Vec::new(),
            frontier,
        };
        problem.describe_nodes(&chains);
        problem.plant_root(&chains);
        problem
    }

    /// Σ longest chains: no schedule has fewer batches.
    pub(crate) fn bound(&self) -> usize {
        self.root.bound
    }

    /// Bytes of a state, about.
    pub(crate) fn state_bytes(&self) -> usize {
        let State { pending, counts, waiting, kinds, .. } = &self.root;
        4 * (pending.len() + counts.len() + waiting.len() + self.of_node.len())
            + size_of::<OfKind>() * kinds.len()
            + size_of::<State>()
    }

    /// Searches level by level for a schedule of fewer batches than `known`.
    /// `stop` is asked for every state, with the number of states made in this pass.
    pub(crate) fn pass(
        &self,
        width: usize,
        known: usize,
        stop: &mut dyn FnMut(u64) -> bool,
    ) -> Pass {
        let mut pass = Pass { found: None, closed: true, states: 0 };
        let mut known = known;
        let mut steps: Vec<(u32, Kind)> = Vec::new();
        let mut level = vec![self.root.clone()];
        let mut spare = Vec::new();
        let mut children = Vec::new();
        let mut names = HashSet::new();
        'levels: while !level.is_empty() {
            self.children(&level, known, &mut children);
            pass.closed &= keep_best(&mut children, &mut names, width);
            let mut next: Vec<State> = Vec::with_capacity(children.len());
            for child in &children {
                if stop(pass.states) {
                    pass.closed = false;
                    break 'levels;
                }
                let mut state: State = spare.pop().unwrap_or_default();
                state.clone_from(&level[child.parent as usize]);
                steps.push((state.step, child.kind));
                state.step = u32::try_from(steps.len()).expect("fewer than 2^32 states");
                self.run(&mut state, child.kind);
                pass.states += 1;
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

    fn describe_nodes(&mut self, chains: &Chains) {
        for node in (0..self.frontier.nodes()).map(NodeId::new) {
            self.of_node.push(OfNode {
                kind: self.frontier.kind(node),
                height: chains.height(node),
                urgency: u64::from(chains.needs(node)).pow(2),
                name: splitmix64(node.0.into()),
            });
        }
    }

    fn plant_root(&mut self, chains: &Chains) {
        let frontier = &self.frontier;
        let mut kind_frontiers = KindFrontiers::default();
        kind_frontiers.update(frontier, chains);
        let root = &mut self.root;
        for kind in (0..frontier.kinds()).map(Kind::new) {
            let highest = chains.longest(kind);
            self.starts.push(NodeId::new(root.waiting.len()).0);
            root.waiting.resize(root.waiting.len() + highest as usize + 1, 0);
            root.bound += highest as usize;
            root.kinds.push(OfKind {
                first: kind_frontiers.size(kind),
                highest,
                ..OfKind::default()
            });
        }
        for (node, arguments) in frontier.arguments() {
            let of_node = &self.of_node[node.index()];
            root.pending.push(NodeId::new(arguments.len()).0);
            root.waiting[(self.starts[of_node.kind.index()] + of_node.height) as usize] += 1;
            root.urgency += of_node.urgency;
        }
        root.remaining = frontier.nodes();
        (self.columns, self.column, root.counts) = kind_frontiers.into_counts();
        let kinds = (0..frontier.kinds()).map(Kind::new);
        for &node in kinds.flat_map(|kind| frontier.ready(kind)) {
            become_ready(&mut self.root, &self.of_node, &self.starts, node);
        }
    }

    /// All children of a level that may still beat the best known.
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
                    name: state.name ^ of_kind.name,
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
        self.frontier.weight_of(&of_kind.ready) == of_kind.first
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
        state.name ^= std::mem::take(&mut of_kind.name);
        of_kind.first -= self.frontier.weight_of(&batch);
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
                    become_ready(state, &self.of_node, &self.starts, user);
                }
            }
        }
        if let Some(column) = self.column[kind.index()] {
            self.advance_users(state, kind, column, batch);
        }
    }

    /// As in [`KindFrontiers`]: the nodes of `lost` no longer are ancestors of kind `kind`.
    fn advance_users(&self, state: &mut State, kind: Kind, column: u32, mut lost: Vec<NodeId>) {
        while let Some(node) = lost.pop() {
            for &user in self.frontier.users(node) {
                let count = &mut state.counts[user.index() * self.columns + column as usize];
                *count -= 1;
                if *count == 0 {
                    if self.of_node[user.index()].kind == kind {
                        state.kinds[kind.index()].first += self.frontier.weight(user) as usize;
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

fn become_ready(state: &mut State, of_node: &[OfNode], starts: &[u32], node: NodeId) {
    let of_node = &of_node[node.index()];
    let of_kind = &mut state.kinds[of_node.kind.index()];
    of_kind.ready.push(node);
    of_kind.urgency += of_node.urgency;
    of_kind.name ^= of_node.name;
    state.waiting[(starts[of_node.kind.index()] + of_node.height) as usize] -= 1;
}

/// Keeps one child a state and the best `width`; says whether that was all.
fn keep_best(children: &mut Vec<Child>, names: &mut HashSet<u64>, width: usize) -> bool {
    let key = |child: &Child| (child.total, child.urgency, child.name, child.parent, child.kind);
    children.sort_unstable_by_key(key);
    names.clear();
    children.retain(|child| names.insert(child.name));
    let all = children.len() <= width;
    children.truncate(width);
    all
}

/// The kinds on the way to a step, the first one first.
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

//! Planarity by vertex addition: tests whether a graph can be drawn without crossings.
//!
//! The vertices of a block are added in an st-order: each except the first and the last has a
//! neighbour before it and one after it. Edges from the drawn vertices to later ones end in leaves
//! around the drawing, and a PQ-tree holds all possible orders of these leaves. The next vertex
//! needs its edges to be consecutive, and is replaced by its edges to later vertices. The graph is
//! planar if no such step fails.
//!
//! ```text
//! cargo run --release -p pqtree --example planarity
//! ```
//!
//! *Source*: A. Lempel, S. Even and I. Cederbaum (1967); K. Booth and G. Lueker (1976), section 4.
//!
//! *Cost*: O(m log n) for m edges, in practice nearly linear: each edge is a leaf once.

mod blocks;
pub(crate) mod graph;
mod order;

use graph::Graph;
use pqtree::PqTree;
use std::time::Instant;

fn main() {
    let petersen = Graph::new(
        10,
        (0..5).flat_map(|i| [(i, (i + 1) % 5), (i, i + 5), (i + 5, (i + 2) % 5 + 5)]),
    );
    let graphs = [
        ("K4", Graph::complete(4)),
        ("K5", Graph::complete(5)),
        ("K5 minus an edge", Graph::new(5, Graph::complete(5).edges.into_iter().skip(1))),
        ("K3,3", Graph::new(6, (0..3).flat_map(|a| (3..6).map(move |b| (a, b))))),
        (
            "cube",
            Graph::new(
                8,
                (0..8).flat_map(|a| [1, 2, 4].map(|bit| (a, a ^ bit))).filter(|(a, b)| a < b),
            ),
        ),
        ("Petersen graph", petersen),
        (
            "octahedron",
            Graph::new(6, Graph::complete(6).edges.into_iter().filter(|(a, b)| a + b != 5)),
        ),
    ];
    for (name, graph) in graphs {
        println!("{name}: {}", if is_planar(&graph) { "planar" } else { "not planar" });
    }
    for side in [30, 100, 300] {
        let grid = Graph::triangulated_grid(side);
        let start = Instant::now();
        assert!(is_planar(&grid));
        let nanoseconds = start.elapsed().as_nanos() as usize / grid.edges.len();
        println!("grid of {} edges: planar, {nanoseconds} ns per edge", grid.edges.len());
    }
}

/// Returns true if a graph without loops can be drawn in the plane without crossings.
pub(crate) fn is_planar(graph: &Graph) -> bool {
    blocks::blocks(graph).iter().all(is_planar_block)
}

/// Tests a block: a graph that stays connected without any one of its vertices.
fn is_planar_block(block: &Graph) -> bool {
    let (vertices, edges) = (block.vertices, block.edges.len());
    if vertices < 5 {
        return true;
    }
    if edges > 3 * vertices - 6 {
        return false;
    }
    let number = order::st_numbers(block);
    let mut edges_from = vec![Vec::new(); vertices];
    let mut edges_to = vec![Vec::new(); vertices];
    for (edge, &(a, b)) in block.edges.iter().enumerate() {
        let (a, b) = (number[a], number[b]);
        edges_from[a.min(b)].push(edge);
        edges_to[a.max(b)].push(edge);
    }
    let mut border = Border::new(&edges_from[0], edges);
    (1..vertices - 1).all(|vertex| border.add(&edges_to[vertex], &edges_from[vertex]))
}

/// The possible orders around the drawing of the edges with one end drawn.
struct Border {
    tree: PqTree,
    /// The edge of each leaf.
    edges: Vec<usize>,
    leaves: Vec<u32>,
}

impl Border {
    /// Starts with the first vertex.
    fn new(edges: &[usize], count: usize) -> Self {
        let mut tree = PqTree::new(edges.len() as u32);
        tree.reserve((count - edges.len()) as u32).expect("there are fewer than 2^29 edges");
        let mut leaves = vec![0; count];
        edges.iter().zip(0..).for_each(|(&edge, leaf)| leaves[edge] = leaf);
        Self { tree, edges: edges.to_vec(), leaves }
    }

    /// Adds a vertex where `ending` edges end and from which `beginning` ones lead on. Returns
    /// false if this needs a crossing.
    fn add(&mut self, ending: &[usize], beginning: &[usize]) -> bool {
        let set: Vec<u32> = ending.iter().map(|&edge| self.leaves[edge]).collect();
        let Ok(replaced) = self.tree.replace_set(&set, beginning.len() as u32) else {
            return false;
        };
        self.edges.resize(self.edges.len().max(self.tree.len() as usize), usize::MAX);
        for (old, new) in replaced.moved {
            self.put(new, self.edges[old as usize]);
        }
        for (&edge, &leaf) in beginning.iter().zip(&replaced.leaves) {
            self.put(leaf, edge);
        }
        self.edges.truncate(self.tree.len() as usize);
        true
    }

    fn put(&mut self, leaf: u32, edge: usize) {
        self.edges[leaf as usize] = edge;
        self.leaves[edge] = leaf;
    }
}

//! Interval graphs: tests whether the vertices of a graph can be drawn as intervals of a line that
//! overlap exactly where there is an edge.
//!
//! They can exactly if the maximal cliques have an order in which the cliques of each vertex are
//! consecutive (Fulkerson and Gross, 1965). Then each vertex is the interval of its cliques. Booth
//! and Lueker invented PQ-trees for this problem.
//!
//! ```text
//! cargo run -p pqtree --example interval_graph
//! ```

use pqtree::PqTree;

fn main() {
    // Two overlapping triangles with a tail, and a cycle of four.
    show("bull", 5, &[(0, 1), (1, 2), (0, 2), (1, 3), (2, 4)]);
    show("fan", 5, &[(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4)]);
    show("square", 4, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
    // A tree with three legs of length two: chordal, but not an interval graph.
    show("tripod", 7, &[(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6)]);
}

fn show(name: &str, vertices: usize, edges: &[(usize, usize)]) {
    match intervals(vertices, edges) {
        Some(intervals) => {
            println!("{name} is an interval graph:");
            for (vertex, (first, last)) in intervals.into_iter().enumerate() {
                println!("  {vertex}  {}{}", " ".repeat(first), "=".repeat(last - first + 1));
            }
        }
        None => println!("{name} is not an interval graph"),
    }
}

/// Returns an interval of clique numbers for each vertex, or `None` if no intervals exist.
fn intervals(vertices: usize, edges: &[(usize, usize)]) -> Option<Vec<(usize, usize)>> {
    let mut adjacent = vec![vec![false; vertices]; vertices];
    for &(a, b) in edges {
        (adjacent[a][b], adjacent[b][a]) = (true, true);
    }
    let cliques = maximal_cliques(&adjacent)?;
    let mut tree = PqTree::new(cliques.len() as u32);
    for vertex in 0..vertices {
        let of_vertex: Vec<u32> = (0..)
            .zip(&cliques)
            .filter(|(_, clique)| clique.contains(&vertex))
            .map(|(at, _)| at)
            .collect();
        tree.reduce(&of_vertex).ok()?;
    }
    let order: Vec<&Vec<usize>> = tree.frontier().map(|clique| &cliques[clique as usize]).collect();
    let place = |vertex| {
        let has = |clique: &&Vec<usize>| clique.contains(&vertex);
        Some((order.iter().position(has)?, order.iter().rposition(has)?))
    };
    (0..vertices).map(place).collect()
}

/// Returns the maximal cliques of a chordal graph, or `None` if it is not chordal, and so not an
/// interval graph.
///
/// Vertices are numbered by maximum cardinality search (Tarjan and Yannakakis, 1984). In a chordal
/// graph, the neighbours of a vertex with smaller numbers form a clique.
fn maximal_cliques(adjacent: &[Vec<bool>]) -> Option<Vec<Vec<usize>>> {
    let mut numbered: Vec<usize> = Vec::new();
    let mut cliques: Vec<Vec<usize>> = Vec::new();
    while numbered.len() < adjacent.len() {
        let before =
            |vertex: usize| numbered.iter().copied().filter(move |&other| adjacent[vertex][other]);
        let left = (0..adjacent.len()).filter(|vertex| !numbered.contains(vertex));
        let vertex = left.max_by_key(|&vertex| before(vertex).count())?;
        let mut clique: Vec<usize> = before(vertex).collect();
        if clique.iter().any(|&a| clique.iter().any(|&b| a != b && !adjacent[a][b])) {
            return None;
        }
        clique.push(vertex);
        cliques.retain(|old| !old.iter().all(|member| clique.contains(member)));
        cliques.push(clique);
        numbered.push(vertex);
    }
    Some(cliques)
}

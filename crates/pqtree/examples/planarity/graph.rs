//! Undirected graphs without loops.

/// A graph of the vertices `0..vertices`.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// The number of vertices.
    pub(crate) vertices: usize,
    /// The two ends of each edge. No edge is repeated.
    pub(crate) edges: Vec<(usize, usize)>,
}

impl Graph {
    /// Creates a graph with these edges.
    pub(crate) fn new(vertices: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Self {
        Self { vertices, edges: edges.into_iter().collect() }
    }

    /// The complete graph.
    pub(crate) fn complete(vertices: usize) -> Self {
        Self::new(vertices, (0..vertices).flat_map(|b| (0..b).map(move |a| (a, b))))
    }

    /// A square grid, each cell with a diagonal.
    pub(crate) fn triangulated_grid(side: usize) -> Self {
        let at = |x, y| y * side + x;
        let cells = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
        let edges = cells.flat_map(|(x, y)| {
            let steps = [(x + 1, y), (x, y + 1), (x + 1, y + 1)].into_iter();
            steps.filter(|&(x, y)| x < side && y < side).map(move |(u, v)| (at(x, y), at(u, v)))
        });
        Self::new(side * side, edges)
    }

    /// Returns the neighbours of each vertex, with the number of the edge to each.
    pub(crate) fn adjacent(&self) -> Vec<Vec<(usize, usize)>> {
        let mut adjacent = vec![Vec::new(); self.vertices];
        for (edge, &(a, b)) in self.edges.iter().enumerate() {
            adjacent[a].push((b, edge));
            adjacent[b].push((a, edge));
        }
        adjacent
    }
}

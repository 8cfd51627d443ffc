//! The example `planarity`, on graphs that are known to be planar or not.

#[path = "../dev/families.rs"]
#[allow(dead_code)]
mod families;
#[path = "../examples/planarity/main.rs"]
#[allow(dead_code)]
mod main;

use families::Random;
use main::graph::Graph;
use std::collections::HashSet;

/// A triangulation, made by inserting vertices into random faces and flipping random edges.
fn triangulation(vertices: usize, random: &mut Random) -> Graph {
    let mut faces = vec![[0, 1, 2], [0, 2, 1]];
    let mut edges = vec![(0, 1), (1, 2), (0, 2)];
    for vertex in 3..vertices {
        let at = random.below(faces.len());
        let [a, b, c] = faces.swap_remove(at);
        faces.extend([[a, b, vertex], [b, c, vertex], [c, a, vertex]]);
        edges.extend([(a, vertex), (b, vertex), (c, vertex)]);
    }
    shuffled(vertices, edges, random)
}

fn shuffled(vertices: usize, mut edges: Vec<(usize, usize)>, random: &mut Random) -> Graph {
    let mut names: Vec<usize> = (0..vertices).collect();
    random.shuffle(&mut names);
    random.shuffle(&mut edges);
    Graph::new(vertices, edges.into_iter().map(|(a, b)| (names[a], names[b])))
}

#[test]
fn subgraphs_of_triangulations_are_planar_until_an_edge_is_added() {
    let mut random = Random::new(1);
    for round in 0..300 {
        let vertices = 5 + random.below(if round < 250 { 40 } else { 400 });
        let graph = triangulation(vertices, &mut random);
        assert!(main::is_planar(&graph));
        let present: HashSet<(usize, usize)> =
            graph.edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let more = (0..vertices).flat_map(|b| (0..b).map(move |a| (a, b)));
        let mut more: Vec<_> = more.filter(|pair| !present.contains(pair)).collect();
        random.shuffle(&mut more);
        let few = graph.edges.iter().copied().filter(|_| random.below(5) > 0);
        assert!(main::is_planar(&Graph::new(vertices, few)));
        if let Some(&pair) = more.first() {
            let mut edges = graph.edges.clone();
            edges.push(pair);
            assert!(!main::is_planar(&Graph::new(vertices, edges)));
        }
    }
}

/// Subdivisions of K5 or K3,3 with trees and planar subgraphs attached.
#[test]
fn graphs_with_a_kuratowski_subdivision_are_not_planar() {
    let mut random = Random::new(2);
    for round in 0..300 {
        let core = if round % 2 == 0 {
            Graph::complete(5)
        } else {
            Graph::new(6, (0..3).flat_map(|a| (3..6).map(move |b| (a, b))))
        };
        let missing = (round % 4 < 2).then(|| random.below(core.edges.len()));
        let (mut vertices, mut edges) = (core.vertices, Vec::new());
        for (edge, &(a, b)) in core.edges.iter().enumerate() {
            let mut last = a;
            for _ in 0..random.below(6) {
                edges.push((last, vertices));
                (last, vertices) = (vertices, vertices + 1);
            }
            // Without one edge the graph is planar: only trees are attached to its ends.
            if Some(edge) != missing {
                edges.push((last, b));
            }
        }
        for _ in 0..random.below(20) {
            edges.push((random.below(vertices), vertices));
            vertices += 1;
        }
        let graph = shuffled(vertices, edges, &mut random);
        assert_eq!(main::is_planar(&graph), missing.is_some());
    }
}

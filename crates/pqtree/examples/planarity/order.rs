//! An st-order of a block: an order of its vertices in which the first and the last are joined, and
//! each other vertex has a neighbour before it and one after it.
//!
//! *Source*: R. Tarjan, "Two streamlined depth-first search algorithms" (1986).

use super::graph::Graph;

const NONE: usize = usize::MAX;

/// Returns the place of each vertex in an st-order.
pub(crate) fn st_numbers(block: &Graph) -> Vec<usize> {
    let Search { order, parent, low } = search(block);
    let (first, last) = (order[0], order[1]);
    let mut list = List { before: vec![NONE; block.vertices], after: vec![NONE; block.vertices] };
    list.insert_after(first, last);
    let mut minus = vec![false; block.vertices];
    minus[first] = true;
    for &vertex in &order[2..] {
        let above = parent[vertex];
        if minus[low[vertex]] {
            list.insert_before(above, vertex);
        } else {
            list.insert_after(above, vertex);
        }
        minus[above] = !minus[low[vertex]];
    }
    let mut numbers = vec![0; block.vertices];
    let mut vertex = first;
    for number in 0.. {
        numbers[vertex] = number;
        vertex = match list.after[vertex] {
            NONE => break,
            after => after,
        };
    }
    numbers
}

struct Search {
    /// The vertices in the order of their first visit.
    order: Vec<usize>,
    parent: Vec<usize>,
    /// The earliest vertex that is joined with a descendant.
    low: Vec<usize>,
}

/// Searches depth first from vertex 0.
fn search(block: &Graph) -> Search {
    let adjacent = block.adjacent();
    let mut order = vec![0];
    let mut parent = vec![NONE; block.vertices];
    let mut met = parent.clone();
    met[0] = 0;
    let mut low: Vec<usize> = (0..block.vertices).collect();
    let mut path = vec![(0, 0)];
    while let Some(&mut (vertex, ref mut at)) = path.last_mut() {
        let Some(&(other, _)) = adjacent[vertex].get(*at) else {
            path.pop();
            let above = parent[vertex];
            if above != NONE && met[low[vertex]] < met[low[above]] {
                low[above] = low[vertex];
            }
            continue;
        };
        *at += 1;
        if met[other] == NONE {
            met[other] = order.len();
            order.push(other);
            parent[other] = vertex;
            path.push((other, 0));
        } else if other != parent[vertex] && met[other] < met[low[vertex]] {
            low[vertex] = other;
        }
    }
    Search { order, parent, low }
}

/// A list with insertion at any place.
struct List {
    before: Vec<usize>,
    after: Vec<usize>,
}

impl List {
    fn insert_after(&mut self, place: usize, item: usize) {
        let after = self.after[place];
        self.link(place, item);
        self.link(item, after);
    }

    fn insert_before(&mut self, place: usize, item: usize) {
        let before = self.before[place];
        self.link(before, item);
        self.link(item, place);
    }

    fn link(&mut self, a: usize, b: usize) {
        if a != NONE {
            self.after[a] = b;
        }
        if b != NONE {
            self.before[b] = a;
        }
    }
}

//! Common gene clusters: sets of genes that stayed together in each of several genomes.
//!
//! The genomes are orders of the same genes. One tree holds all their common intervals: the leaves
//! of any node, and of any run of children of a Q-node. From the worked example of Bergeron,
//! Chauve, de Montgolfier and Raffinot (2008).
//!
//! ```text
//! cargo run -p pqtree --example gene_clusters
//! ```

use pqtree::{Kind, Labeled, OrdersError, PqTree};

fn main() -> Result<(), OrdersError> {
    let genes = ["dnaA", "dnaN", "recF", "gyrB", "gyrA", "rpmH", "rnpA", "yidC", "mnmE"];
    let genomes =
        [[0, 1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 0, 1, 3, 2, 4], [4, 2, 0, 3, 1, 5, 6, 8, 7]];
    let tree = PqTree::from_orders(&genomes)?;
    let named = Labeled::with_tree(tree, genes.to_vec()).expect("the genes are different");
    println!("{named}\n");
    let tree = named.tree();
    let name = |leaves: &mut dyn Iterator<Item = u32>| {
        leaves.map(|leaf| *named.label(leaf)).collect::<Vec<_>>().join(" ")
    };
    for node in tree.post_order() {
        let children: Vec<_> = tree.children(node).collect();
        match tree.kind(node) {
            Kind::Leaf => {}
            Kind::P => println!("cluster: {}", name(&mut tree.leaves_of(node))),
            Kind::Q => {
                let count = children.len() * (children.len() - 1) / 2;
                println!(
                    "line, each of whose {count} runs is a cluster: {}",
                    name(&mut tree.leaves_of(node))
                );
            }
        }
    }
    Ok(())
}

//! The consecutive-ones property of a 0/1 matrix: an order of its columns in which the ones of
//! every row are consecutive.
//!
//! ```text
//! cargo run -p pqtree --example consecutive_ones
//! ```

use pqtree::{Conflict, PqTree};

fn main() {
    let good = ["110010", "010011", "000101", "001100"];
    let bad = ["1100", "0110", "1010"];
    for matrix in [&good[..], &bad[..]] {
        print!("{}\n\n", matrix.join("\n"));
        match column_order(matrix) {
            Ok(tree) => {
                let order: Vec<u32> = tree.frontier().collect();
                println!(
                    "columns in the order {order:?}, one of {}: {tree}\n",
                    2f64.powf(tree.orders_log2())
                );
                let mut rows: Vec<String> = matrix.iter().map(|row| pick(row, &order)).collect();
                // Sorts rows by their first one, which makes a staircase.
                rows.sort_by_key(|row| row.find('1'));
                print!("{}\n\n", rows.join("\n"));
            }
            Err((row, conflict)) => println!("row {row} does not fit those above it: {conflict}"),
        }
    }
}

/// Returns all orders of the columns, or the first row whose ones cannot be consecutive.
fn column_order(matrix: &[&str]) -> Result<PqTree, (usize, Conflict)> {
    let mut tree = PqTree::new(matrix[0].len() as u32);
    for (index, row) in matrix.iter().enumerate() {
        let ones: Vec<u32> = (0..)
            .zip(row.bytes())
            .filter(|&(_, cell)| cell == b'1')
            .map(|(column, _)| column)
            .collect();
        if tree.reduce(&ones).is_err() {
            let conflict = tree.conflict(&ones).expect("the ones are columns of the matrix");
            return Err((index, conflict.expect("the set is refused")));
        }
    }
    Ok(tree)
}

fn pick(row: &str, order: &[u32]) -> String {
    order.iter().map(|&column| char::from(row.as_bytes()[column as usize])).collect()
}

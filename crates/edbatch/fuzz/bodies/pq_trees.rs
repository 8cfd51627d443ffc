//! PQ-trees as text and JSON, and instances of the consecutive-ones problem.

use std::fmt::Debug;
use std::io::Cursor;
use std::str::FromStr;

use pqtree::{CircularTree, Labeled, PqTree};

#[path = "../../../pqtree/dev/c1p_text.rs"]
mod c1p_text;

use c1p_text::Lines;

/// A limit on size: larger trees take longer without covering more code.
const MAX_LEAVES: u32 = 1000;

/// Reads the bytes in each format. Writes each valid tree and reads it again.
pub(crate) fn run(bytes: &[u8]) {
    instances(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    round_trip::<PqTree>(text);
    round_trip::<CircularTree>(text);
    round_trip::<Labeled<String>>(text);
    if let Ok(tree) = text.parse::<PqTree>() {
        let json = serde_json::to_string(&tree).expect("a tree can be serialised");
        let again: PqTree = serde_json::from_str(&json).expect("a written tree is valid");
        assert_eq!(again.to_string(), tree.to_string());
    }
    if let Ok(tree) = serde_json::from_str::<PqTree>(text) {
        round_trip::<PqTree>(&tree.to_string());
    }
}

fn round_trip<T: FromStr<Err: Debug> + ToString>(text: &str) {
    let Ok(tree) = text.parse::<T>() else { return };
    let written = tree.to_string();
    let again = written.parse::<T>().expect("a written tree is valid");
    assert_eq!(again.to_string(), written);
}

/// Checks that accepted restrictions hold at the end, and that rejected ones change nothing.
fn instances(bytes: &[u8]) {
    let mut lines = Lines::new(Box::new(Cursor::new(bytes.to_vec())));
    while let Ok(Some(instance)) = lines.instance() {
        if instance.leaves > MAX_LEAVES {
            continue;
        }
        let mut tree = PqTree::new(instance.leaves);
        let mut accepted = Vec::new();
        for restriction in instance.restrictions() {
            let before = tree.to_string();
            match tree.reduce(restriction).is_ok() {
                true => accepted.push(restriction),
                false => assert_eq!(tree.to_string(), before),
            }
        }
        for restriction in accepted {
            assert_eq!(tree.is_consecutive(restriction), Ok(true), "{restriction:?} in {tree}");
        }
    }
}

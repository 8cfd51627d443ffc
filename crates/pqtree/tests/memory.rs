//! Trees that need more memory than there is are errors, and change nothing.
#![cfg(all(target_os = "linux", not(miri)))]

use pqtree::{CircularTree, LeafError, PqTree, ReduceError};
use std::process::Command;

const LEAVES: u32 = 500_000_000;

/// Runs this test again with 400 MB of address space, because a limit holds for a whole process.
#[test]
fn too_many_leaves_for_the_memory_are_an_error() {
    if std::env::var_os("PQTREE_LIMITED").is_some() {
        return limited();
    }
    let mut again = Command::new("sh");
    again.args(["-c", "ulimit -v 400000; exec \"$0\""]).env("PQTREE_LIMITED", "1");
    let again = again.arg(std::env::current_exe().unwrap()).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
}

fn limited() {
    let error = |leaves: u32| LeafError::OutOfMemory { leaves: leaves.into() };
    assert_eq!(PqTree::try_new(LEAVES), Err(error(LEAVES)));
    assert_eq!(CircularTree::try_new(LEAVES), Err(error(LEAVES - 1)));
    let mut five: PqTree = "([0 1 2] (3 4))".parse().unwrap();
    let (text, root) = (five.to_string(), five.root());
    assert_eq!(five.reserve(LEAVES), Err(error(LEAVES + 5)));
    let replaced = five.replace_set(&[0, 1], LEAVES);
    assert_eq!(replaced.unwrap_err(), ReduceError::Leaf(error(LEAVES + 3)));
    // A refused set renumbers no nodes either.
    assert_eq!(five.replace_set(&[0, 2], 30), Err(ReduceError::Conflict));
    assert_eq!((five.to_string(), five.root()), (text, root));
    assert_eq!(five.insert(), Ok(5));
}

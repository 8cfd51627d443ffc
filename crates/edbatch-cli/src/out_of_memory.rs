//! The flag that tells the command to end because memory has run out.
//!
//! The binary's allocator has a reserve of memory, since most of the standard library aborts if an
//! allocation fails. Another caller of [`main`](crate::main) has no reserve, and never sets the
//! flag.

use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::Failure;

static USED: AtomicBool = AtomicBool::new(false);

/// Records that the allocator has used its reserve. The command then ends with an error message
/// before the next input or mini-batch.
pub fn reserve_is_used() {
    USED.store(true, Ordering::Relaxed);
}

/// Fails if the reserve has been used.
pub(crate) fn check() -> Result<(), Failure> {
    if !USED.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(Failure::new(
        "out of memory: make mini-batches smaller (--batch), use fewer threads (--threads), or \
         allow the process more memory",
    ))
}

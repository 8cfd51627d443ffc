//! Marks of completed shards, and names of shards.

#[path = "../../../edbatch-cli/src/corpora/shard.rs"]
#[allow(dead_code)] // Marks need little of it.
mod shard;
#[path = "../../../edbatch-cli/src/corpora/shard_mark.rs"]
#[allow(dead_code)] // Files are read elsewhere.
mod shard_mark;

use shard::{Shard, number_of_mark};
use shard_mark::Mark;

/// Reads a mark. If it is valid, writes it and reads it again. The first byte is the shard's
/// number.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&shard, text)) = bytes.split_first() else { return };
    if let Ok(mark) = Mark::parse(text, shard.into()) {
        assert!(mark.shard < mark.of && mark.failed <= mark.lines);
        assert_eq!(Mark::parse(mark.to_json().as_bytes(), shard.into()), Ok(mark));
    }
    if let Ok(text) = std::str::from_utf8(text) {
        number_of_mark(text);
        if let Ok(shard) = text.parse::<Shard>() {
            assert!(shard.number < shard.of);
        }
    }
}

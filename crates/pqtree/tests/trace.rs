//! Traces of operations against slow models. `PQTREE_TRACE_SECONDS` makes the run as long as wanted.

#[path = "../dev/families.rs"]
#[allow(dead_code)]
mod families;
#[path = "../dev/reference.rs"]
mod reference;
#[path = "../dev/trace.rs"]
mod trace;

use proptest::prelude::*;
use std::time::{Duration, Instant};

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agree_with_the_models(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        trace::run(&bytes);
    }
}

#[test]
fn agree_with_the_models_for_long() {
    let seconds =
        std::env::var("PQTREE_TRACE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (start, mut count) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        let mut random = families::Random::new(count);
        let length = 1 + random.below(1 << (4 + count % 8));
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        trace::run(&bytes);
        count += 1;
    }
    println!("{count} traces without a difference");
}

//! A custom `tracing` subscriber: with the feature `tracing`, the engine emits a span for every
//! stage and every batch.
//!
//! This subscriber prints each span when it begins. Others could measure times or send spans to a
//! service. For a timeline, use `edbatch::ChromeTrace` or `edbatch infer --trace`.
//!
//! `cargo run --release -p edbatch --example spans`:
//!
//! ```text
//! mini-batch inputs=2
//!   round
//!     construct
//!     schedule nodes=16
//!     plan
//!     execute
//!       prologue cell=leaf calls=5
//!       batch cell=leaf calls=5 gathered_bytes=240
//!       batch cell=node calls=2 gathered_bytes=0
//!       batch cell=node calls=1 gathered_bytes=0
//!       batch cell=output calls=8 gathered_bytes=128
//!     read
//!   round
//!     construct
//! ```

use std::error::Error;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use edbatch::Engine;
use edbatch::datasets::parse_binary_trees;
use edbatch::models::{Model, TreeLstm, TreeSizes};
use edbatch::runtime::Parameters;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Prints each span with its fields, indented by its nesting depth.
#[derive(Default)]
struct Printer {
    spans: AtomicU64,
    depth: AtomicUsize,
}

impl Subscriber for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "edbatch"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let indent = 2 * self.depth.load(Ordering::Relaxed);
        print!("{:indent$}{}", "", attributes.metadata().name());
        attributes.record(&mut Fields);
        println!();
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn enter(&self, _: &Id) {
        self.depth.fetch_add(1, Ordering::Relaxed);
    }

    fn exit(&self, _: &Id) {
        self.depth.fetch_sub(1, Ordering::Relaxed);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}
}

struct Fields;

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        print!(" {field}={value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        print!(" {field}={value}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let model = TreeLstm::new(TreeSizes { vocabulary: 9, embed: 4, hidden: 4, classes: 2 })?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut engine = Engine::new(model, parameters)?;
    let text = "(1 (0 (0 3) (1 5)) (1 7))\n(0 (1 2) (0 4))\n";
    let trees = parse_binary_trees(text.as_bytes(), "trees");
    let trees = trees.map(|tree| Ok(tree?.map(|_| 0, |word| word.parse().unwrap_or(0))));
    let trees = trees.collect::<Result<Vec<_>, Box<dyn Error>>>()?;

    // To trace all threads, use `tracing::subscriber::set_global_default` instead.
    tracing::subscriber::with_default(Printer::default(), || engine.run(&trees))?;
    Ok(())
}

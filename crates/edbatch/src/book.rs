//! Pages of the book with Rust code, which the doctests compile and run.

/// Declares a type for each page, since a doc comment needs an item.
macro_rules! pages {
    ($($page:ident $file:literal)*) => {
        $(
            #[doc = include_str!(concat!("../../../docs/", $file))]
            struct $page;
        )*
    };
}

pages! {
    FirstSteps "first-steps.md"
    OwnModel "own-model.md"
    OneEngine "engine.md"
    OneCrate "crates.md"
    Growing "growing.md"
    Sessions "sessions.md"
    Pytorch "pytorch.md"
    TrainingAdjoints "training/adjoints.md"
    TrainingDataParallel "training/data-parallel.md"
    TrainingOptimizers "training/optimizers.md"
    TrainingOwnLoss "training/own-loss.md"
    TrainingRust "training/rust.md"
    Policies "policies.md"
    Reports "reports.md"
    ThreadsAndMemory "threads-and-memory.md"
    Bf16 "bf16.md"
}

//! The book's pages with Rust in them, compiled and run by the tests.

/// A type for each page, as documentation belongs to something.
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
    Growing "growing.md"
    Pytorch "pytorch.md"
    Policies "policies.md"
    Reports "reports.md"
    ThreadsAndMemory "threads-and-memory.md"
}

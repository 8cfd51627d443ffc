//! The output of NVRTC: machine code, and what the compiler says of it.

use std::fmt;

/// Machine code for one architecture.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    /// The cubin.
    pub(crate) code: Vec<u8>,
    /// The output of the compiler; empty if it is unknown.
    pub(crate) log: String,
    /// The assembly that the code was made of; empty if it is unknown.
    pub(crate) ptx: String,
}

/// The resource usage of a kernel, from the compiler's log: of each resource, the maximum over the
/// kernel and the functions that it calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// Registers per thread.
    pub registers: usize,
    /// Bytes of registers per thread that are spilled to memory.
    pub spilled: usize,
    /// Bytes of the stack frame of a thread.
    pub stack: usize,
}

impl Binary {
    /// Returns the resource usage of the kernel, or `None` if the log does not contain it.
    pub(crate) fn usage(&self) -> Option<ResourceUsage> {
        let most = |what: &str| {
            let texts: Vec<_> = self.log.split(what).collect();
            let numbers = texts.split_last()?.1.iter();
            numbers.filter_map(|text| text.split_whitespace().next_back()?.parse().ok()).max()
        };
        let [stores, loads] = [" bytes spill stores", " bytes spill loads"].map(most);
        Some(ResourceUsage {
            registers: most(" registers")?,
            spilled: stores?.max(loads?),
            stack: most(" bytes stack frame")?,
        })
    }

    /// Returns the number of lines of PTX of the longest function.
    pub(crate) fn longest_function(&self) -> usize {
        let bodies = self.ptx.split("\n{\n").skip(1);
        bodies
            .filter_map(|body| Some(body.split_once("\n}\n")?.0.lines().count()))
            .max()
            .unwrap_or(0)
    }
}

impl fmt::Display for ResourceUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registers, spilled, stack } = self;
        write!(
            f,
            "{registers} registers per thread, {spilled} bytes spilled, a stack frame of {stack} \
             bytes"
        )
    }
}

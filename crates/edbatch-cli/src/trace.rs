//! `infer --trace`: a Chrome trace of all threads, in a file that appears when it is complete.

use std::path::{Path, PathBuf};

use edbatch::ChromeTrace;
use edbatch_datasets::AtomicFile;

use super::failure::Failure;

/// A trace being recorded. If it is dropped before [`finish`](Self::finish), no file is left.
pub(crate) struct Trace {
    trace: ChromeTrace<AtomicFile>,
    path: PathBuf,
}

impl Trace {
    /// Starts tracing all threads.
    pub(crate) fn begin(path: &Path) -> Result<Self, Failure> {
        let file = AtomicFile::create(path).map_err(|error| Failure::writing(path, &error))?;
        let trace = ChromeTrace::new(file);
        tracing::subscriber::set_global_default(trace.clone()).expect("a process has one trace");
        Ok(Self { trace, path: path.to_path_buf() })
    }

    /// Completes the file and puts it in place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let finished = self.trace.finish().and_then(AtomicFile::finish);
        finished.map_err(|error| Failure::writing(&self.path, &error))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // The subscriber lives as long as the process, so take the file from it and drop the file.
        drop(self.trace.finish());
    }
}

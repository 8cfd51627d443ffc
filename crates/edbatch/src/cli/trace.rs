//! `infer --trace`: a timeline of what the threads do, in a file that appears whole.

use std::path::{Path, PathBuf};

use edbatch::ChromeTrace;
use edbatch_datasets::WholeFile;

use super::failure::Failure;

/// A trace under way. Dropped before it is finished, it leaves no file.
pub(crate) struct Trace {
    trace: ChromeTrace<WholeFile>,
    path: PathBuf,
}

impl Trace {
    /// Traces what all threads do from now on.
    pub(crate) fn begin(path: &Path) -> Result<Self, Failure> {
        let file = WholeFile::create(path).map_err(|error| Failure::writing(path, &error))?;
        let trace = ChromeTrace::new(file);
        tracing::subscriber::set_global_default(trace.clone()).expect("a process infers once");
        Ok(Self { trace, path: path.to_path_buf() })
    }

    /// Gives the file its name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let finished = self.trace.finish().and_then(WholeFile::finish);
        finished.map_err(|error| Failure::writing(&self.path, &error))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // The subscriber is the process's and stays: the file is taken from it, and goes.
        drop(self.trace.finish());
    }
}

//! Reports of compilations, which take seconds.

use std::fmt;
use std::time::{Duration, Instant};

use super::CudaError;

/// The compilation of a kernel by NVRTC, before it starts or after it has ended; see
/// [`CudaOptions::on_compile`](super::CudaOptions::on_compile).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Compilation {
    /// The kernel's name: `plan_kernel` of models, `probe_kernel` of measurements.
    pub kernel: String,
    /// The architecture, such as `sm_90`.
    pub architecture: String,
    /// The compiler's name, version and file.
    pub compiler: String,
    /// The time that it took, or `None` before it starts.
    pub took: Option<Duration>,
}

/// A function that is called for each compilation, before and after.
pub(crate) type OnCompile = Option<fn(&Compilation)>;

impl Compilation {
    /// Compiles, and reports it before and after. A failure is not reported.
    pub(crate) fn report<T>(
        mut self,
        on_compile: OnCompile,
        compile: impl FnOnce() -> Result<T, CudaError>,
    ) -> Result<T, CudaError> {
        let report = on_compile.unwrap_or(|_| {});
        report(&self);
        let began = Instant::now();
        let compiled = compile()?;
        self.took = Some(began.elapsed());
        report(&self);
        Ok(compiled)
    }
}

impl fmt::Display for Compilation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, architecture, compiler, took } = self;
        let verb = if took.is_some() { "compiled" } else { "compiling" };
        write!(f, "{verb} 1 kernel ({kernel}) for {architecture} with {compiler}")?;
        took.map_or(Ok(()), |took| write!(f, " in {:.1} s", took.as_secs_f64()))
    }
}

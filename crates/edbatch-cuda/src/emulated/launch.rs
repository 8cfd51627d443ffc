//! Launches of compiled kernels on the host.

use std::borrow::Cow;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

use libloading::Library;

use crate::CudaError;
use crate::device::TeamArguments;

/// `plan_kernel` of `kernels/team.h` on the host. Parameters: arguments, teams, bytes of shared
/// memory per block, seed, and the block that never arrives at its barrier, or the largest number.
/// Returns 0; or, if a block waits for a float that no block writes, its wave + 1 in the upper
/// half, and the float's place in the arena.
type LaunchTeams = unsafe extern "C" fn(*const TeamArguments, u32, u32, u32, u32) -> u64;

/// `grid_kernel` of `kernels/grid.h` on the host. Parameters: arguments, blocks, bytes of shared
/// memory per block, seed, and the block that never ends.
type LaunchGrid = unsafe extern "C" fn(*const u64, u32, u32, u32, u32);

/// The function of a kernel.
#[derive(Debug)]
pub(super) enum Launch {
    Teams(LaunchTeams),
    Grid(LaunchGrid),
}

/// A kernel compiled for the host, in a loaded library.
#[derive(Debug)]
pub(crate) struct EmulatedProgram {
    pub(super) launch: Launch,
    /// The library that `launch` points into.
    pub(super) _library: Library,
}

/// A launch, or a copy of words between two addresses.
#[derive(Debug)]
pub(super) enum Pending<'a> {
    Launch {
        program: Arc<EmulatedProgram>,
        call: Call<'a>,
        shared_bytes: u32,
        seed: u32,
        absent: u32,
    },
    Copy {
        from: u64,
        to: u64,
        words: usize,
    },
}

/// The arguments of a launch, and the number of teams or blocks.
#[derive(Debug)]
pub(super) enum Call<'a> {
    Teams(Cow<'a, [TeamArguments]>, u32),
    Grid(Cow<'a, [u64]>, u32),
}

impl Pending<'_> {
    /// Returns the launch with copies of its arguments.
    pub(super) fn into_owned(self) -> Pending<'static> {
        match self {
            Self::Copy { from, to, words } => Pending::Copy { from, to, words },
            Self::Launch { program, call, shared_bytes, seed, absent } => {
                let call = match call {
                    Call::Teams(all, teams) => Call::Teams(Cow::Owned(all.into_owned()), teams),
                    Call::Grid(all, blocks) => Call::Grid(Cow::Owned(all.into_owned()), blocks),
                };
                Pending::Launch { program, call, shared_bytes, seed, absent }
            }
        }
    }

    pub(super) fn run(&self) -> Result<(), CudaError> {
        let &Self::Launch { ref program, ref call, shared_bytes, seed, absent } = self else {
            let &Self::Copy { from, to, words } = self else { unreachable!("it is no launch") };
            let [from, to] = [from, to].map(|at| with_exposed_provenance_mut::<u32>(at as usize));
            // SAFETY: by the contract of `Device` both addresses have this many words, which
            // nothing else accesses meanwhile.
            unsafe { from.copy_to(to, words) };
            return Ok(());
        };
        match (&program.launch, call) {
            (Launch::Teams(launch), Call::Teams(arguments, teams)) => {
                // SAFETY: the arguments have the layout of `team.h` and at least `teams` parts; by
                // the contract of `Device` the source accesses only the memory that they name.
                let missing =
                    unsafe { launch(arguments.as_ptr(), *teams, shared_bytes, seed, absent) };
                let (wave, place) = ((missing >> 32) as u32, missing as u32);
                let Some(wave) = wave.checked_sub(1) else { return Ok(()) };
                let why =
                    format!("wave {wave} waits for element {place} of the arena, never written");
                Err(CudaError::failed("a launch", why))
            }
            (Launch::Grid(launch), Call::Grid(arguments, blocks)) => {
                // SAFETY: the arguments have the layout of the source's `Work`; by the contract of
                // `Device` the source accesses only the memory that they name.
                unsafe { launch(arguments.as_ptr(), *blocks, shared_bytes, seed, absent) };
                Ok(())
            }
            _ => Err(CudaError::failed("a launch", "the program has another kernel")),
        }
    }
}

//! A pass of a program on a device: its compiled kernel, and where its cells run.

use std::sync::{Arc, PoisonError, RwLock};

use super::compilation::OnCompile;
use super::device::{Device, MemorySide, Source};
use super::phase_table::PhaseTable;
use super::place::{Placement, Placer};
use super::reads::Reads;
use super::team_pool::TeamKernel;
use super::{CudaError, Driver};

/// A pass of a program on a device.
pub(super) struct Pass<D: Device> {
    kernel: D::Program,
    /// The placer with all that plans have shown so far, and its placement.
    placed: RwLock<(Placer, Arc<Placed<D>>)>,
    driver: Driver,
}

/// The placement of a pass on teams.
pub(super) struct Placed<D: Device> {
    /// The phases: jobs do not divide those with resident weights.
    pub(super) table: PhaseTable,
    pub(super) placement: Placement,
    /// The placement's table on the device.
    places: D::Memory,
}

impl<D: Device> Pass<D> {
    /// Compiles the kernel of a pass.
    pub(super) fn new(
        device: &D,
        (source, placer): (&Source, Placer),
        driver: Driver,
        on_compile: OnCompile,
    ) -> Result<Self, CudaError> {
        let kernel = device.compile(source, on_compile)?;
        let placed = Arc::new(Placed::new(device, placer.place())?);
        Ok(Self { kernel, placed: RwLock::new((placer, placed)), driver })
    }

    /// Returns the placement for the next launch.
    pub(super) fn placed(&self) -> Arc<Placed<D>> {
        self.placed.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Places the pass again if a plan reads values of cells that earlier plans did not.
    pub(super) fn learn(&self, device: &D, reads: &Reads) -> Result<(), CudaError> {
        if self.placed.read().unwrap_or_else(PoisonError::into_inner).0.reads.contain(reads) {
            return Ok(());
        }
        let (placer, placed) = &mut *self.placed.write().unwrap_or_else(PoisonError::into_inner);
        placer.reads.merge(reads);
        let (table, placement) = placer.place();
        if placement != placed.placement {
            *placed = Arc::new(Placed::new(device, (table, placement))?);
        }
        Ok(())
    }

    /// Returns the kernel of teams with a placement.
    pub(super) fn team_kernel<'a>(
        &'a self,
        device: &'a D,
        placed: &'a Placed<D>,
    ) -> TeamKernel<'a, D> {
        let Placed { placement, places, .. } = placed;
        TeamKernel {
            device,
            program: &self.kernel,
            places: device.address(places),
            slices: placement.slices,
            resident: placement.resident,
            shared_bytes: placement.shared_bytes,
            parked: (0, size_of::<f32>() * placement.parked as usize),
            barriers: self.driver == Driver::Barriers,
        }
    }

    /// Returns true if unit tiles wait for each row until it is written, so that plans need cleared
    /// arenas.
    pub(super) fn waits_for_rows(&self, placed: &Placed<D>) -> bool {
        self.driver == Driver::Teams && placed.placement.places.iter().any(Option::is_some)
    }
}

impl<D: Device> Placed<D> {
    fn new(device: &D, (table, placement): (PhaseTable, Placement)) -> Result<Self, CudaError> {
        let places = copied(device, &placement.table())?;
        Ok(Self { table, placement, places })
    }
}

/// Copies words to new device memory.
pub(super) fn copied<D: Device>(device: &D, words: &[u32]) -> Result<D::Memory, CudaError> {
    let memory = device.memory(4 * words.len().max(1), MemorySide::Device)?;
    device.fill(&memory, words)?;
    Ok(memory)
}

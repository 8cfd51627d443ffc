//! A workload with the results that the processor computes.

use edbatch::Rows;
use edbatch_policy::{Encoding, Fsm};
use edbatch_runtime::Parameters;

use crate::Failure;
use crate::measure::contestant::Contestant;
use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::systems::weights;
use crate::measure::systems::{Setup, System};
use crate::measure::workload::{MiniBatch, Part, Workload};

/// Number of mini-batches; with several, inputs alternate.
const MINI_BATCHES: usize = 4;

/// A workload, its mini-batches, and their results.
pub(super) struct Subject {
    /// The workload.
    pub(super) workload: Box<dyn Workload>,
    /// Results by mini-batch.
    pub(super) expected: Vec<Vec<Rows>>,
    parameters: Parameters,
    mini_batches: Vec<MiniBatch>,
    unlearned: Fsm,
}

impl Subject {
    /// Computes the results of a workload on the processor.
    pub(super) fn new(family: &Family, hidden: usize, batch: usize) -> Result<Self, Failure> {
        let workload = family.at(hidden)?;
        let parameters = weights(workload.network());
        let instances = workload.instances(Part::Test);
        let mini_batches = MiniBatch::spread(instances, batch, MINI_BATCHES);
        let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
        let setup = Setup::new(System::Edbatch, &unlearned, 1);
        let mut cpu = workload.contestant(&setup, &parameters, &mini_batches)?;
        let expected = (0..MINI_BATCHES).map(|index| Ok(cpu.run(index)?.to_vec()));
        let expected = expected.collect::<Result<_, Failure>>()?;
        Ok(Self { workload, expected, parameters, mini_batches, unlearned })
    }

    /// Makes a contestant on a device.
    pub(super) fn contestant(
        &self,
        device: &Device,
        system: System,
        threads: usize,
    ) -> Result<Box<dyn Contestant>, Failure> {
        let setup = Setup::new(system, &self.unlearned, threads).on(Some(device));
        self.workload.contestant(&setup, &self.parameters, &self.mini_batches)
    }
}

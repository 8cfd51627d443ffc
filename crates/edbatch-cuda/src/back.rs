//! Backward plans on a device, over the arenas of forward ones.

use edbatch_layout::TrainingPlan;
use edbatch_runtime::{BackPart, BackendError, Given, OutputGradients, Rows};

use super::backend::Cuda;
use super::command_list::{Givens, Losses};
use super::device::{Arguments, Device, TeamPart};
use super::team_pool::TeamKernel;

/// The inputs of a part of a mini-batch: for each, the end of its wanted values.
pub(super) type Ends<'a> = &'a [u32];

impl<D: Device> Cuda<D> {
    /// Runs backward plans. Their forward plans ran last in the same slots of `forward`, which is on
    /// the same device. Appends the loss of each wanted value. The sums of losses, and the first
    /// input whose loss is not finite, are written to the state of the step at `stage`.
    ///
    /// Several parts with losses must run one after the other, as each adds its inputs to the sum.
    pub(super) fn run_back(
        &mut self,
        forward: &mut Self,
        parts: &[(BackPart<'_>, Ends<'_>)],
        stage: u64,
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let (device, placed) = (&*loaded.device, loaded.placed());
        let (mut are_clear, mut first_input) = (true, 0);
        self.parts.clear();
        for &(BackPart { slot, plan, outputs }, ends) in parts {
            let before = &mut forward.slots[slot];
            let own = self.slot(slot);
            let mut given = Given { initial: &Rows::new(), places: &[], host: &[] };
            let from = match outputs {
                OutputGradients::Rows(rows) => {
                    given.host = rows;
                    Givens::Gradients(before.commands.arena())
                }
                OutputGradients::CrossEntropy { targets, weight } => Givens::Losses(Losses {
                    forward: &plan.forward,
                    before: before.commands.arena(),
                    gradient_of: &plan.gradient_of,
                    targets,
                    weight,
                    ends,
                    first_input,
                }),
            };
            first_input += ends.len() as u32;
            own.commands.write_from(&loaded.program, &placed.table, &plan.back, from)?;
            own.give(device, &given)?;
            own.reserve_commands(device)?;
            are_clear &= before.memory.arenas.begin_again(device, own.commands.arena())?;
            let arena = before.memory.arenas.address(device);
            let arguments = Arguments { arena, stage, ..own.memory.arguments(&loaded) };
            let commands = own.memory.device_commands.address(device);
            let part = TeamPart::new(&own.commands, arguments, commands, (0, 0));
            self.parts.push(part);
        }
        // Without a barrier, a tile could take what an earlier plan left for a row of this one.
        let kernel = loaded.team_kernel(&placed);
        let kernel = TeamKernel { barriers: kernel.barriers || !are_clear, ..kernel };
        for own in self.parts.chunks(1) {
            device.team_pool().run(&kernel, own)?;
        }
        for &(BackPart { slot, plan, outputs }, ends) in parts {
            forward.slots[slot].memory.arenas.ended_again(are_clear);
            match outputs {
                OutputGradients::Rows(_) => {
                    losses.resize(losses.len() + plan.gradient_of.len(), 0.0)
                }
                OutputGradients::CrossEntropy { .. } => {
                    self.read_losses(forward, (slot, plan, ends), losses)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the losses of a part's wanted values.
    fn read_losses(
        &self,
        forward: &Self,
        (slot, plan, ends): (usize, &TrainingPlan, Ends<'_>),
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError> {
        let values = plan.gradient_of.len();
        let [at, _] = self.slots[slot].commands.places_of_losses(values, ends.len());
        let mut words = vec![0; 2 * values];
        forward.slots[slot].memory.arenas.read(&*self.loaded.device, at as usize, &mut words)?;
        let doubles = words.as_chunks::<2>().0.iter();
        losses.extend(
            doubles.map(|&[low, high]| f64::from_bits(u64::from(low) | u64::from(high) << 32)),
        );
        Ok(())
    }
}

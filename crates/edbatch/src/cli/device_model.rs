//! A folder's model as devices run it.

use edbatch_models::Zoo;

use super::failure::Failure;

/// Steps of a decoder that a device carries out before the host looks at the words. More would save
/// little: waiting for the host is an eighth of what it was, and on average half as many steps are
/// computed in vain.
const STEPS_PER_GRAPH: usize = 8;

/// The model, with the same results, in graphs that wait for the host as seldom as is worth it.
pub(crate) fn device_model(model: Zoo) -> Result<Zoo, Failure> {
    model.with_steps_per_graph(STEPS_PER_GRAPH).map_err(Failure::new)
}

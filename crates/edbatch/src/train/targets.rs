//! Checks targets against the emitted values.

use edbatch_graph::{Field, Graph, Shape, Value};

use crate::TrainError;

/// The class of a wanted value without a target.
pub(super) const NO_TARGET: u32 = u32::MAX;

/// Checks that an input has a target or none for each emitted value, and that a value with a target
/// is one vector of scores with that class.
pub(super) fn check_targets(
    graph: &Graph,
    emitted: &[Value],
    targets: &[Option<u32>],
    input: usize,
) -> Result<(), TrainError> {
    let (rows, network) = (emitted.len(), graph.network());
    if rows != targets.len() {
        return Err(TrainError::Targets { input, rows, targets: targets.len() });
    }
    for (row, (&value, target)) in emitted.iter().zip(targets).enumerate() {
        let Some(target) = *target else { continue };
        let record = graph.record_of(value).expect("a value of this graph");
        let record = network.fields(record);
        let [Field { shape: Shape::Vector(classes), .. }] = *record.fields.as_slice() else {
            return Err(TrainError::Scores { input, row, record: record.name.clone() });
        };
        if target >= classes {
            let classes = classes as usize;
            return Err(TrainError::Target { input, row, target, classes });
        }
    }
    Ok(())
}

//! A policy by its word on the command line.

use std::path::Path;

use edbatch_policy::{Agenda, Critical, Depth, Learned, Policy, PolicyChoice, Sufficient};

use super::failure::Failure;

/// A learned policy for other kinds than the graph's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherKinds {
    /// Is refused.
    Refused,
    /// Is used where it knows the state.
    Tolerated,
}

/// The policy, for graphs whose kinds have these names.
pub(crate) fn open(
    choice: &PolicyChoice,
    kinds: &[String],
    other: OtherKinds,
) -> Result<Box<dyn Policy + Send>, Failure> {
    Ok(match choice {
        PolicyChoice::Depth => Box::new(Depth::new()),
        PolicyChoice::Agenda => Box::new(Agenda::new()),
        PolicyChoice::Sufficient => Box::new(Sufficient::new()),
        PolicyChoice::Critical => Box::new(Critical::new()),
        PolicyChoice::Beam(_) => {
            return Err(Failure::new("this build has no beam search; choose another policy"));
        }
        PolicyChoice::File(path) => {
            let learned = learned(path)?;
            Box::new(match other {
                OtherKinds::Tolerated => learned.fsm_where_known(kinds),
                OtherKinds::Refused => {
                    learned.fsm(kinds).map_err(|error| Failure::at(path, error))?
                }
            })
        }
    })
}

fn learned(path: &Path) -> Result<Learned, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let names = "depth, agenda, sufficient, critical, beam:WIDTH or a learned policy's file";
        Failure::at(path, format_args!("expected {names}, got: {error}"))
    })?;
    Learned::from_json(&text).map_err(|error| Failure::at(path, error))
}

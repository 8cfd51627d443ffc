//! Trace of plans on a device.

use std::sync::Arc;

use edbatch_layout::{CellStyle, Program};
use edbatch_testing::Subject;

use crate::emulated;

/// A plan on a device is a slice of the trace, and waiting for its results is another.
#[test]
fn launches_and_waits_are_slices() {
    let subject = Subject::random(3);
    let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
    let program = Arc::new(program);
    for driver in emulated::DRIVERS {
        let backend = emulated::backend(program.clone(), &subject.parameters, driver);
        let Some(mut device) = backend else { return };
        let trace = edbatch::ChromeTrace::new(Vec::new());
        tracing::subscriber::with_default(trace.clone(), || {
            (0..3).for_each(|_| drop(subject.run(&program, &mut *device)));
        });
        let json: serde_json::Value = serde_json::from_slice(&trace.finish().unwrap()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let count = |kind| events.iter().filter(|event| event["cat"] == kind).count();
        assert_eq!((count("launch"), count("batch")), (3, 0), "{driver:?}");
        assert!(count("wait") >= 3, "{driver:?}");
    }
}

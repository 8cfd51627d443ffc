//! `infer` on an emulated device.

use std::fs;

use edbatch_runtime::kernels::Level;
use edbatch_testing::skip;

use crate::support::Scratch;

/// A translator decodes eight steps before the host looks, and writes the bytes that the processor
/// writes one step after the other.
#[test]
fn decoders_are_looked_at_every_eight_steps() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    let scratch = Scratch::new("devices");
    scratch.init("lstm_nmt");
    scratch.ok(&["learn", "@model", "--output", "@policy", "--method", "q", "--episodes", "5"]);
    let run = |words: &[&str]| -> (String, u64) {
        let all = [&["infer", "@model", "--threads", "1", "--stats", "@stats"], words].concat();
        let output = scratch.ok(&all);
        let stats = fs::read_to_string(scratch.path("stats")).unwrap();
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        (output, stats["graphs"].as_u64().unwrap())
    };
    let (expected, graphs) = run(&[]);
    let device = scratch.run(&["infer", "@model", "--backend", "cuda-emulated"]);
    let message = String::from_utf8_lossy(&device.stderr);
    if message.contains("there is no C++ compiler") {
        return skip(&message);
    }
    // A policy is learned on the folder's kinds, and a device has one more.
    for policy in ["auto", "@policy"] {
        let words = ["--backend", "cuda-emulated", "--policy", policy];
        let (got, fewer) = run(&words);
        assert!(got == expected, "{policy}: other bytes");
        assert_eq!(fewer, (graphs - 1).div_ceil(8) + 1, "{policy}, of {graphs}");
    }
}

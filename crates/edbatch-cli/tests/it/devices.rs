//! `infer` on an emulated device.

use edbatch_runtime::kernels::Level;
use edbatch_testing::skip;

use crate::support::Scratch;

#[test]
fn an_emulated_device_gives_the_bytes_of_the_cpu() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    let scratch = Scratch::new("devices");
    scratch.init("lstm_nmt");
    scratch.ok(&["learn", "@model", "--output", "@policy", "--method", "q", "--episodes", "5"]);
    let expected = scratch.ok(&["infer", "@model"]);
    let device = ["infer", "@model", "--backend", "cuda-emulated"];
    let message = String::from_utf8(scratch.run(&device).stderr).unwrap();
    if message.contains("there is no C++ compiler") {
        return skip(&message);
    }
    for policy in ["auto", "@policy"] {
        let got = scratch.ok(&[&device[..], &["--policy", policy]].concat());
        assert!(got == expected, "{policy}: other bytes");
    }
}

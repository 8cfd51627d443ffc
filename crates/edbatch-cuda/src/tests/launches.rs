//! Mistakes that the emulated device finds, and errors of devices.

use super::Kernel;
use crate::CudaError;
use crate::device::{self, Device, MemorySide, Source};
use crate::emulated::Emulated;
use crate::nvidia::Nvidia;
use crate::store::Store;

/// Returns 256 floats of the arena after a launch, for several seeds.
fn left(wave: &str) -> Option<Vec<Vec<u32>>> {
    [1, 2, 3]
        .into_iter()
        .map(|seed| {
            let left = Kernel::emulated(seed, "", wave)?.run((1, &[], &[], &[], 256));
            Some(left.arena.into_iter().map(f32::to_bits).collect())
        })
        .collect()
}

#[test]
fn a_missing_barrier_is_found() {
    let apart = "block.superstep([&](u32 t) { block.shared()[t] = (float)t; });
        block.superstep([&](u32 t) { a.arena[t] = block.shared()[(t + 1) % THREADS]; });";
    let merged = "block.superstep([&](u32 t) {
            block.shared()[t] = (float)t;
            a.arena[t] = block.shared()[(t + 1) % THREADS];
        });";
    let Some(right) = left(apart) else { return };
    let expected: Vec<u32> = (1..257).map(|t| ((t % 256) as f32).to_bits()).collect();
    assert!(right.iter().all(|left| *left == expected));
    let wrong = left(merged).expect("there is a compiler");
    assert!(wrong.iter().all(|left| *left != expected));
    assert!(wrong[0] != wrong[1] && wrong[1] != wrong[2] && wrong[0] != wrong[2]);
}

#[test]
fn memory_holds_nan_until_it_is_written() {
    // The second block must not see the shared memory of the first.
    let wave = "block.superstep([&](u32 t) {
            a.arena[block.index * THREADS + t] = block.shared()[t];
        });
        block.superstep([&](u32 t) { block.shared()[t] = 1.0f; });";
    let Some(kernel) = Kernel::emulated(1, "", wave) else { return };
    assert!(kernel.run((2, &[], &[], &[], 512)).arena.iter().all(|x| x.is_nan()));
    let memory = kernel.device.memory(10, MemorySide::Host).unwrap();
    assert_eq!(kernel.device.host(&memory), [f32::NAN.to_bits(); 3]);
}

#[test]
fn each_launch_has_a_different_order_of_blocks() {
    let wave = "block.superstep([&](u32 t) {
        if (t == 0) a.arena[(u32)(a.arena[0] += 1.0f)] = (float)block.index;
    });";
    let Some(kernel) = Kernel::emulated(1, "", wave) else { return };
    let order = || kernel.run((64, &[], &[], &[0.0], 64)).arena[1..].to_vec();
    let (first, second) = (order(), order());
    assert_ne!(first, second);
    for mut blocks in [first, second] {
        blocks.sort_by(f32::total_cmp);
        assert!(blocks.into_iter().eq((0..64).map(|block| block as f32)));
    }
}

#[test]
fn mistakes_are_errors() {
    let device = Emulated::new(1);
    let source = Source { text: "no C++".to_string(), kernel: device::Kernel::Plan };
    match device.compile(&source, None) {
        Err(CudaError::Compile { log }) => assert!(log.contains("kernels.cpp"), "{log}"),
        Err(error @ CudaError::NoCompiler { .. }) => edbatch_testing::skip(&error.to_string()),
        other => panic!("{other:?}"),
    }
    let memory = device.memory(4, MemorySide::Device).unwrap();
    let error = device.fill(&memory, &[0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "words to fill memory with: expected at most 1, got 2");
    let error = device.memory(usize::MAX / 2, MemorySide::Device).unwrap_err();
    assert!(matches!(error, CudaError::Memory { .. }), "{error}");
}

#[test]
#[should_panic(expected = "host memory only")]
fn reading_device_memory_on_the_host_panics() {
    let device = Emulated::new(1);
    device.host(&device.memory(4, MemorySide::Device).unwrap());
}

/// With a GPU, this checks only its architecture.
#[test]
fn an_error_without_a_gpu_says_what_to_install() {
    match Nvidia::new(0, Store::of_user()) {
        Ok(device) => assert!(device.properties().architecture.starts_with("sm_")),
        Err(error) => {
            edbatch_testing::skip(&format!("no launch on a device: {error}"));
            let advice = match error {
                CudaError::NoDriver => "install NVIDIA's driver",
                CudaError::DriverTooOld { .. } => "install a newer driver",
                CudaError::NoDevice { .. } => "no CUDA device 0",
                CudaError::Architecture { .. } => "8.0",
                ref other => panic!("{other}"),
            };
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
    if let Err(error) = Nvidia::new(1000, Store::of_user()) {
        assert!(matches!(
            error,
            CudaError::NoDriver | CudaError::DriverTooOld { .. } | CudaError::NoDevice { .. }
        ));
    }
}

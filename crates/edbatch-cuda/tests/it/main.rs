//! Tests of plans, kernels and emulated devices.

mod device_code;
mod emulated;
mod plans;

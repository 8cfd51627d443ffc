//! The C++ of element-wise operations and of constants.

use edbatch_graph::{Binary, Slope};
use edbatch_layout::{Form, Operation};

/// Returns the C++ expression of an operation on a, b, c and d. It rounds in the same places as the
/// CPU.
pub(super) fn value(operation: Operation, [a, b, c, d]: [String; 4]) -> String {
    match operation {
        Operation::Copy => a,
        Operation::Binary(binary) => match binary {
            Binary::Add => format!("add({a}, {b})"),
            Binary::Sub => format!("sub({a}, {b})"),
            Binary::Mul => format!("mul({a}, {b})"),
            Binary::Div => format!("div_({a}, {b})"),
            Binary::Maximum => format!("larger({a}, {b})"),
            Binary::Minimum => format!("smaller({a}, {b})"),
        },
        Operation::Neg => format!("mul(-1.0f, {a})"),
        Operation::Scale(factor) => format!("mul({a}, {})", constant(factor)),
        Operation::Larger => format!("share_of_larger({a}, {b})"),
        Operation::Slope(slope) => format!("{}({a}, {b})", function(slope)),
        Operation::SlopeOfProduct(slope) => format!("{}(mul({a}, {b}), {c})", function(slope)),
        Operation::ScaledSum(factor) => format!("mul(add({a}, {b}), {})", constant(factor)),
        Operation::AddProduct => format!("add(mul({a}, {b}), {c})"),
        Operation::SumOfProducts => format!("add(mul({a}, {b}), mul({c}, {d}))"),
        Operation::Apply(form, function) => {
            // `functions.h` defines each function under its name and an underscore.
            let f = format!("{}_", function.name());
            match form {
                Form::Plain => format!("{f}({a})"),
                Form::OfSum => format!("{f}(add({a}, {b}))"),
                Form::OfSums => format!("{f}(add(add({a}, {b}), {c}))"),
                Form::Times => format!("mul({b}, {f}({a}))"),
                Form::OfSumTimes => format!("mul({c}, {f}(add({a}, {b})))"),
                Form::Between => format!("add({c}, mul({f}({a}), sub({b}, {c})))"),
                Form::OfSumBetween => format!("add({d}, mul({f}(add({a}, {b})), sub({c}, {d})))"),
            }
        }
    }
}

/// Returns the name of a slope in `kernels/functions.h`.
fn function(slope: Slope) -> &'static str {
    match slope {
        Slope::Sigmoid => "slope_of_sigmoid",
        Slope::Tanh => "slope_of_tanh",
        Slope::Relu => "slope_of_relu",
    }
}

/// Returns the C++ expression of a float, with exactly its bits.
pub(super) fn constant(x: f32) -> String {
    format!("from_bits({:#010x}u)", x.to_bits())
}

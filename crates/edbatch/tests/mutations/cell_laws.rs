//! What the checker says of each sort of spoilt cell, and which may change nothing.

use crate::tally::Law;

/// The steps fit together, and compute something else.
const OTHER_VALUE: [&str; 3] =
    ["another value than is declared", "never written", "not all written before"];
/// A place that is none.
const NO_PLACE: [&str; 8] = [
    "out of bounds",
    "there is no such",
    "not all of fields",
    "which only the body may",
    "which is read only",
    "the prologue reads more than one argument",
    "as if it took",
    "in what it reads",
];
const NO_SHAPE: [&str; 4] = ["weight", "pieces of", "as many places", "outputs in ascending order"];
const TWICE: [&str; 1] = ["twice"];
const NO_FRAME: [&str; 5] = [
    "expected that of",
    "parts of another cell",
    "elements every",
    "writes other rows than the whole",
    "the body of a divided cell",
];
const NO_DIVISION: [&str; 3] = [
    "is divided by a table or by a port",
    "a part of a divided cell is divided",
    "the prologue reads more than one argument",
];

/// A law for a field that says where something is, how much, or what.
const fn field(what: &'static str) -> Law {
    Law { what, says: &[&OTHER_VALUE, &NO_PLACE, &NO_SHAPE, &TWICE], harmless: &[] }
}

/// A law for a field that may name another place where the same stands.
const fn read(what: &'static str, harmless: &'static [(&'static str, &'static str)]) -> Law {
    Law { what, says: &[&OTHER_VALUE, &NO_PLACE, &NO_SHAPE, &TWICE], harmless }
}

/// Of a cell in which something is changed in one place, and in which nothing is computed in vain.
/// What is accepted was evaluated, and computed the same numbers.
pub(crate) const LAWS: &[Law] = &[
    Law { what: "name", says: &[&NO_FRAME], harmless: &[] },
    Law {
        what: "output_width",
        says: &[&NO_FRAME, &NO_PLACE],
        harmless: &[("one more", "hoisted rows are padded")],
    },
    Law { what: "output_stride", says: &[&NO_FRAME], harmless: &[] },
    Law {
        what: "regions",
        says: &[&NO_PLACE, &OTHER_VALUE],
        harmless: &[
            ("one more", LEFT_OVER),
            ("huge", LEFT_OVER),
            ("doubled", LEFT_OVER),
            ("swapped", "both are large enough for what is in the other"),
            ("dropped", "no step of this part touches it"),
            ("cut short", "no step of this part touches those"),
            ("one less", "no step of this part touches it"),
            ("nought", "no step of this part touches it"),
        ],
    },
    Law {
        what: "steps",
        says: &[&OTHER_VALUE, &NO_PLACE, &TWICE],
        harmless: &[
            ("doubled", "it writes the same once more"),
            ("swapped", "neither reads what the other writes, or both add to one sum"),
        ],
    },
    Law {
        what: "hoisted",
        says: &[&NO_DIVISION, &NO_FRAME, &OTHER_VALUE, &NO_PLACE],
        harmless: &[("dropped", "a cell need not be divided")],
    },
    Law { what: "hoisted.from", says: &[&NO_DIVISION], harmless: &[] },
    field("Reduce.port"),
    field("Reduce.from"),
    field("Reduce.width"),
    field("Reduce.by"),
    field("Reduce.out"),
    field("Product.weights"),
    field("Product.rows"),
    field("Product.width"),
    read("Product.x", &[("elsewhere", SAME)]),
    field("Product.out"),
    field("Product.mode"),
    field("MatMul.left"),
    field("MatMul.right"),
    field("MatMul.bias"),
    field("MatMul.m"),
    field("MatMul.k"),
    field("MatMul.n"),
    field("MatMul.out"),
    field("Elementwise.width"),
    read(
        "Elementwise.inputs",
        &[("swapped", "they are operands of one sum or product"), ("elsewhere", SAME)],
    ),
    field("Elementwise.outputs"),
    read(
        "Elementwise.program",
        &[
            ("operands swapped", "a sum or a product, or a single operand"),
            ("another operand", "by chance it is the one"),
            ("another output", "by chance it is the one"),
        ],
    ),
    read("Softmax.from", &[("elsewhere", SAME)]),
    field("Softmax.width"),
    field("Softmax.logarithm"),
    field("Softmax.out"),
    read("Copy.from", &[("elsewhere", SAME)]),
    read("Copy.width", &[("one more", "what is copied besides is written over")]),
    field("Copy.out"),
    read("Expand.from", &[("elsewhere", SAME)]),
    field("Expand.rows"),
    field("Expand.columns"),
    field("Expand.out"),
    field("Transpose.from"),
    field("Transpose.rows"),
    field("Transpose.columns"),
    field("Transpose.out"),
    field("Fill.value"),
    field("Fill.width"),
    field("Fill.out"),
];

/// Sorts that no cell can refuse.
pub(crate) const ALWAYS_HARMLESS: &[(&str, &str)] =
    &[("hoisted", "dropped"), ("regions", "one more"), ("regions", "huge")];

const LEFT_OVER: &str = "scratch is left over";
const SAME: &str = "the same stands there: a copy, a constant, or the same operation twice";

//! The expected errors of the checker for each sort of invalid cell, and the harmless changes.

use super::tally::Law;

/// Errors of valid steps that compute other values.
const OTHER_VALUE: [&str; 3] =
    ["differs from the declared value", "never written", "before all are written"];
/// Errors of steps with an invalid place.
const NO_PLACE: [&str; 13] = [
    "out of bounds",
    "does not exist",
    "beyond its fields",
    "outside the body",
    "which is read-only",
    "the prologue reads more than one argument",
    "with the wrong arity",
    "in memory that it also reads",
    "counts the values",
    "is not a matrix",
    "reads an index below",
    "reads rows of an index port",
    "heads of",
];
const NO_SHAPE: [&str; 4] = ["weight", "pieces of", "output places", "outputs in ascending order"];
const TWICE: [&str; 1] = ["twice"];
const NO_FRAME: [&str; 4] = [
    "expected cell",
    "a part belongs to another cell",
    "elements with stride",
    "the body of a divided cell",
];
const NO_DIVISION: [&str; 3] = [
    "is divided by neither a table nor a port",
    "a part of a divided cell is divided",
    "the prologue reads more than one argument",
];

/// The law of a field for which every change is an error.
const fn field(what: &'static str) -> Law {
    Law { what, says: &[&OTHER_VALUE, &NO_PLACE, &NO_SHAPE, &TWICE], harmless: &[] }
}

/// The law of a field with some harmless changes.
const fn read(what: &'static str, harmless: &'static [(&'static str, &'static str)]) -> Law {
    Law { what, says: &[&OTHER_VALUE, &NO_PLACE, &NO_SHAPE, &TWICE], harmless }
}

/// The laws for cells in which every result is used, with one change. Accepted mutants are
/// evaluated, and must compute the same numbers.
pub(crate) const LAWS: &[Law] = &[
    Law { what: "name", says: &[&NO_FRAME], harmless: &[] },
    Law {
        what: "output_width",
        says: &[&NO_FRAME, &NO_PLACE],
        harmless: &[("plus one", "hoisted rows are padded")],
    },
    Law { what: "output_stride", says: &[&NO_FRAME], harmless: &[] },
    Law {
        what: "regions",
        says: &[&NO_PLACE, &OTHER_VALUE],
        harmless: &[
            ("plus one", LEFT_OVER),
            ("huge", LEFT_OVER),
            ("duplicated", LEFT_OVER),
            ("swapped", "both are large enough for the contents of the other"),
            ("removed", "no step of this part uses it"),
            ("truncated", "no step of this part uses them"),
            ("minus one", "no step of this part uses it"),
            ("zero", "no step of this part uses it"),
        ],
    },
    Law {
        what: "steps",
        says: &[&OTHER_VALUE, &NO_PLACE, &TWICE],
        harmless: &[
            ("duplicated", "it writes the same values again"),
            ("swapped", "they are independent, or both add to one sum"),
        ],
    },
    Law {
        what: "hoisted",
        says: &[&NO_DIVISION, &NO_FRAME, &OTHER_VALUE, &NO_PLACE],
        harmless: &[("removed", "a cell need not be divided")],
    },
    Law { what: "hoisted.from", says: &[&NO_DIVISION], harmless: &[] },
    field("Reduce.port"),
    field("Reduce.from"),
    read("Reduce.width", &[("plus one", EXTRA)]),
    field("Reduce.by"),
    field("Reduce.out"),
    read("Product.weights", &[("transposed", "a matrix of one element is its transpose")]),
    read("Product.rows", &[("plus one", EXTRA)]),
    field("Product.width"),
    read("Product.x", NEIGHBOURS),
    field("Product.out"),
    field("Product.mode"),
    read("MatMul.left", NEIGHBOURS),
    read("MatMul.right", NEIGHBOURS),
    read("MatMul.bias", NEIGHBOURS),
    read("MatMul.m", &[("plus one", EXTRA)]),
    field("MatMul.k"),
    field("MatMul.n"),
    field("MatMul.out"),
    read("Elementwise.width", &[("plus one", EXTRA)]),
    read(
        "Elementwise.inputs",
        &[
            ("swapped", "they are operands of one sum or product"),
            ("elsewhere", SAME),
            ("plus one", SAME),
            ("minus one", SAME),
            ("zero", SAME),
        ],
    ),
    field("Elementwise.outputs"),
    read(
        "Elementwise.program",
        &[
            ("operands swapped", "a sum or a product, or a single operand"),
            ("another operand", "by chance it is the same one"),
            ("another output", "by chance it is the same one"),
        ],
    ),
    field("Attention.port"),
    read("Attention.scores", NEIGHBOURS),
    field("Attention.values"),
    field("Attention.heads"),
    read("Attention.width", &[("plus one", EXTRA)]),
    field("Attention.out"),
    field("AttentionBack.of"),
    read("AttentionBack.query", NEIGHBOURS),
    read("AttentionBack.gradient", NEIGHBOURS),
    field("AttentionBack.out"),
    read("Normalize.from", NEIGHBOURS),
    read("Normalize.rows", &[("plus one", EXTRA)]),
    field("Normalize.columns"),
    field("Normalize.out"),
    field("Normalize.kernel"),
    read("Dot.from", NEIGHBOURS),
    read("Dot.rows", &[("plus one", EXTRA)]),
    field("Dot.columns"),
    field("Dot.out"),
    read("Select.from", NEIGHBOURS),
    field("Select.rows"),
    field("Select.columns"),
    field("Select.out"),
    field("Select.kernel"),
    field("OneHot.columns"),
    field("OneHot.out"),
    field("OneHot.kernel"),
    read("Ties.from", NEIGHBOURS),
    read("Ties.rows", &[("plus one", EXTRA)]),
    read("Ties.columns", &[("plus one", EXTRA)]),
    field("Ties.out"),
    field("Ties.kernel"),
    read("Copy.from", NEIGHBOURS),
    read("Copy.rows", &[("plus one", EXTRA)]),
    read("Copy.columns", &[("plus one", EXTRA)]),
    field("Copy.out"),
    field("Copy.kernel"),
    read("Expand.from", NEIGHBOURS),
    read("Expand.rows", &[("plus one", EXTRA)]),
    read("Expand.columns", &[("plus one", "one more copy of a single element, in padding")]),
    field("Expand.out"),
    read("Expand.kernel", ONE_ROW),
    read("Transpose.from", NEIGHBOURS),
    read("Transpose.rows", &[("plus one", EXTRA)]),
    field("Transpose.columns"),
    field("Transpose.out"),
    read("Transpose.kernel", ONE_ROW),
    read("Fold.from", NEIGHBOURS),
    read("Fold.rows", &[("plus one", EXTRA)]),
    field("Fold.columns"),
    field("Fold.out"),
    field("Fold.kernel"),
    read("Share.from", NEIGHBOURS),
    read("Share.rows", &[("plus one", EXTRA)]),
    read("Share.columns", &[("plus one", EXTRA)]),
    field("Share.out"),
    field("Share.kernel"),
    read("Fill.rows", &[("plus one", EXTRA)]),
    read("Fill.columns", &[("plus one", EXTRA)]),
    field("Fill.out"),
    field("Fill.kernel"),
];

/// Changes after which every cell is still valid.
pub(crate) const ALWAYS_HARMLESS: &[(&str, &str)] =
    &[("hoisted", "removed"), ("regions", "plus one"), ("regions", "huge")];

const EXTRA: &str = "the extra element is overwritten later";
/// Of a single row, a transposition and one copy of each element are the same.
const ONE_ROW: &[(&str, &str)] = &[("another kernel", "there is one row, or one column")];
const LEFT_OVER: &str = "unused scratch";
/// Other places for the operand of a step.
const NEIGHBOURS: &[(&str, &str)] =
    &[("elsewhere", SAME), ("plus one", SAME), ("minus one", SAME), ("zero", SAME)];
const SAME: &str = "an equal value is there: a copy, a constant, or the same operation twice";

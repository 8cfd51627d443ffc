//! The expected errors of the checker for each sort of invalid plan, and the harmless changes.

use super::tally::Law;

/// Errors of a row that holds another value, or nothing.
const NOT_THERE: [&str; 7] = [
    "found",
    "expected the start of a cache line",
    "beyond the arena",
    "which holds",
    "which has another record",
    "which the same step writes",
    "on both sides of the rows that its step writes",
];
/// Errors of a list that is out of bounds, or overlaps another.
const NO_LIST: [&str; 3] =
    ["beyond the plan's lists", "beyond the plan's rows", "overlaps another"];
/// Errors of an operand with a form that its port does not take.
const NO_FORM: [&str; 4] = [
    "expected a span or a list",
    "expected many rows a call",
    "expected rows of",
    "a prologue step reads operand",
];
const NO_ROW: [&str; 3] = ["expected row", "not a row of the table", "is hoisted twice"];
const NO_OPERANDS: [&str; 3] = ["operands start at", "operands, got fewer", "but the steps use"];
const NO_BATCH: [&str; 2] = ["batch steps, expected", "calls of"];
/// The harmless changes of a number that points into a list.
const IN_LISTS: [(&str, &str); 5] = [
    ("plus one", REPEATED),
    ("minus one", REPEATED),
    ("plus a line", REPEATED),
    ("minus a line", REPEATED),
    ("zero", REPEATED),
];

/// The laws for plans with one change. Accepted mutants are run, and must compute the same bits.
pub(crate) const LAWS: &[Law] = &[
    Law {
        what: "step.cell",
        says: &[
            &NO_BATCH,
            &NO_OPERANDS,
            &NO_FORM,
            &NOT_THERE,
            &NO_ROW,
            &["has no prologue", "whose table is folded"],
        ],
        harmless: &[],
    },
    Law {
        what: "step.action",
        says: &[
            &NO_BATCH,
            &NO_OPERANDS,
            &NO_FORM,
            &NOT_THERE,
            &["a cell that is not divided", "a cell that is divided by a table"],
            &["whose table is folded"],
        ],
        harmless: &[],
    },
    Law {
        what: "step.calls",
        says: &[&NO_BATCH, &NO_LIST, &NO_ROW, &NOT_THERE],
        harmless: &[("plus one", MORE_HOISTED), ("plus a line", MORE_HOISTED)],
    },
    Law {
        what: "step.out",
        says: &[&NOT_THERE],
        harmless: &[
            ("plus a line", UNREAD),
            ("minus a line", UNREAD),
            ("zero", UNREAD),
            ("from elsewhere", UNREAD),
        ],
    },
    Law { what: "step.operands", says: &[&NO_OPERANDS], harmless: &[] },
    Law {
        what: "steps",
        says: &[&NO_BATCH, &NO_OPERANDS, &NOT_THERE, &NO_ROW, &NO_LIST, &["values at port"]],
        harmless: &[
            ("duplicated whole", "the prologue for values runs twice"),
            ("swapped whole", "neither step reads or writes rows that the other writes"),
        ],
    },
    Law {
        what: "batch",
        says: &[&NOT_THERE],
        harmless: &[("moved onto another", "all readers of the other batch have run by then")],
    },
    Law {
        what: "operand",
        says: &[&NO_FORM, &NO_LIST, &NO_ROW, &NOT_THERE],
        harmless: &[(
            "another form",
            "a list starts with the same row, or the named row is not read",
        )],
    },
    Law {
        what: "operands",
        says: &[&NO_FORM, &NO_OPERANDS, &NO_LIST, &NO_ROW, &NOT_THERE, &["values at port"]],
        harmless: &[("swapped", "both operands name the same rows")],
    },
    // A prologue may run for other rows, but then a call does not find the row that it names.
    Law { what: "table.start", says: &[&NO_LIST, &NO_ROW, &NOT_THERE], harmless: &[] },
    Law { what: "hoisted.start", says: &[&NO_LIST, &NOT_THERE], harmless: &[] },
    Law { what: "folded.start", says: &[&NO_LIST, &NO_ROW], harmless: &[] },
    Law {
        what: "span.first",
        says: &[&NOT_THERE],
        harmless: &[("minus a line", SAME_ARGUMENT), ("plus a line", SAME_ARGUMENT)],
    },
    Law {
        what: "span.stride",
        says: &[&NOT_THERE, &["a span with stride 0"]],
        harmless: &[
            ("plus one", SINGLE),
            ("minus one", SINGLE),
            ("plus a line", SINGLE),
            ("minus a line", SINGLE),
            ("huge", SINGLE),
        ],
    },
    Law { what: "list.start", says: &[&NO_LIST, &NOT_THERE], harmless: &IN_LISTS },
    Law { what: "many.ends", says: &[&NO_LIST, &["values at port"]], harmless: &IN_LISTS },
    Law { what: "many.rows", says: &[&NO_LIST, &NOT_THERE], harmless: &IN_LISTS },
    Law {
        what: "lists",
        says: &[&NO_LIST, &NOT_THERE, &["values at port"]],
        harmless: &[
            ("duplicated", "the following lists have the same entry in its place"),
            ("removed", "the following lists have the same entry in its place"),
            ("swapped", REPEATED),
            ("from elsewhere", REPEATED),
        ],
    },
    Law {
        what: "rows",
        says: &[&NO_LIST, &NO_ROW, &NOT_THERE],
        harmless: &[
            ("plus one", LEFT_OVER),
            ("minus one", LEFT_OVER),
            ("plus a line", LEFT_OVER),
            ("minus a line", LEFT_OVER),
            ("huge", LEFT_OVER),
            ("from elsewhere", LEFT_OVER),
            ("duplicated", LEFT_OVER),
            ("removed", LEFT_OVER),
            ("swapped", LEFT_OVER),
        ],
    },
    Law {
        what: "arena",
        says: &[&["beyond the arena", "expected at most 2^32"]],
        harmless: &[("plus one", "unused memory"), ("plus a line", "unused memory")],
    },
    Law {
        what: "given",
        says: &[&NOT_THERE, &["given value", "overlaps another"]],
        harmless: &[
            ("plus a line", "no call reads this value, or its row is free until all have"),
            ("minus a line", "no call reads this value, or its row is free until all have"),
        ],
    },
    Law { what: "given.record", says: &[&["given value"]], harmless: &[] },
    Law { what: "wanted", says: &[&NOT_THERE, &["wanted value"]], harmless: &[] },
    Law { what: "wanted.record", says: &[&["wanted value"]], harmless: &[] },
    Law { what: "wanted.want", says: &[&["wanted value"]], harmless: &[] },
];

const UNREAD: &str = "no step reads the rows, and they overlap no row that is read later";
const MORE_HOISTED: &str = "other rows are hoisted, into unused memory";
const SAME_ARGUMENT: &str = "the hoisted row of another call with the same argument";
const SINGLE: &str = "the span has a single row";
const REPEATED: &str = "the list has the same entries there";
const LEFT_OVER: &str = "it is in spare capacity";

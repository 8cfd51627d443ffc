//! What the checker says of each sort of spoilt plan, and which may change nothing.

use crate::tally::Law;

/// A row holds another value, or none.
const NOT_THERE: [&str; 8] = [
    "found",
    "which is not where it begins",
    "expected the start of a cache line",
    "beyond the arena",
    "where there is",
    "which is of another record",
    "which the same step writes",
    "on both sides of what its step writes",
];
/// A list is not where a list may be.
const NO_LIST: [&str; 3] =
    ["beyond the plan's lists", "beyond the plan's rows", "overlaps another"];
/// An operand is of a form that its port does not take.
const NO_FORM: [&str; 5] = [
    "expected a span or a list",
    "expected many rows a call",
    "expected rows of it",
    "expected rows of",
    "a hoisting step reads operand",
];
const NO_ROW: [&str; 3] = ["expected row", "no row of the table", "is hoisted twice"];
const NO_OPERANDS: [&str; 3] = ["operands from", "operands, got fewer", "of which the steps have"];
const NO_BATCH: [&str; 2] = ["calls for", "calls of"];

/// Of a plan that is changed in one place. What is accepted was run, and computed the same bits.
pub(crate) const LAWS: &[Law] = &[
    Law {
        what: "step.cell",
        says: &[
            &NO_BATCH,
            &NO_OPERANDS,
            &NO_FORM,
            &NOT_THERE,
            &NO_ROW,
            &["nothing of", "values are hoisted", "which is folded"],
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
            &["which is folded"],
        ],
        harmless: &[],
    },
    Law {
        what: "step.action.capacity",
        says: &[&["beyond the capacity", "values are hoisted"], &NO_LIST, &NOT_THERE],
        harmless: &[("one less", "a plan that can be refilled has more capacity than it needs")],
    },
    Law {
        what: "step.calls",
        says: &[&NO_BATCH, &["beyond the capacity", "values are hoisted"], &NO_ROW, &NOT_THERE],
        harmless: &[("one more", "another row is hoisted, into capacity that was left over")],
    },
    Law {
        what: "step.out",
        says: &[&NOT_THERE, &["is written over"]],
        harmless: &[
            ("a line on", UNREAD),
            ("a line back", UNREAD),
            ("nought", UNREAD),
            ("another's", UNREAD),
        ],
    },
    Law { what: "step.operands", says: &[&NO_OPERANDS], harmless: &[] },
    Law {
        what: "steps",
        says: &[
            &NO_BATCH,
            &NO_OPERANDS,
            &NOT_THERE,
            &NO_ROW,
            &["is hoisted twice", "values at port", "is written over"],
        ],
        harmless: &[
            ("doubled whole", "what is hoisted for values is computed twice"),
            ("swapped whole", "neither of the two steps reads or writes what the other writes"),
        ],
    },
    Law {
        what: "batch",
        says: &[&NOT_THERE, &["is written over"]],
        harmless: &[("moved onto another", "by then all have read what the other batch made")],
    },
    Law {
        what: "operand",
        says: &[&NO_FORM, &NO_LIST, &NO_ROW, &NOT_THERE],
        harmless: &[(
            "another form",
            "a list begins with the very row, or a row is named that is not read",
        )],
    },
    Law {
        what: "operands",
        says: &[&NO_FORM, &NO_OPERANDS, &NO_LIST, &NO_ROW, &NOT_THERE, &["values at port"]],
        harmless: &[("swapped", "both operands name the same rows")],
    },
    Law { what: "table.start", says: &[&NO_LIST, &NO_ROW], harmless: &[] },
    Law { what: "hoisted.start", says: &[&NO_LIST, &NOT_THERE], harmless: &[] },
    Law { what: "folded.start", says: &[&NO_LIST, &NO_ROW], harmless: &[] },
    Law { what: "span.first", says: &[&NOT_THERE], harmless: &[] },
    Law {
        what: "span.stride",
        says: &[&NOT_THERE, &["rows lie at one place"]],
        harmless: &[
            ("one more", SINGLE),
            ("one less", SINGLE),
            ("a line on", SINGLE),
            ("a line back", SINGLE),
            ("huge", SINGLE),
        ],
    },
    Law {
        what: "list.start",
        says: &[&NO_LIST, &NOT_THERE],
        harmless: &[
            ("one more", REPEATED),
            ("one less", REPEATED),
            ("a line on", REPEATED),
            ("a line back", REPEATED),
            ("nought", REPEATED),
        ],
    },
    Law {
        what: "many.ends",
        says: &[&NO_LIST, &["values at port"]],
        harmless: &[
            ("one more", REPEATED),
            ("one less", REPEATED),
            ("a line on", REPEATED),
            ("a line back", REPEATED),
            ("nought", REPEATED),
        ],
    },
    Law {
        what: "many.rows",
        says: &[&NO_LIST, &NOT_THERE],
        harmless: &[
            ("one more", REPEATED),
            ("one less", REPEATED),
            ("a line on", REPEATED),
            ("a line back", REPEATED),
            ("nought", REPEATED),
        ],
    },
    Law {
        what: "lists",
        says: &[&NO_LIST, &NOT_THERE, &["values at port"]],
        harmless: &[
            ("doubled", "the lists behind it have it in the same place"),
            ("dropped", "the lists behind it have it in the same place"),
            ("swapped", REPEATED),
            ("another's", REPEATED),
        ],
    },
    Law {
        what: "rows",
        says: &[&NO_LIST, &NO_ROW, &NOT_THERE],
        harmless: &[
            ("one more", LEFT_OVER),
            ("one less", LEFT_OVER),
            ("a line on", LEFT_OVER),
            ("a line back", LEFT_OVER),
            ("huge", LEFT_OVER),
            ("another's", LEFT_OVER),
            ("doubled", LEFT_OVER),
            ("dropped", LEFT_OVER),
            ("swapped", LEFT_OVER),
        ],
    },
    Law {
        what: "arena",
        says: &[&["beyond the arena", "expected at most 2^32"]],
        harmless: &[("one more", "memory is left over"), ("a line more", "memory is left over")],
    },
    Law {
        what: "given",
        says: &[&NOT_THERE, &["given value", "overlaps another"]],
        harmless: &[
            ("a line on", "no call reads this value, or its row was free until all had"),
            ("a line back", "no call reads this value, or its row was free until all had"),
        ],
    },
    Law { what: "given.record", says: &[&["given value"]], harmless: &[] },
    Law { what: "wanted", says: &[&NOT_THERE, &["wanted value"]], harmless: &[] },
    Law { what: "wanted.record", says: &[&["wanted value"]], harmless: &[] },
    Law { what: "wanted.want", says: &[&["wanted value"]], harmless: &[] },
];

const UNREAD: &str = "no step reads the rows, and they lie on nothing that is read later";
const SINGLE: &str = "a span of a single row has no next one";
const REPEATED: &str = "the same numbers stand there";
const LEFT_OVER: &str = "it lies in capacity that was left over";

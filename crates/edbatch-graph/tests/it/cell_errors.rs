//! Errors of invalid cells and declarations.

use edbatch_graph::{CellBuilder, CellError, Network, RecordId, Shape, Tensor};

use Shape::{Matrix, Vector};

use crate::cell::declare;

/// Checks the error of the cell `step`, which may use a record `state` with two fields.
fn check(expected: &str, build: impl for<'c> FnOnce(&'c CellBuilder, RecordId) -> Vec<Tensor<'c>>) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Vector(4)), ("c", Vector(4))]).unwrap();
    let error = network.cell("step", state, |cell| build(cell, state)).unwrap_err();
    assert_eq!(network.parameters(), [], "an invalid cell changes nothing");
    assert_eq!(error.to_string(), format!("cell step: {expected}"));
}

/// Like [`check`], for a cell that computes a field from the fields h and c of a value.
fn check_of_fields(
    expected: &str,
    field: impl for<'c> FnOnce(&'c CellBuilder, [Tensor<'c>; 2]) -> Tensor<'c>,
) {
    check(expected, |cell, state| {
        let fields = cell.one("previous", state);
        vec![field(cell, fields), fields[1]]
    });
}

/// Like [`check_of_fields`], with attention of h over values.
fn check_of_attention(expected: &str, values: &str, heads: usize) {
    check(expected, |cell, state| {
        let [h, c] = cell.one("previous", state);
        vec![cell.many("children", state).attention(h, "h", values, heads, 1.0), c]
    });
}

#[test]
fn invalid_cells_are_errors() {
    check_of_fields(
        "matmul of [4, 3] and [4]: expected equal inner dimensions, got 3 and 4",
        |cell, [h, _]| cell.parameter("w", &[4, 3]).matmul(h),
    );
    check("return of [4]: expected the fields of the record state: [4] and [4]", |cell, state| {
        cell.one::<2>("previous", state)[..1].into()
    });
    check(
        "port previous with 3 fields: expected the 2 fields of the record state",
        |cell, state| cell.one::<3>("previous", state).into(),
    );
    check(
        "port children with 1 fields: expected the 2 fields of the record state",
        |cell, state| cell.many("children", state).sum::<1>().into(),
    );
    check(
        "port after: expected no port after the one that takes any number of values",
        |cell, state| {
            let children = cell.many("children", state).sum::<2>();
            cell.one::<2>("after", state);
            children.into()
        },
    );
    check_of_attention(
        "field d of the values at children: expected one of the fields h, c",
        "d",
        1,
    );
    check_of_attention(
        "attention over input 1, keys 0, values 1, 3 heads of [4] and [4] and [4]: expected a \
         query and keys of equal widths, and values: vectors that 3 heads divide evenly",
        "c",
        3,
    );
    check_of_fields(
        "layer_norm(NaN) of [4]: expected a finite epsilon of at least 0, got NaN",
        |_, [h, _]| h.layer_norm(f32::NAN),
    );
    check_of_fields("leaky_relu of [4]: expected a slope from 0 to 1, got 1.5", |_, [h, _]| {
        h.leaky_relu(1.5)
    });
    check("reshape to [3, 2] of [4]: expected a shape of 4 elements", |cell, state| {
        let [h, c] = cell.one("previous", state);
        vec![h.reshape(Matrix(3, 2)), c.reshape(Matrix(1 << 31, 1 << 31))]
    });
    check_of_fields(
        "select by index 0 of [4]: expected 5 elements or rows, the size of the index port tag",
        |cell, [h, _]| h.select(cell.index("tag", 5)),
    );
    check("index tag: expected a size from 1 to 2^31 - 1, got 0", |cell, state| {
        cell.index("tag", 0);
        cell.one::<2>("previous", state).into()
    });
    check("port previous: expected a record of this network", |cell, _| {
        cell.one::<2>("previous", RecordId(9)).into()
    });
    check("parameter w: expected dimensions [4] as declared before, got [2, 2]", |cell, _| {
        vec![cell.parameter("w", &[4]), cell.parameter("w", &[2, 2])]
    });
    check("parameter w: expected one to three nonzero dimensions, got [0, 4]", |cell, _| {
        vec![cell.parameter("w", &[0, 4])]
    });
    check(
        "table token: expected a table of vectors or matrices of fewer than 2^31 elements, got [9]",
        |cell, _| vec![cell.lookup("token", "embed", &[9])],
    );
    check("constant 1 of [0]: expected at least one element and fewer than 2^31", |cell, _| {
        vec![cell.constant(1.0, Vector(0))]
    });
}

#[test]
fn invalid_declarations_are_errors() {
    let mut network = Network::new();
    let state = network.record("state", [("h", Vector(4))]).unwrap();
    let check = |got: Result<(), CellError>, expected: &str| {
        assert_eq!(got.unwrap_err().to_string(), expected);
    };
    check(
        network.record("state", [("c", Vector(4))]).map(drop),
        "record state: expected a unique name, got the name of another record",
    );
    check(network.record("empty", []).map(drop), "record empty: expected at least one field");
    check(
        network.record("huge", [("m", Matrix(1 << 16, 1 << 15))]).map(drop),
        "record huge: field m of [65536, 32768]: expected at least one element and fewer than 2^31",
    );
    check(
        network.initial(RecordId(3), &["h0"]).map(drop),
        "initial value: expected a record of this network",
    );
    check(
        network.initial(state, &["h0", "c0"]).map(drop),
        "initial value of state: expected a parameter for each field, 1 in total, got 2",
    );
    network.add_parameter("b", &[3]).unwrap();
    check(
        network.initial(state, &["b"]).map(drop),
        "initial value of state: expected a parameter of shape [4] for field h, got b of shape [3]",
    );
    check(
        network.cell("lost", RecordId(3), |_| vec![]).map(drop),
        "cell lost: cell: expected a record of this network",
    );
    let step = |cell: &CellBuilder| cell.parameter("w", &[4]).var();
    network
        .cell("step", state, |cell| {
            step(cell);
            vec![cell.parameter("w", &[4])]
        })
        .unwrap();
    check(
        network.cell("step", state, |_| vec![]).map(drop),
        "cell step: cell: expected a unique name, got the name of another cell",
    );
}

#[test]
fn tensors_of_two_cells_cannot_be_combined() {
    let mut inner = None;
    let outer = declare(&mut Network::new(), |outer| {
        let other = outer.constant(1.0, Vector(1));
        inner = declare(&mut Network::new(), |cell| {
            let _ = other + cell.constant(1.0, Vector(1));
            let _ = cell.constant(1.0, Vector(1)) + other;
            None
        })
        .err();
        None
    });
    let says = "cell cell 0: add: expected tensors of this cell";
    assert_eq!(outer.unwrap_err().to_string(), says);
    assert_eq!(inner.unwrap().to_string(), says);
}

#[test]
fn items_with_a_16_bit_index_are_limited() {
    let refused = |build: fn(&CellBuilder, RecordId)| {
        let mut network = Network::new();
        let one = network.record("one", [("x", Vector(1))]).unwrap();
        let cell = network.cell("many", one, |cell| {
            build(cell, one);
            vec![cell.constant(0.0, Vector(1))]
        });
        cell.unwrap_err().to_string()
    };
    let lookups = refused(|cell, _| {
        for _ in 0..=1 << 16 {
            let _ = cell.lookup("token", "embed", &[2, 1]);
        }
    });
    assert_eq!(lookups, "cell many: table token: expected at most 65536 tables in a cell");
    let ports = refused(|cell, one| {
        for _ in 0..=1 << 16 {
            let _ = cell.one::<1>("port", one);
        }
    });
    assert_eq!(ports, "cell many: port port: expected at most 65536 ports in a cell");
    let operations = refused(|cell, _| {
        let mut x = cell.constant(0.0, Vector(1));
        for _ in 0..1 << 16 {
            x = x.scale(2.0);
        }
    });
    let expected = "cell many: scale by 2: expected at most 65536 operations in a cell";
    assert_eq!(operations, expected);
    let mut network = Network::new();
    let mut records = (0..=1 << 16).map(|i| network.record(&format!("r{i}"), [("x", Vector(1))]));
    let error = records.find_map(Result::err).unwrap().to_string();
    assert_eq!(error, "record r65536: expected at most 65536 records in a network");
}

/// Files of weights could not be read again.
#[test]
fn the_name_that_files_of_weights_reserve_is_refused() {
    let expected = "expected a name other than __metadata__, which files of weights reserve";
    let mut network = Network::new();
    let one = network.record("one", [("x", Vector(2))]).unwrap();
    for error in [
        network.add_parameter("__metadata__", &[2]).unwrap_err(),
        network.initial(one, &["__metadata__"]).unwrap_err(),
        network.cell("a", one, |cell| vec![cell.parameter("__metadata__", &[2])]).unwrap_err(),
        network.cell("b", one, |cell| vec![cell.lookup("t", "__metadata__", &[9, 2])]).unwrap_err(),
    ] {
        assert!(error.to_string().ends_with(expected), "{error}");
    }
    assert!(network.parameters().is_empty());
    network.add_parameter("__metadata__.w", &[2]).unwrap();
}

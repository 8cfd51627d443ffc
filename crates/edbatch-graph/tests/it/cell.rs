//! Shape inference against a naive table, and errors of hostile declarations.

use edbatch_graph::{CellBuilder, CellError, Network, RecordId, Shape, Tensor};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use Shape::{Matrix, Vector};

const SHAPES: [Shape; 9] = [
    Vector(1),
    Vector(2),
    Vector(3),
    Matrix(1, 1),
    Matrix(1, 3),
    Matrix(3, 1),
    Matrix(2, 2),
    Matrix(2, 3),
    Matrix(3, 2),
];

type Binary = for<'c> fn(&'c CellBuilder, Tensor<'c>, Tensor<'c>) -> Tensor<'c>;
type Unary = for<'c> fn(Tensor<'c>) -> Tensor<'c>;

/// Declares a cell with these equations, which returns an unrelated vector of one element.
fn declare(
    network: &mut Network,
    build: impl for<'c> FnOnce(&'c CellBuilder) -> Option<Tensor<'c>>,
) -> Result<(), CellError> {
    let one = network.record("one", [("x", Vector(1))])?;
    let name = format!("cell {}", network.cells().len());
    network
        .cell(&name, one, |cell| {
            build(cell);
            vec![cell.constant(0.0, Vector(1))]
        })
        .map(drop)
}

/// Returns the inferred shape of an operation, or its error.
fn infer(
    operands: &[Shape],
    build: impl for<'c> FnOnce(&'c CellBuilder, &[Tensor<'c>]) -> Tensor<'c>,
) -> Result<Shape, CellError> {
    let mut shape = None;
    declare(&mut Network::new(), |cell| {
        let operands: Vec<_> = operands.iter().map(|&of| cell.constant(1.0, of)).collect();
        let result = build(cell, &operands);
        shape = Some(result.shape());
        Some(result)
    })?;
    Ok(shape.expect("it was built"))
}

/// Expects this shape, or an error with the cell, the operation and all shapes.
fn check(operation: &str, of: &[Shape], got: Result<Shape, CellError>, expected: Option<Shape>) {
    match (got, expected) {
        (Ok(got), Some(expected)) => assert_eq!(got, expected, "{operation} of {of:?}"),
        (Err(error), None) => {
            let shapes: Vec<String> = of.iter().map(Shape::to_string).collect();
            let says = format!("cell cell 0: {operation} of {}: expected ", shapes.join(" and "));
            assert!(error.to_string().starts_with(&says), "{error}");
        }
        (got, expected) => panic!("{operation} of {of:?}: {got:?}, but expected {expected:?}"),
    }
}

#[test]
fn binary_operations_infer_the_shape_of_every_pair() {
    let elementwise: [(&str, Binary); 6] = [
        ("add", |_, a, b| a + b),
        ("sub", |_, a, b| a - b),
        ("mul", |_, a, b| a * b),
        ("div", |_, a, b| a / b),
        ("maximum", |_, a, b| a.maximum(b)),
        ("minimum", |_, a, b| a.minimum(b)),
    ];
    for a in SHAPES {
        for b in SHAPES {
            let product = match (a, b) {
                (Matrix(m, k), Vector(n)) => (k == n).then_some(Vector(m)),
                (Matrix(m, k), Matrix(l, n)) => (k == l).then_some(Matrix(m, n)),
                _ => None,
            };
            let got = infer(&[a, b], |_, of| of[0].matmul(of[1]));
            check("matmul", &[a, b], got, product);

            let stacked = match (a, b) {
                (Vector(m), Vector(n)) => Some(Vector(m + n)),
                (Matrix(m, k), Matrix(n, l)) => (k == l).then_some(Matrix(m + n, k)),
                _ => None,
            };
            let got = infer(&[a, b], |cell, of| cell.concat(of));
            check("concat", &[a, b], got, stacked);

            let broadcast = match (a, b) {
                (a, b) if a == b => Some(a),
                (a, Vector(1)) | (Vector(1), a) => Some(a),
                (Matrix(m, n), Vector(k)) | (Vector(k), Matrix(m, n)) => {
                    (k == m).then_some(Matrix(m, n))
                }
                _ => None,
            };
            let dot = (a == b).then_some(match a {
                Vector(_) => Vector(1),
                Matrix(rows, _) => Vector(rows),
            });
            check("dot", &[a, b], infer(&[a, b], |_, of| of[0].dot(of[1])), dot);
            for (name, operation) in elementwise {
                let got = infer(&[a, b], |cell, of| operation(cell, of[0], of[1]));
                check(name, &[a, b], got, broadcast);
            }
        }
    }
}

#[test]
fn unary_operations_infer_every_shape() {
    let same: [(&str, Unary); 13] = [
        ("neg", |a| -a),
        ("scale by 2", |a| a.scale(2.0)),
        ("sigmoid", |a| a.sigmoid()),
        ("tanh", |a| a.tanh()),
        ("relu", |a| a.relu()),
        ("exp", |a| a.exp()),
        ("log", |a| a.log()),
        ("sqrt", |a| a.sqrt()),
        ("erf", |a| a.erf()),
        ("softmax", |a| a.softmax()),
        ("log_softmax", |a| a.log_softmax()),
        ("layer_norm(0.5)", |a| a.layer_norm(0.5)),
        ("rms_norm(0.5)", |a| a.rms_norm(0.5)),
    ];
    for a in SHAPES {
        for (name, operation) in same {
            check(name, &[a], infer(&[a], |_, of| operation(of[0])), Some(a));
        }
        for to in SHAPES {
            let as_many = (a.elements() == to.elements()).then_some(to);
            let name = format!("reshape to {to}");
            check(&name, &[a], infer(&[a], |_, of| of[0].reshape(to)), as_many);
        }
        let row = match a {
            Vector(_) => Vector(1),
            Matrix(_, columns) => Vector(columns),
        };
        for size in 1..4 {
            let fits = (size == a.rows_and_columns().0).then_some(row);
            let got = infer(&[a], |cell, of| of[0].select(cell.index("index", size)));
            check("select by index 0", &[a], got, fits);
        }
        let transposed = match a {
            Vector(_) => None,
            Matrix(m, n) => Some(Matrix(n, m)),
        };
        check("transpose", &[a], infer(&[a], |_, of| of[0].transpose()), transposed);
        for start in 0..4 {
            for rows in 0..4u32 {
                let fits = rows > 0 && (start + rows) as usize <= a.rows_and_columns().0;
                let sliced = match a {
                    Vector(_) => Vector(rows),
                    Matrix(_, columns) => Matrix(rows, columns),
                };
                let got = infer(&[a], |_, of| of[0].slice(start as usize, rows as usize));
                let name = format!("slice {start}..{}", start + rows);
                check(&name, &[a], got, fits.then_some(sliced));
            }
        }
    }
}

#[test]
fn attention_infers_every_shape() {
    let shapes = [Vector(1), Vector(2), Vector(3), Vector(6), Matrix(2, 3)];
    for (query, keys, values) in shapes.into_iter().flat_map(|query| {
        shapes.into_iter().flat_map(move |keys| shapes.map(|values| (query, keys, values)))
    }) {
        let divides = |heads: u32, shape| matches!(shape, Vector(n) if n % heads == 0);
        for heads in 1..4 {
            let fits = query == keys && divides(heads, keys) && divides(heads, values);
            let mut network = Network::new();
            let record = network.record("state", [("k", keys), ("v", values)]).unwrap();
            let one = network.record("one", [("x", Vector(1))]).unwrap();
            let mut shapes = Vec::new();
            let declared = network.cell("attend", one, |cell| {
                let query = cell.constant(1.0, query);
                let many = cell.many("sources", record);
                shapes.push(many.attention(query, "k", "v", heads as usize, 0.5).shape());
                vec![cell.constant(0.0, Vector(1))]
            });
            assert_eq!(declared.is_ok(), fits, "{heads} heads of {query}, {keys} and {values}");
            let scored = network.cell("weigh", one, |cell| {
                shapes.push(cell.many("sources", record).softmax_sum("k", "v").shape());
                vec![cell.constant(0.0, Vector(1))]
            });
            let fits_scores = matches!(keys, Vector(n) if divides(n, values));
            assert_eq!(scored.is_ok(), fits_scores, "scores {keys} and values {values}");
            assert!(!fits || shapes[0] == values);
            assert!(!fits_scores || shapes[1] == values);
        }
    }
}

/// Returns the error message of a cell, which may use a record `state` with two fields.
fn message(build: impl for<'c> FnOnce(&'c CellBuilder, RecordId) -> Vec<Tensor<'c>>) -> String {
    let mut network = Network::new();
    let state = network.record("state", [("h", Vector(4)), ("c", Vector(4))]);
    let state = state.unwrap();
    let declared = network.cell("step", state, |cell| build(cell, state));
    assert_eq!(network.parameters(), [], "an invalid cell changes nothing");
    declared.map_or_else(|error| error.to_string(), |_| "no error".into())
}

#[test]
fn invalid_cells_are_errors() {
    let check = |got: String, expected: &str| assert_eq!(got, expected);
    check(
        message(|cell, state| {
            let [h, c] = cell.one("previous", state);
            vec![cell.parameter("w", &[4, 3]).matmul(h), c]
        }),
        "cell step: matmul of [4, 3] and [4]: expected equal inner dimensions, got 3 and 4",
    );
    check(
        message(|cell, state| cell.one::<2>("previous", state)[..1].into()),
        "cell step: return of [4]: expected the fields of the record state: [4] and [4]",
    );
    check(
        message(|cell, state| cell.one::<3>("previous", state).into()),
        "cell step: port previous with 3 fields: expected the 2 fields of the record state",
    );
    check(
        message(|cell, state| cell.many("children", state).sum::<1>().into()),
        "cell step: port children with 1 fields: expected the 2 fields of the record state",
    );
    check(
        message(|cell, state| {
            let children = cell.many("children", state).sum::<2>();
            cell.one::<2>("after", state);
            children.into()
        }),
        "cell step: port after: expected no port after the one that takes any number of values",
    );
    check(
        message(|cell, state| {
            let [h, c] = cell.one("previous", state);
            vec![cell.many("children", state).attention(h, "h", "d", 1, 1.0), c]
        }),
        "cell step: field d of the values at children: expected one of the fields h, c",
    );
    check(
        message(|cell, state| {
            let [h, c] = cell.one("previous", state);
            vec![cell.many("children", state).attention(h, "h", "c", 3, 1.0), c]
        }),
        "cell step: attention over input 1, keys 0, values 1, 3 heads of [4] and [4] and [4]: \
         expected a query and keys of equal widths, and values: vectors that 3 heads divide evenly",
    );
    check(
        message(|cell, state| {
            let [h, c] = cell.one("previous", state);
            vec![h.layer_norm(f32::NAN), c]
        }),
        "cell step: layer_norm(NaN) of [4]: expected a finite epsilon of at least 0, got NaN",
    );
    check(
        message(|cell, state| {
            let [h, c] = cell.one("previous", state);
            vec![h.leaky_relu(1.5), c]
        }),
        "cell step: leaky_relu of [4]: expected a slope from 0 to 1, got 1.5",
    );
    check(
        message(|cell, state| {
            let [h, c] = cell.one("previous", state);
            vec![h.reshape(Matrix(3, 2)), c.reshape(Matrix(1 << 31, 1 << 31))]
        }),
        "cell step: reshape to [3, 2] of [4]: expected a shape of 4 elements",
    );
    check(
        message(|cell, state| {
            let [h, c] = cell.one("previous", state);
            vec![h.select(cell.index("tag", 5)), c]
        }),
        "cell step: select by index 0 of [4]: expected 5 elements or rows, the size of the index \
         port tag",
    );
    check(
        message(|cell, state| {
            cell.index("tag", 0);
            cell.one::<2>("previous", state).into()
        }),
        "cell step: index tag: expected a size from 1 to 2^31 - 1, got 0",
    );
    check(
        message(|cell, _| cell.one::<2>("previous", RecordId(9)).into()),
        "cell step: port previous: expected a record of this network",
    );
    check(
        message(|cell, _| {
            let w = cell.parameter("w", &[4]);
            vec![w, cell.parameter("w", &[2, 2])]
        }),
        "cell step: parameter w: expected dimensions [4] as declared before, got [2, 2]",
    );
    check(
        message(|cell, _| vec![cell.parameter("w", &[0, 4])]),
        "cell step: parameter w: expected one to three nonzero dimensions, got [0, 4]",
    );
    check(
        message(|cell, _| vec![cell.lookup("token", "embed", &[9])]),
        "cell step: table token: expected a table of vectors or matrices of fewer than 2^31 \
         elements, got [9]",
    );
    check(
        message(|cell, _| vec![cell.constant(1.0, Vector(0))]),
        "cell step: constant 1 of [0]: expected at least one element and fewer than 2^31",
    );
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

fn hostile_dims() -> impl Strategy<Value = Vec<usize>> {
    const DIMS: [usize; 11] = [
        0,
        1,
        2,
        65_535,
        65_536,
        (1 << 31) - 1,
        1 << 31,
        u32::MAX as usize,
        1 << 32,
        usize::MAX / 2,
        usize::MAX,
    ];
    vec(select(DIMS.to_vec()), 0..5)
}

proptest! {
    #[test]
    fn hostile_dimensions_are_accepted_or_an_error(dims in hostile_dims()) {
        let elements = dims.iter().map(|&dim| dim as u128).fold(1, u128::saturating_mul);
        let possible = (1..=2).contains(&dims.len()) && (1..1 << 31).contains(&elements);
        prop_assert_eq!(Shape::new(&dims).is_some(), possible);
        let declared = |build: for<'c> fn(&'c CellBuilder, &[usize]) -> Tensor<'c>| {
            declare(&mut Network::new(), |cell| Some(build(cell, &dims)))
        };
        prop_assert_eq!(declared(|cell, dims| cell.parameter("w", dims)).is_ok(), possible);

        let rows = dims.first().is_some_and(|&rows| (1..1 << 31).contains(&rows));
        let table = rows && dims.len() > 1 && Shape::new(&dims[1..]).is_some();
        let table = table && elements <= isize::MAX as u128 / 4;
        let got = declared(|cell, dims| cell.lookup("token", "embed", dims));
        prop_assert_eq!(got.is_ok(), table, "{:?}", got);

        let mut network = Network::new();
        if network.add_parameter("w", &dims).is_ok() {
            prop_assert_eq!(network.parameters()[0].elements() as u128, elements);
        }
        prop_assert!(network.add_parameter("w", &[]).is_err());
    }

    #[test]
    fn hostile_shapes_never_overflow(
        rows in select(vec![0, 1, 2, 1 << 16, (1 << 31) - 1, 1 << 31, u32::MAX]),
        columns in select(vec![0, 1, 2, 1 << 16, (1 << 31) - 1, 1 << 31, u32::MAX]),
        start in select(vec![0, 1, u32::MAX as usize, usize::MAX]),
        count in select(vec![0, 1, 2, u32::MAX as usize, usize::MAX]),
    ) {
        for shape in [Vector(rows), Matrix(rows, columns)] {
            let elements = u64::from(rows)
                * if shape == Vector(rows) { 1 } else { u64::from(columns) };
            let possible = (1..1 << 31).contains(&elements);
            let record = Network::new().record("r", [("x", shape)]);
            prop_assert_eq!(record.is_ok(), possible);
            let got = infer(&[shape], |cell, of| {
                let x = of[0];
                let _ = cell.concat(&[x.slice(start, count), x]);
                let _ = x.matmul(x.transpose());
                x
            });
            prop_assert!(possible || got.is_err());
            let stacked = infer(&[shape, shape, shape], |cell, of| cell.concat(of));
            prop_assert_eq!(stacked.is_ok(), possible && elements * 3 < 1 << 31);
        }
    }
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

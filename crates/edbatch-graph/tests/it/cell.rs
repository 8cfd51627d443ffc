//! Shape inference against a naive table, and hostile declarations.

use edbatch_graph::{CellBuilder, CellError, Network, Shape, Tensor};
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
pub(crate) fn declare(
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

//! Functions that are made of other operations equal their definitions.

use edbatch_graph::{Network, Op, Shape, Tensor};

type Unary = for<'c> fn(Tensor<'c>) -> Tensor<'c>;

/// The name, the equations, and the definition in double precision.
type Composed = (&'static str, Unary, fn(f64) -> f64);

const FUNCTIONS: [Composed; 4] = [
    ("abs", |x| x.abs(), f64::abs),
    ("silu", |x| x.silu(), |x| x / (1.0 + (-x).exp())),
    ("gelu", |x| x.gelu(), |x| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))),
    ("leaky_relu", |x| x.leaky_relu(0.125), |x| if x < 0.0 { 0.125 * x } else { x }),
];

/// Evaluates a cell of element-wise operations on one element.
fn evaluate(function: Unary, x: f64) -> f64 {
    let mut network = Network::new();
    let record = network.record("x", [("x", Shape::Vector(1))]).unwrap();
    let kind = network.cell("f", record, |cell| {
        let [x] = cell.one("x", record);
        vec![function(x)]
    });
    let mut values: Vec<f64> = Vec::new();
    let cell = &network[kind.unwrap()];
    for instruction in cell.instructions() {
        let of: Vec<f64> = instruction.operands.iter().map(|var| values[var.index()]).collect();
        values.push(match (instruction.op, &of[..]) {
            (Op::Input { .. }, []) => x,
            (Op::Neg, &[x]) => -x,
            (Op::Scale(factor), &[x]) => f64::from(factor) * x,
            (Op::Apply(function), &[x]) => function.of(x),
            (Op::Binary(binary), &[a, b]) => binary.of(a, b),
            (op, _) => panic!("{op} is not element-wise"),
        });
    }
    values[cell.outputs()[0].index()]
}

#[test]
fn composed_functions_equal_their_definitions() {
    for (name, function, definition) in FUNCTIONS {
        for step in -40..=40 {
            let x = f64::from(step) / 8.0;
            let (got, expected) = (evaluate(function, x), definition(x));
            // Factors of the equations are rounded to 32 bits.
            assert!((got - expected).abs() < 1e-6, "{name}({x}) is {got}, expected {expected}");
        }
        assert!(evaluate(function, f64::NAN).is_nan(), "{name}(NaN)");
    }
}

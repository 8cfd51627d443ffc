//! Fuses operations, to save passes over intermediate results.
//!
//! Each operation, last ones first, absorbs the operands that no other operation reads: a gate
//! becomes `sigmoid(a + b)`, a state `a · b + c · d`. Every rounding stays, in the same order.

use edbatch_graph::{AdjointOp, Binary, Function, Op};

use super::{Form, Operation, Register};

const ADD: Op = Op::Binary(Binary::Add);
const SUB: Op = Op::Binary(Binary::Sub);
const MUL: Op = Op::Binary(Binary::Mul);

/// One or more operations that run as one.
#[derive(Debug)]
pub(super) struct Fused {
    pub(super) operation: Operation,
    pub(super) operands: Vec<Register>,
    /// The register of the result, numbered as before fusion.
    pub(super) result: Register,
}

/// An operation, its operands, and the results of the operations that it absorbs.
type Fusion = (Operation, Vec<Register>, Vec<Register>);

pub(super) fn fuse(inputs: u16, ops: &[(Op, Vec<Register>)], outputs: &[Register]) -> Vec<Fused> {
    let inputs = usize::from(inputs);
    let mut readers = vec![0; inputs + ops.len()];
    for register in ops.iter().flat_map(|(_, operands)| operands).chain(outputs) {
        readers[register.index()] += 1;
    }
    let own = |register: Register| {
        let (op, operands) = &ops[register.index().checked_sub(inputs)?];
        (readers[register.index()] == 1).then_some((*op, &operands[..]))
    };
    let mut absorbed = vec![false; inputs + ops.len()];
    let mut fused = Vec::new();
    for (index, (op, operands)) in ops.iter().enumerate().rev() {
        if absorbed[inputs + index] {
            continue;
        }
        let (operation, operands, inner) = fusion(*op, operands, own);
        for register in inner {
            absorbed[register.index()] = true;
        }
        fused.push(Fused { operation, operands, result: Register((inputs + index) as u16) });
    }
    fused.reverse();
    fused
}

/// Fuses an operation with its operands. `own` returns the operation that computes a register, if
/// the register has no other reader.
fn fusion<'a>(
    op: Op,
    operands: &[Register],
    own: impl Fn(Register) -> Option<(Op, &'a [Register])>,
) -> Fusion {
    let alone = |operation| (operation, operands.to_vec(), Vec::new());
    match (op, operands) {
        (Op::Apply(f), &[x]) => applied(f, x, own),
        (ADD, &[a, b]) => sum(a, b, own),
        (MUL, &[a, b]) => product(a, b, own),
        (Op::Binary(binary), _) => alone(Operation::Binary(binary)),
        (Op::Scale(factor), &[x]) => match own(x) {
            Some((ADD, of)) => (Operation::ScaledSum(factor), of.to_vec(), vec![x]),
            _ => alone(Operation::Scale(factor)),
        },
        (Op::Neg, _) => alone(Operation::Neg),
        (Op::Adjoint(AdjointOp::Larger), _) => alone(Operation::Larger),
        (Op::Adjoint(AdjointOp::Slope(slope)), &[g, y]) => match own(g) {
            Some((MUL, &[a, b])) => (Operation::SlopeOfProduct(slope), vec![a, b, y], vec![g]),
            _ => alone(Operation::Slope(slope)),
        },
        (op, _) => panic!("{op} is not element-wise"),
    }
}

/// Fuses `f(x)` with the operation that computes `x`.
fn applied<'a>(
    f: Function,
    x: Register,
    own: impl Fn(Register) -> Option<(Op, &'a [Register])>,
) -> Fusion {
    match own(x) {
        Some((ADD, &[a, b])) => match own(a) {
            Some((ADD, &[p, q])) => (Operation::Apply(Form::OfSums, f), vec![p, q, b], vec![x, a]),
            _ => (Operation::Apply(Form::OfSum, f), vec![a, b], vec![x]),
        },
        _ => (Operation::Apply(Form::Plain, f), vec![x], vec![]),
    }
}

/// Fuses `a · b` with the operations that compute `a` and `b`.
fn product<'a>(
    a: Register,
    b: Register,
    own: impl Fn(Register) -> Option<(Op, &'a [Register])>,
) -> Fusion {
    for (gate, other) in [(b, a), (a, b)] {
        if let Some((Op::Apply(f), &[x])) = own(gate) {
            return gated(f, x, [Form::Times, Form::OfSumTimes], &[other], &[gate], own);
        }
    }
    (Operation::Binary(Binary::Mul), vec![a, b], vec![])
}

/// Fuses `a + b` with the operations that compute `a` and `b`.
fn sum<'a>(
    a: Register,
    b: Register,
    own: impl Fn(Register) -> Option<(Op, &'a [Register])>,
) -> Fusion {
    match (own(a), own(b)) {
        (Some((MUL, &[p, q])), Some((MUL, &[r, s]))) => {
            (Operation::SumOfProducts, vec![p, q, r, s], vec![a, b])
        }
        (_, Some((MUL, &[p, q]))) => match (own(p), own(q)) {
            (Some((Op::Apply(f), &[x])), Some((SUB, &[c, d]))) if d == a => {
                let forms = [Form::Between, Form::OfSumBetween];
                gated(f, x, forms, &[c, d], &[b, p, q], own)
            }
            _ => (Operation::AddProduct, vec![p, q, a], vec![b]),
        },
        (Some((MUL, &[p, q])), _) => (Operation::AddProduct, vec![p, q, b], vec![a]),
        _ => (Operation::Binary(Binary::Add), vec![a, b], vec![]),
    }
}

/// Fuses `f(x)` into an operation that also reads `others` and replaces the operations that compute
/// `inner`. The form is `of_sum` if `x` is a sum that no other operation reads, else `of_value`.
fn gated<'a>(
    f: Function,
    x: Register,
    [of_value, of_sum]: [Form; 2],
    others: &[Register],
    inner: &[Register],
    own: impl Fn(Register) -> Option<(Op, &'a [Register])>,
) -> Fusion {
    match own(x) {
        Some((ADD, of)) => {
            (Operation::Apply(of_sum, f), [of, others].concat(), [inner, &[x]].concat())
        }
        _ => (Operation::Apply(of_value, f), [&[x], others].concat(), inner.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Elementwise, Register};
    use edbatch_graph::Op;

    /// Compiles `operations | outputs`; an operation is its name and its operands, such as `tanh
    /// 2`.
    fn check(inputs: u16, text: &str, expected: &str) {
        let (ops, outputs) = text.split_once('|').unwrap();
        let registers = |text: &str| -> Vec<Register> {
            text.split_whitespace().map(|word| Register(word.parse().unwrap())).collect()
        };
        let op = |text: &str| {
            let (name, operands) = text.trim().split_once(' ').unwrap();
            let op = match name {
                "half" => Op::Scale(0.5),
                name => Op::all().find(|op| op.name() == name).unwrap(),
            };
            (op, registers(operands))
        };
        let ops: Vec<_> = ops.split(',').map(op).collect();
        let program = Elementwise::new(inputs, &ops, &registers(outputs));
        assert_eq!(program.to_string(), expected, "{text}");
    }

    #[test]
    fn a_gate_and_a_state_are_one_assignment_each() {
        check(
            5,
            "add 0 1, tanh 5, mul 2 3, mul 4 6, add 7 8, tanh 9, mul 2 10 | 11 9",
            "r7 = tanh(r0 + r1); r6 = r2 * r3 + r4 * r7; r5 = tanh(r6) * r2",
        );
        check(2, "add 0 1, half 2 | 3", "r2 = 0.5 (r0 + r1)");
        check(3, "add 0 1, add 3 2, tanh 4 | 5", "r3 = tanh(r0 + r1 + r2)");
    }

    #[test]
    fn a_gate_between_two_states_is_one_assignment() {
        let gru = "add 0 1, sigmoid 4, sub 2 3, mul 5 6, add 3 7 | 8";
        check(4, gru, "r4 = r3 + sigmoid(r0 + r1) * (r2 - r3)");
    }

    #[test]
    fn a_shared_operand_is_computed_once() {
        check(2, "add 0 1, tanh 2 | 3 2", "r3 = r0 + r1; r2 = tanh r3");
        check(2, "mul 0 1, add 2 0, add 2 1 | 3 4", "r4 = r0 * r1; r2 = r4 + r0; r3 = r4 + r1");
    }

    #[test]
    fn a_temporary_is_reused_after_its_last_reader() {
        check(
            2,
            "tanh 0, tanh 2, add 3 0, sub 4 1, tanh 5 | 6",
            "r3 = tanh r0; r3 = tanh r3; r3 = r3 + r0; r3 = r3 - r1; r2 = tanh r3",
        );
    }

    #[test]
    fn an_output_may_be_an_input_or_occur_twice() {
        check(2, "add 0 0 | 1 2 2", "r3 = r0 + r0; r2 = r1; r4 = r3");
    }
}

//! Cells from parts: every fault has an error, with the same words as in a cell of equations.

use edbatch_graph::{
    AdjointOp, Arity, Binary, CellBuilder, CellParts, Function, Instruction, Network,
    Normalization, Op, ParameterId, Port, RecordId, Reduction, Shape, Slope, Table, Tensor, Var,
};

use Shape::{Matrix, Vector};

/// Returns a network with the records `state` and `pair`, and with parameters.
fn network() -> Network {
    let mut network = Network::new();
    network.record("state", [("h", Vector(4))]).unwrap();
    network.record("pair", [("h", Vector(4)), ("m", Matrix(2, 4))]).unwrap();
    for (name, dims) in
        [("w", &[4, 4][..]), ("b", &[4]), ("embed", &[9, 4]), ("matrices", &[3, 2, 4])]
    {
        network.add_parameter(name, dims).unwrap();
    }
    network
}

const STATE: RecordId = RecordId(0);
const PAIR: RecordId = RecordId(1);
const W: ParameterId = ParameterId(0);
const EMBED: ParameterId = ParameterId(2);
const MATRICES: ParameterId = ParameterId(3);

/// The cell `node`, in which every kind of part occurs.
fn node() -> CellParts {
    let of = |op, operands: &[u32], shape| Instruction {
        op,
        operands: operands.iter().map(|&v| Var(v)).collect(),
        shape,
    };
    let port = |name: &str, record, arity| Port { name: name.into(), record, arity };
    let mut parts = CellParts::new("node", STATE);
    parts.tables = vec![Table { name: "word".into(), parameter: Some(EMBED), rows: 9 }];
    parts.ports = vec![port("left", PAIR, Arity::One), port("rest", STATE, Arity::Many)];
    parts.instructions = vec![
        of(Op::Lookup { table: 0 }, &[], Vector(4)),
        of(Op::Input { port: 0, field: 1 }, &[], Matrix(2, 4)),
        of(Op::Reduce { port: 1, field: 0, by: Reduction::Sum }, &[], Vector(4)),
        of(Op::Parameter(W), &[], Matrix(4, 4)),
        of(Op::MatMul, &[3, 2], Vector(4)),
        of(Op::Constant(0.5), &[], Vector(1)),
        of(Op::Binary(Binary::Mul), &[4, 5], Vector(4)),
        of(Op::Binary(Binary::Add), &[6, 0], Vector(4)),
    ];
    parts.outputs = vec![Var(7)];
    parts
}

/// Checks the error of a spoilt `node`, and that the network is unchanged.
fn check(expected: &str, spoil: impl FnOnce(&mut CellParts)) {
    let (mut network, mut parts) = (network(), node());
    spoil(&mut parts);
    let before = network.clone();
    let error = network.add_cell(parts).unwrap_err();
    assert_eq!(error.to_string(), format!("cell node: {expected}"));
    assert_eq!(network, before);
}

#[test]
fn every_fault_of_parts_is_an_error() {
    let mut valid = network();
    let kind = valid.add_cell(node()).unwrap();
    assert_eq!(valid[kind].to_parts(), node());
    let error = valid.add_cell(node()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cell node: cell: expected a unique name, got the name of another cell"
    );

    check("cell: expected a record of this network", |p| p.record = RecordId(2));
    check("table word: expected a parameter of this network", |p| {
        p.tables[0].parameter = Some(ParameterId(4))
    });
    check("table word: expected the 9 rows of embed, got 8", |p| p.tables[0].rows = 8);
    check("port rest: expected no port after the one that takes any number of values", |p| {
        p.ports[0].arity = Arity::Many
    });
    check("port left: expected a record of this network", |p| p.ports[0].record = RecordId(2));
    check("v0, lookup 1: expected one of the cell's tables, which has 1", |p| {
        p.instructions[0].op = Op::Lookup { table: 1 };
    });
    check("v1, input 2.0: expected one of the cell's ports, which has 2", |p| {
        p.instructions[1].op = Op::Input { port: 2, field: 0 }
    });
    check("v1, input 0.2: expected one of the 2 fields of the record pair", |p| {
        p.instructions[1].op = Op::Input { port: 0, field: 2 };
    });
    check("v1, input 1.0: expected a port that takes one value", |p| {
        p.instructions[1].op = Op::Input { port: 1, field: 0 };
    });
    check("v2, reduce 0.0 by max: expected a port that takes any number of values", |p| {
        p.instructions[2].op = Op::Reduce { port: 0, field: 0, by: Reduction::Max }
    });
    check("v3, parameter 4: expected a parameter of this network", |p| {
        p.instructions[3].op = Op::Parameter(ParameterId(4))
    });
    check(
        "v3, parameter 3: expected a vector or a matrix of fewer than 2^31 elements, \
         got [3, 2, 4]",
        |p| p.instructions[3].op = Op::Parameter(MATRICES),
    );
    check("v3, parameter 0: expected no operands, got 1", |p| {
        p.instructions[3].operands = vec![Var(0)]
    });
    check("v3, parameter 0: expected a result of shape [4, 4], got [4]", |p| {
        p.instructions[3].shape = Vector(4)
    });
    check("v4, matmul: expected operands before v4, got v4", |p| {
        p.instructions[4].operands = vec![Var(3), Var(4)]
    });
    check("v4, matmul of [4] and [4]: expected a matrix on the left", |p| {
        p.instructions[4].operands = vec![Var(2), Var(0)]
    });
    check("v5, constant 0.5 of [0]: expected at least one element and fewer than 2^31", |p| {
        p.instructions[5].shape = Vector(0)
    });
    check("v7, add of [4] and [4] and [4]: expected two operands, got 3", |p| {
        p.instructions[7].operands = vec![Var(6), Var(0), Var(0)]
    });
    check("v7, add: expected two operands, got 0", |p| p.instructions[7].operands.clear());
    check("v7, concat: expected at least one operand, got 0", |p| {
        p.instructions[7] = Instruction { op: Op::Concat, operands: vec![], shape: Vector(4) }
    });
    check("v7, tanh of [4] and [4]: expected one operand, got 2", |p| {
        p.instructions[7].op = Op::Apply(Function::Tanh)
    });
    for op in [
        Op::Adjoint(AdjointOp::Slope(Slope::Tanh)),
        Op::Adjoint(AdjointOp::Fold(Vector(4))),
        Op::Adjoint(AdjointOp::Share { port: 1 }),
        Op::Adjoint(AdjointOp::Outer),
    ] {
        let expected = "expected an operation that is not only for adjoint cells";
        check(&format!("v7, {op}: {expected}"), |p| p.instructions[7].op = op);
    }
    check("v0, lookup 0: expected a table, got an index port", |p| p.tables[0].parameter = None);
    let select =
        Instruction { op: Op::Select { table: 0 }, operands: vec![Var(0)], shape: Vector(1) };
    check("v7, select by index 0: expected an index port, got a table with a parameter", |p| {
        p.instructions[7] = select
    });
    check("return: expected one of the 8 operations, got v8", |p| p.outputs = vec![Var(8)]);
    check("return of [4, 4]: expected the fields of the record state: [4]", |p| {
        p.outputs = vec![Var(3)]
    });
    check("return: expected the fields of the record state: [4]", |p| p.outputs.clear());
    let items = (1 << 16) + 1;
    check("cell: expected at most 65536 tables in a cell", |p| {
        p.tables = vec![p.tables[0].clone(); items];
    });
    check("cell: expected at most 65536 ports in a cell", |p| {
        p.ports = vec![p.ports[0].clone(); items];
    });
    check("cell: expected at most 65536 operations in a cell", |p| {
        p.instructions = vec![p.instructions[5].clone(); items];
    });
    check(
        "table word: expected a table of vectors or matrices of fewer than 2^31 \
         elements, got [4]",
        |p| p.tables[0].parameter = Some(ParameterId(1)),
    );
}

/// The error of equations, and of parts with the same fault, apart from the name of the operation.
fn compare(
    equations: impl for<'c> FnOnce(&'c CellBuilder) -> Vec<Tensor<'c>>,
    spoil: impl FnOnce(&mut CellParts),
) {
    let (mut network, mut parts) = (network(), node());
    spoil(&mut parts);
    let of_parts = network.add_cell(parts).unwrap_err();
    let of_equations = network.cell("node", STATE, equations).unwrap_err();
    assert_eq!(of_parts.cell, of_equations.cell);
    assert_eq!(of_parts.expected, of_equations.expected);
    assert_eq!(of_parts.got, of_equations.got);
    assert_eq!(of_parts.shapes, of_equations.shapes);
    let [parts, equations] = [&of_parts, &of_equations].map(|error| error.at.to_string());
    let name = equations.split_once(' ').map_or(&*equations, |(name, _)| name);
    assert!(parts.contains(name), "{of_parts}: {of_equations}");
}

#[test]
fn equations_and_parts_with_the_same_fault_have_the_same_error() {
    compare(
        |cell| vec![cell.parameter("w", &[4, 4]).matmul(cell.parameter("w", &[4, 4]))],
        |p| {
            p.instructions.truncate(5);
            p.instructions[4] =
                Instruction { op: Op::MatMul, operands: vec![Var(3), Var(3)], shape: Matrix(4, 4) };
            p.outputs = vec![Var(4)];
        },
    );
    compare(
        |cell| {
            let x = cell.lookup("word", "embed", &[9, 4]);
            vec![cell.parameter("w", &[4, 4]).dot(x)]
        },
        |p| {
            let operands = vec![Var(3), Var(0)];
            p.instructions[4] = Instruction { op: Op::Dot, operands, shape: Vector(4) };
        },
    );
    compare(
        |cell| {
            let w = cell.parameter("w", &[4, 4]);
            vec![w.slice(0, 3).select(cell.index("index", 4))]
        },
        |p| {
            p.tables.push(Table { name: "index".into(), parameter: None, rows: 4 });
            let (slice, select) = (Op::Slice { start: 0, rows: 3 }, Op::Select { table: 1 });
            let sliced = vec![Var(3)];
            p.instructions[4] = Instruction { op: slice, operands: sliced, shape: Matrix(3, 4) };
            p.instructions[5] =
                Instruction { op: select, operands: vec![Var(4)], shape: Vector(4) };
        },
    );
    compare(
        |cell| {
            let x = cell.lookup("word", "embed", &[9, 4]);
            vec![cell.many("rest", STATE).attention(x, "h", "h", 3, 1.0)]
        },
        |p| {
            let op = Op::Attention { port: 1, keys: 0, values: 0, heads: 3 };
            p.instructions[4] = Instruction { op, operands: vec![Var(0)], shape: Vector(4) };
        },
    );
    compare(
        |cell| vec![cell.lookup("word", "embed", &[9, 4]).rms_norm(-1.0)],
        |p| {
            let op = Op::Normalize(Normalization::RmsNorm(-1.0));
            p.instructions[4] = Instruction { op, operands: vec![Var(0)], shape: Vector(4) };
        },
    );
    compare(
        |cell| {
            cell.index("index", 0);
            vec![cell.lookup("word", "embed", &[9, 4])]
        },
        |p| p.tables.push(Table { name: "index".into(), parameter: None, rows: 0 }),
    );
    compare(
        |cell| {
            let [x, _] = cell.one("left", PAIR);
            vec![x.slice(2, 3)]
        },
        |p| {
            p.instructions[6].op = Op::Slice { start: 2, rows: 3 };
            p.instructions[6].operands = vec![Var(4)];
        },
    );
    compare(
        |cell| vec![cell.parameter("matrices", &[3, 2, 4])],
        |p| p.instructions[3].op = Op::Parameter(MATRICES),
    );
    compare(
        |cell| vec![cell.constant(1.0, Vector(1 << 31))],
        |p| p.instructions[5].shape = Vector(1 << 31),
    );
    compare(|cell| cell.one::<1>("left", RecordId(7)).into(), |p| p.ports[0].record = RecordId(7));
    compare(
        |cell| {
            let [h] = cell.many("rest", STATE).sum();
            cell.one::<2>("left", PAIR);
            vec![h]
        },
        |p| p.ports.reverse(),
    );
    compare(|cell| cell.one::<2>("left", PAIR).into(), |p| p.outputs = vec![Var(0), Var(1)]);
    compare(
        |cell| vec![cell.lookup("word", "b", &[4])],
        |p| p.tables[0].parameter = Some(ParameterId(1)),
    );
}

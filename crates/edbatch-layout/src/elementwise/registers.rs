//! Register allocation: outputs have their own registers, and a temporary is reused after its last
//! reader.

use super::fuse::Fused;
use super::{Assignment, Elementwise, Operation, Register};

pub(super) fn assign(inputs: u16, fused: Vec<Fused>, outputs: &[Register]) -> Elementwise {
    let computed = fused.last().map_or(usize::from(inputs), |last| last.result.index() + 1);
    let mut last_reader = vec![0; computed];
    for (index, fused) in fused.iter().enumerate() {
        fused.operands.iter().for_each(|operand| last_reader[operand.index()] = index);
    }
    let output = |index: usize| Register(inputs + index as u16);
    let mut temporaries =
        Temporaries { first: inputs + outputs.len() as u16, count: 0, free: vec![] };
    // The allocated register of each input and operation. Inputs keep their registers.
    let mut register: Vec<Register> = (0..computed as u16).map(Register).collect();
    let mut assignments = Vec::new();
    for (index, Fused { operation, operands, result }) in fused.into_iter().enumerate() {
        let mut read = [Register(0); 4];
        for (read, operand) in read.iter_mut().zip(&operands) {
            *read = register[operand.index()];
        }
        // A result may reuse the register of an operand with no later reader: elements are read
        // before they are written.
        let ends = |operand: &Register| last_reader[operand.index()] == index;
        let mut ended: Vec<Register> = operands.into_iter().filter(ends).collect();
        ended.sort_unstable();
        ended.dedup();
        ended.iter().for_each(|operand| temporaries.give_back(register[operand.index()]));
        let written = match outputs.iter().position(|&output| output == result) {
            Some(index) => output(index),
            None => temporaries.take(),
        };
        register[result.index()] = written;
        assignments.push(Assignment { operation, operands: read, result: written });
    }
    for (index, computed) in outputs.iter().enumerate() {
        let (from, result) = (register[computed.index()], output(index));
        if from != result {
            assignments.push(Assignment {
                operation: Operation::Copy,
                operands: [from; 4],
                result,
            });
        }
    }
    let (outputs, temporaries) = (outputs.len() as u16, temporaries.count);
    Elementwise { inputs, outputs, temporaries, assignments }
}

/// The temporary registers, allocated and freed.
struct Temporaries {
    first: u16,
    count: u16,
    free: Vec<Register>,
}

impl Temporaries {
    fn take(&mut self) -> Register {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            Register(self.first + self.count - 1)
        })
    }

    /// Frees a register, if it is a temporary.
    fn give_back(&mut self, register: Register) {
        if register.0 >= self.first {
            self.free.push(register);
        }
    }
}

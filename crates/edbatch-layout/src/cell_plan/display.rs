//! Compiled cells as text, one line a step.

use std::fmt;

use super::{Base, CellPlan, CellStep, Elementwise, Mode, Place, Scalar};

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Base::Table(table) => write!(f, "table{table}")?,
            Base::Port(port) => write!(f, "port{port}")?,
            Base::Parameter(id) => write!(f, "w{}", id.0)?,
            Base::Scratch(region) => write!(f, "s{region}")?,
            Base::Hoisted => f.write_str("hoisted")?,
            Base::Output => f.write_str("out")?,
        }
        write!(f, "+{}", self.offset)
    }
}

impl fmt::Display for CellStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |mode: &Mode| match mode {
            Mode::Set => "=".to_string(),
            Mode::Add => "+=".to_string(),
            Mode::From(start) => format!("= {start} +"),
        };
        match self {
            Self::Reduce { port, from, width, by, out } => {
                write!(f, "{out} = {by} of port{port}+{from} [{width}]")
            }
            Self::Product { weights, rows, width, x, out, mode } => {
                let names: Vec<String> = weights.iter().map(|id| format!("w{}", id.0)).collect();
                write!(f, "{out} {} ({}) {x} [{rows}, {width}]", sign(mode), names.join(" ; "))
            }
            Self::MatMul { left, right, bias, m, k, n, out } => {
                let right: Vec<String> = right.iter().map(|(place, _)| place.to_string()).collect();
                let mode = bias.map_or(Mode::Set, Mode::From);
                write!(f, "{out} {} {left} · ({}) [{m}, {k}, {n}]", sign(&mode), right.join(" ; "))
            }
            Self::Elementwise(program) => write!(f, "{program}"),
            Self::Softmax { from, width, out, logarithm } => {
                let name = if *logarithm { "log-softmax" } else { "softmax" };
                write!(f, "{out} = {name} {from} [{width}]")
            }
            Self::Copy { from, width, out } => write!(f, "{out} = {from} [{width}]"),
            Self::Expand { from, rows, columns, out } => {
                write!(f, "{out} = expand {from} [{rows}, {columns}]")
            }
            Self::Transpose { from, rows, columns, out } => {
                write!(f, "{out} = transpose {from} [{rows}, {columns}]")
            }
            Self::Fill { value, width, out } => write!(f, "{out} = {value} [{width}]"),
        }
    }
}

/// `element-wise [4]: r0 = port0+0; r1 = tanh r0; out+0 = r1`
impl fmt::Display for Elementwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element-wise [{}]:", self.width)?;
        for (register, input) in self.inputs.iter().enumerate() {
            write!(f, " r{register} = {input};")?;
        }
        for (i, instruction) in self.instructions.iter().enumerate() {
            write!(f, " r{} = {instruction};", self.inputs.len() + i)?;
        }
        let outputs: Vec<String> = self
            .outputs
            .iter()
            .map(|(register, place)| format!(" {place} = r{register}"))
            .collect();
        write!(f, "{}", outputs.join(";"))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(a, b) => write!(f, "r{a} + r{b}"),
            Self::Sub(a, b) => write!(f, "r{a} - r{b}"),
            Self::Mul(a, b) => write!(f, "r{a} * r{b}"),
            Self::Div(a, b) => write!(f, "r{a} / r{b}"),
            Self::Neg(a) => write!(f, "-r{a}"),
            Self::Scale(a, s) => write!(f, "{s} r{a}"),
            Self::Sigmoid(a) => write!(f, "sigmoid r{a}"),
            Self::Tanh(a) => write!(f, "tanh r{a}"),
            Self::Relu(a) => write!(f, "relu r{a}"),
            Self::Exp(a) => write!(f, "exp r{a}"),
            Self::Log(a) => write!(f, "log r{a}"),
        }
    }
}

/// One line a step.
impl fmt::Display for CellPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: scratch {:?}, output {}", self.name, self.regions, self.output_width)?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        if let Some(hoisted) = &self.hoisted {
            write!(f, "ahead, {}rest, {}", hoisted.ahead, hoisted.rest)?;
        }
        Ok(())
    }
}

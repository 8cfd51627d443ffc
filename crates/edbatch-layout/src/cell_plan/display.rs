//! Prints compiled cells, one line per step.

use std::fmt;

use super::{AttentionFields, Base, CellPlan, CellStep, Mode, Place, Scores, Weight};

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Base::Table(table) => write!(f, "table{table}")?,
            Base::Port(port) => write!(f, "port{port}")?,
            Base::Parameter(weight) => write!(f, "{weight}")?,
            Base::Scratch(region) => write!(f, "s{region}")?,
            Base::Hoisted => f.write_str("hoisted")?,
            Base::Output => f.write_str("out")?,
        }
        write!(f, "+{}", self.offset)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsIs(id) => write!(f, "w{}", id.0),
            Self::Transposed(id) => write!(f, "w{}ᵀ", id.0),
        }
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
                write!(f, "{out} = {} of port{port}+{from} [{width}]", hyphens(by))
            }
            Self::Product { weights, rows, width, x, out, mode } => {
                let names: Vec<String> = weights.iter().map(Weight::to_string).collect();
                write!(f, "{out} {} ({}) {x} [{rows}, {width}]", sign(mode), names.join(" ; "))
            }
            Self::MatMul { left, right, bias, m, k, n, out } => {
                let right: Vec<String> = right.iter().map(|(place, _)| place.to_string()).collect();
                let mode = bias.map_or(Mode::Set, Mode::From);
                write!(f, "{out} {} {left} · ({}) [{m}, {k}, {n}]", sign(&mode), right.join(" ; "))
            }
            Self::Elementwise { width, inputs, outputs, program } => {
                write!(f, "element-wise [{width}]:")?;
                for (register, input) in inputs.iter().enumerate() {
                    write!(f, " r{register} = {input};")?;
                }
                write!(f, " {program}")?;
                let outputs = (inputs.len()..).zip(outputs);
                outputs
                    .into_iter()
                    .try_for_each(|(register, out)| write!(f, "; {out} = r{register}"))
            }
            Self::AttentionBack { of, query, gradient, out } => {
                let AttentionFields { port, keys, values, heads } = of;
                write!(
                    f,
                    "{out} = gradient of {query} by {gradient}, attention over port{port}+{} [{}] \
                     by port{port}+{} [{heads} heads, {}]",
                    values.0, values.1, keys.0, keys.1
                )
            }
            Self::Attention { port, scores, values, heads, width, out } => {
                write!(f, "{out} = sum of port{port}+{values} by softmax of ")?;
                match scores {
                    Scores::Field(scores) => write!(f, "port{port}+{scores}")?,
                    Scores::Keys { query, keys, width } => {
                        write!(f, "{query} · port{port}+{keys} [{width}]")?;
                    }
                }
                write!(f, " [{heads} heads, {width}]")
            }
            Self::Rows(step) => write!(f, "{step}"),
        }
    }
}

/// A name as plans print it: `log-softmax`.
pub(super) fn hyphens(name: &impl fmt::Display) -> String {
    name.to_string().replace('_', "-")
}

/// One line per step.
impl fmt::Display for CellPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: scratch {:?}, output {}", self.name, self.regions, self.output_width)?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        if let Some(hoisted) = &self.hoisted {
            write!(f, "prologue, {}body, {}", hoisted.prologue, hoisted.body)?;
        }
        Ok(())
    }
}

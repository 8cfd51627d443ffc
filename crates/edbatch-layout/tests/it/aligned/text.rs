//! Parses files of aligned-layout problems.
//!
//! An instance starts with `I variables batches`. Each batch is `B operands positions`, followed by
//! a line of variables for each operand. `R feasible copies`, the answer, ends the instance. Lines
//! that begin with `#` are comments. All operands have the same weight.

use edbatch_layout::aligned::{AlignedBatch, Problem};

pub(crate) struct Instance {
    pub(crate) problem: Problem,
    /// True if an ideal layout exists; and the smallest number of copies.
    pub(crate) answer: Option<(bool, usize)>,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Instance>, String> {
    let mut instances: Vec<Instance> = Vec::new();
    let (mut operands, mut positions) = (0, 0);
    for (number, line) in (1..).zip(text.lines()) {
        let error = |what: &str| format!("line {number}: expected {what}, found `{line}`");
        let mut words = line.split_whitespace();
        let Some(first) = words.next().filter(|word| !word.starts_with('#')) else {
            continue;
        };
        let tagged = first.parse::<u32>().is_err();
        let numbers: Result<Vec<u32>, _> =
            line.split_whitespace().skip(usize::from(tagged)).map(str::parse).collect();
        let numbers = numbers.map_err(|_| error("numbers"))?;
        if tagged && operands > 0 {
            return Err(error("an operand"));
        }
        match (first, &numbers[..]) {
            ("I", &[variables, _]) => {
                let problem = Problem { variables, batches: Vec::new() };
                instances.push(Instance { problem, answer: None });
                continue;
            }
            ("I", _) => return Err(error("`I variables batches`")),
            _ => {}
        }
        let instance = instances.last_mut().ok_or_else(|| error("`I variables batches`"))?;
        match (first, &numbers[..]) {
            ("B", &[m, k]) => {
                (operands, positions) = (m, k as usize);
                instance.problem.batches.push(AlignedBatch::default());
            }
            ("R", &[feasible, copies]) => instance.answer = Some((feasible == 1, copies as usize)),
            _ if !tagged && operands > 0 && numbers.len() == positions => {
                operands -= 1;
                let batch = instance.problem.batches.last_mut().ok_or_else(|| error("`B …`"))?;
                batch.operands.extend(AlignedBatch::uniform([numbers], 1).operands);
            }
            _ => return Err(error("`B operands positions`, an operand, or `R feasible copies`")),
        }
    }
    for (index, instance) in (1..).zip(&instances) {
        instance.problem.check().map_err(|error| format!("instance {index}: {error}"))?;
    }
    Ok(instances)
}

//! A naive evaluator of compiled cells, in f64.

use std::borrow::Cow;
use std::collections::HashMap;

use edbatch_graph::{Kind, Normalization, Reduction, Slope, Table};
use edbatch_layout::{
    Assignment, AttentionFields, Base, CellPlan, CellStep, Form, Mode, Operation, Place, Program,
    RowKernel, RowStep, Scores, Weight,
};
use rand::RngExt;

use super::networks::Random;

/// The arguments of a call, and the parameters.
pub(crate) struct Call {
    tables: Vec<Vec<f64>>,
    /// For each table port: the index that the call names, if it is an index port.
    indices: Vec<u32>,
    /// Three rows for each port. A port that takes one value uses the first.
    ports: Vec<Vec<Vec<f64>>>,
    parameters: Vec<Vec<f64>>,
    /// The dimensions of each parameter.
    dims: Vec<Vec<usize>>,
}

impl Call {
    pub(crate) fn random(program: &Program, kind: Kind, rng: &mut Random) -> Self {
        let network = program.network();
        let cell = &network[kind];
        let mut numbers = |count: usize| -> Vec<f64> {
            (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
        };
        let index = |table: &Table| table.rows / 2;
        let indices = cell.tables().iter().map(index).collect();
        let width = |table| program.table_width(table) as usize;
        let stride = |record| program.record(record).stride as usize;
        Self {
            indices,
            tables: cell.tables().iter().map(|table| numbers(width(table))).collect(),
            ports: (cell.ports().iter())
                .map(|port| (0..3).map(|_| numbers(stride(port.record))).collect())
                .collect(),
            parameters: (network.parameters().iter())
                .map(|parameter| numbers(parameter.elements()))
                .collect(),
            dims: network.parameters().iter().map(|parameter| parameter.dims.clone()).collect(),
        }
    }

    /// Returns the output rows of the whole cell, and of its body after its prologue.
    pub(crate) fn outputs(&self, plan: &CellPlan) -> Vec<Memory> {
        let mut outputs = vec![self.run(plan, &Memory::new())];
        if let Some(hoisted) = &plan.hoisted {
            let handed_on = self.run(&hoisted.prologue, &Memory::new());
            outputs.push(self.run(&hoisted.body, &handed_on));
        }
        outputs
    }

    fn run(&self, plan: &CellPlan, handed_on: &Memory) -> Memory {
        let mut state = State { call: self, handed_on, written: HashMap::new() };
        plan.steps.iter().for_each(|step| state.step(step));
        let output = state.written.into_iter().filter(|((base, _), _)| *base == Base::Output);
        output.map(|((_, element), value)| (element, value)).collect()
    }
}

/// The written elements of a row.
pub(crate) type Memory = HashMap<u32, f64>;

struct State<'a> {
    call: &'a Call,
    handed_on: &'a Memory,
    /// The elements of scratch and output.
    written: HashMap<(Base, u32), f64>,
}

impl State<'_> {
    fn at(&self, place: Place, index: u32) -> f64 {
        let element = place.offset + index;
        match place.base {
            Base::Table(table) => self.call.tables[usize::from(table)][element as usize],
            Base::Port(port) => self.call.ports[usize::from(port)][0][element as usize],
            Base::Parameter(weight) => self.weight(weight)[element as usize],
            Base::Hoisted => self.handed_on[&element],
            Base::Scratch(_) | Base::Output => self.written[&(place.base, element)],
        }
    }

    /// Returns the elements of a weight.
    fn weight(&self, weight: Weight) -> Cow<'_, [f64]> {
        let values = &self.call.parameters[weight.parameter().0 as usize];
        let dims = &self.call.dims[weight.parameter().0 as usize];
        match weight {
            Weight::AsIs(_) => Cow::Borrowed(values),
            Weight::Transposed(_) => {
                let element = |at: usize| values[at % dims[0] * dims[1] + at / dims[0]];
                Cow::Owned((0..values.len()).map(element).collect())
            }
        }
    }

    fn read(&self, place: Place, count: u32) -> Vec<f64> {
        (0..count).map(|index| self.at(place, index)).collect()
    }

    fn write(&mut self, place: Place, values: impl IntoIterator<Item = f64>) {
        for (element, value) in (place.offset..).zip(values) {
            self.written.insert((place.base, element), value);
        }
    }

    fn step(&mut self, step: &CellStep) {
        match *step {
            CellStep::Reduce { port, from, width, by, out } => {
                let rows = &self.call.ports[usize::from(port)];
                let column = |i: u32| rows.iter().map(move |row| row[(from + i) as usize]);
                let reduced: Vec<f64> = (0..width)
                    .map(|i| match by {
                        Reduction::Sum => column(i).sum(),
                        Reduction::Mean => column(i).sum::<f64>() / rows.len() as f64,
                        Reduction::Max => column(i).fold(f64::NEG_INFINITY, f64::max),
                        Reduction::LogSumExp => column(i).map(f64::exp).sum::<f64>().ln(),
                    })
                    .collect();
                self.write(out, reduced);
            }
            CellStep::Product { ref weights, rows, width, x, out, mode } => {
                let weights: Vec<f64> =
                    weights.iter().flat_map(|&weight| self.weight(weight).into_owned()).collect();
                let x = self.read(x, width);
                let start = match mode {
                    Mode::Set => vec![0.0; rows as usize],
                    Mode::Add => self.read(out, rows),
                    Mode::From(place) => self.read(place, rows),
                };
                let rows = weights.chunks_exact(width as usize).zip(start);
                self.write(out, rows.map(|(row, start)| start + dot(row.iter(), &x)));
            }
            CellStep::MatMul { left, ref right, bias, m, k, n, out } => {
                let left = self.read(left, m * k);
                let pieces = right.iter().map(|&(place, rows)| self.read(place, rows * n));
                let right: Vec<f64> = pieces.flatten().collect();
                let bias = bias.map_or_else(|| vec![0.0; m as usize], |bias| self.read(bias, m));
                let element = |at: u32| {
                    let (row, column) = ((at / n) as usize, (at % n) as usize);
                    let left = &left[row * k as usize..][..k as usize];
                    bias[row] + dot(right.iter().skip(column).step_by(n as usize), left)
                };
                self.write(out, (0..m * n).map(element).collect::<Vec<f64>>());
            }
            CellStep::Elementwise { width, ref inputs, ref outputs, ref program } => {
                let elements = (0..width).map(|index| {
                    let inputs = inputs.iter().map(|&place| self.at(place, index)).collect();
                    registers(inputs, program.assignments())
                });
                let elements: Vec<HashMap<usize, f64>> = elements.collect();
                for (register, &place) in (inputs.len()..).zip(outputs) {
                    self.write(place, elements.iter().map(|registers| registers[&register]));
                }
            }
            CellStep::AttentionBack { of, query, gradient, out } => {
                let AttentionFields { port, keys, values, heads } = of;
                let (query, gradient) = (self.read(query, keys.1), self.read(gradient, values.1));
                let rows = &self.call.ports[usize::from(port)];
                // The inner products of a head of `own` and a field of each value.
                let products = |own: &[f64], (field, width): (u32, u32), head: u32| -> Vec<f64> {
                    let width = (width / heads) as usize;
                    let first = head as usize * width;
                    let of_row = |row: &Vec<f64>| {
                        let own = &own[first..first + width];
                        dot(own.iter(), &row[field as usize + first..])
                    };
                    rows.iter().map(of_row).collect()
                };
                let (mut sums, mut logs, mut all) = (Vec::new(), Vec::new(), Vec::new());
                for head in 0..heads {
                    let scores = products(&query, keys, head);
                    let of_values = products(&gradient, values, head);
                    let log = scores.iter().map(|score| score.exp()).sum::<f64>().ln();
                    let p: Vec<f64> = scores.iter().map(|score| (score - log).exp()).collect();
                    let product = dot(p.iter(), &of_values);
                    for i in 0..keys.1 / heads {
                        let at = (keys.0 + head * (keys.1 / heads) + i) as usize;
                        let of_row =
                            |((row, p), x): ((&Vec<f64>, &f64), &f64)| p * (x - product) * row[at];
                        sums.push(rows.iter().zip(&p).zip(&of_values).map(of_row).sum::<f64>());
                    }
                    logs.push(log);
                    all.push(product);
                }
                sums.extend(logs.into_iter().chain(all));
                self.write(out, sums);
            }
            CellStep::Attention { port, scores, values, heads, width, out } => {
                let query = match scores {
                    Scores::Field(_) => Vec::new(),
                    Scores::Keys { query, width, .. } => self.read(query, width),
                };
                let rows = &self.call.ports[usize::from(port)];
                let of_head = width / heads;
                let sum = |at: u32| {
                    let head = (at / of_head) as usize;
                    let weight = |row: &Vec<f64>| match scores {
                        Scores::Field(field) => row[field as usize + head].exp(),
                        Scores::Keys { keys, width, .. } => {
                            let (first, width) = (head * (width / heads) as usize, width / heads);
                            let query = &query[first..first + width as usize];
                            dot(query.iter(), &row[keys as usize + first..]).exp()
                        }
                    };
                    let value = |row: &Vec<f64>| weight(row) * row[(values + at) as usize];
                    rows.iter().map(value).sum::<f64>() / rows.iter().map(weight).sum::<f64>()
                };
                let sums: Vec<f64> = (0..width).map(sum).collect();
                self.write(out, sums);
            }
            CellStep::Rows(step) => self.rows(step),
        }
    }

    fn rows(&mut self, step: RowStep) {
        let RowStep { kernel, from: [from, right], rows, columns, out } = step;
        let area = rows * columns;
        let result: Vec<f64> = match kernel {
            RowKernel::Normalize(by) => {
                let matrix = self.read(from, area);
                matrix.chunks(columns as usize).flat_map(|row| normalized(by, row)).collect()
            }
            RowKernel::Dot => {
                let (left, right) = (self.read(from, area), self.read(right, area));
                let rows = left.chunks(columns as usize).zip(right.chunks(columns as usize));
                rows.map(|(left, right)| dot(left.iter(), right)).collect()
            }
            RowKernel::Fold => {
                let matrix = self.read(from, area);
                matrix.chunks(columns as usize).map(|row| row.iter().sum()).collect()
            }
            RowKernel::Transpose => {
                let read = self.read(from, area);
                let element = |at: u32| read[(at % rows * columns + at / rows) as usize];
                (0..area).map(element).collect()
            }
            RowKernel::Expand => {
                let read = self.read(from, rows);
                (0..area).map(|at| read[(at / columns) as usize]).collect()
            }
            RowKernel::Copy => self.read(from, area),
            RowKernel::Fill(value) => vec![f64::from(value); area as usize],
            RowKernel::Select(table) => {
                let row = self.call.indices[usize::from(table)] * columns;
                self.read(from, area)[row as usize..][..columns as usize].to_vec()
            }
            RowKernel::OneHot(table) => {
                let index = self.call.indices[usize::from(table)];
                (0..columns).map(|at| f64::from(u8::from(at == index))).collect()
            }
            RowKernel::Share(port) => {
                let values = self.call.ports[usize::from(port)].len() as f64;
                self.read(from, area).into_iter().map(|x| x / values).collect()
            }
            RowKernel::Ties { port, field } => {
                let (rows, like) = (&self.call.ports[usize::from(port)], self.read(from, area));
                let ties = |i: u32| {
                    let is_equal = |row: &&Vec<f64>| row[(field + i) as usize] == like[i as usize];
                    rows.iter().filter(is_equal).count() as f64
                };
                (0..area).map(ties).collect()
            }
        };
        self.write(out, result);
    }
}

fn normalized(by: Normalization, row: &[f64]) -> Vec<f64> {
    let mean = |row: &[f64]| row.iter().sum::<f64>() / row.len() as f64;
    let rms = |row: Vec<f64>, epsilon: f32| {
        let squares: Vec<f64> = row.iter().map(|x| x * x).collect();
        let root = (mean(&squares) + f64::from(epsilon)).sqrt();
        row.into_iter().map(|x| x / root).collect()
    };
    let log = row.iter().map(|x| x.exp()).sum::<f64>().ln();
    match by {
        Normalization::Softmax => row.iter().map(|x| (x - log).exp()).collect(),
        Normalization::LogSoftmax => row.iter().map(|x| x - log).collect(),
        Normalization::LayerNorm(epsilon) => {
            rms(row.iter().map(|x| x - mean(row)).collect(), epsilon)
        }
        Normalization::RmsNorm(epsilon) => rms(row.to_vec(), epsilon),
    }
}

fn dot<'a>(left: impl Iterator<Item = &'a f64>, right: &[f64]) -> f64 {
    left.zip(right).map(|(a, b)| a * b).sum()
}

/// Returns the registers of an element-wise program after its assignments.
fn registers(inputs: Vec<f64>, assignments: &[Assignment]) -> HashMap<usize, f64> {
    let mut registers: HashMap<usize, f64> = inputs.into_iter().enumerate().collect();
    for assignment in assignments {
        let operand = |index: usize| registers[&assignment.operands()[index].index()];
        let result = assigned(assignment.operation, operand);
        registers.insert(assignment.result.index(), result);
    }
    registers
}

fn slope_of(slope: Slope, gradient: f64, y: f64) -> f64 {
    match slope {
        Slope::Sigmoid => gradient * ((1.0 - y) * y),
        Slope::Tanh => gradient * (1.0 - y * y),
        Slope::Relu => {
            if y > 0.0 {
                gradient
            } else {
                0.0
            }
        }
    }
}

fn assigned(operation: Operation, of: impl Fn(usize) -> f64) -> f64 {
    match operation {
        Operation::Copy => of(0),
        Operation::Binary(binary) => binary.of(of(0), of(1)),
        Operation::Larger => match of(0).partial_cmp(&of(1)) {
            Some(std::cmp::Ordering::Greater) => 1.0,
            Some(std::cmp::Ordering::Less) => 0.0,
            _ => 0.5,
        },
        Operation::Neg => -of(0),
        Operation::Slope(slope) => slope_of(slope, of(0), of(1)),
        Operation::SlopeOfProduct(slope) => slope_of(slope, of(0) * of(1), of(2)),
        Operation::Scale(factor) => f64::from(factor) * of(0),
        Operation::ScaledSum(factor) => f64::from(factor) * (of(0) + of(1)),
        Operation::AddProduct => of(0) * of(1) + of(2),
        Operation::SumOfProducts => of(0) * of(1) + of(2) * of(3),
        Operation::Apply(form, function) => {
            let f = |x: f64| function.of(x);
            match form {
                Form::Plain => f(of(0)),
                Form::OfSum => f(of(0) + of(1)),
                Form::OfSums => f(of(0) + of(1) + of(2)),
                Form::Times => f(of(0)) * of(1),
                Form::OfSumTimes => f(of(0) + of(1)) * of(2),
                Form::Between => of(2) + f(of(0)) * (of(1) - of(2)),
                Form::OfSumBetween => of(3) + f(of(0) + of(1)) * (of(2) - of(3)),
            }
        }
    }
}

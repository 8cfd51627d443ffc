//! A text notation for cells and for the results of the passes, used in tests.
//!
//! A cell is a line such as `x h:c -> h = tanh (w x + u h + b) | h`. The ports precede the arrow,
//! each with its fields: `table` stands for a row of a table, and `many` for a port with any number
//! of values, which are summed. `many:k:v` is such a port whose values have two fields: `attend q
//! many` is attention with the query q, `softmax many` takes k as the scores of v. Equations
//! follow, separated by commas, and the returned variables after `|`. Adjacent factors are
//! multiplied. Of the parameters, `w` and `u` are 4 × 4 matrices, `v` is 4 × 8, `b` is a vector,
//! and `t` is a row of a table. `[x y]` is a concatenation, `x'` the first half of x. `matrix x`
//! and `vector m` reshape 4 elements to 2 × 2 and back. Vectors have 4 elements; upper-case names
//! are 4 × 4 matrices.

use std::collections::{BTreeMap, HashMap};

use edbatch_graph::{Cell, CellBuilder, Network, Shape, Tensor, Values, Var};

use super::CellStyle;
use super::equations::Equations;
use super::place::Places;
use super::stack::Group;
use crate::cell_plan::{Base, Place};
use crate::record_layout::RecordLayout;

const SIZE: usize = 4;

/// A cell with the names of its variables.
pub(super) struct CellText {
    records: Vec<RecordLayout>,
    cell: Cell,
    names: HashMap<Var, String>,
}

impl CellText {
    pub(super) fn parse(text: &str) -> Self {
        let (ports, body) = text.split_once("->").expect("an arrow after the ports");
        let (equations, returned) = body.split_once('|').expect("a bar before what is returned");
        let returned: Vec<&str> = returned.split_whitespace().collect();
        let mut network = Network::new();
        let shape = |name: &str| match name.starts_with(char::is_uppercase) {
            true => Shape::Matrix(SIZE as u32, SIZE as u32),
            false => Shape::Vector(SIZE as u32),
        };
        let record = |network: &mut Network, fields: &[&str]| {
            let field = |index: usize| (fields[index], shape(fields[index]));
            let record = match fields.len() {
                1 => network.record(fields[0], [field(0)]),
                2 => network.record(fields[0], [field(0), field(1)]),
                count => panic!("{count} fields, expected one or two"),
            };
            record.expect("a record")
        };
        let ports = ports.split_whitespace().filter(|port| *port != "table");
        let ports: Vec<Vec<&str>> = ports.map(|port| port.split(':').collect()).collect();
        // Without the word `many` of `many:k:v`.
        let fields = |port: &Vec<&'_ str>| port.len().saturating_sub(2);
        let records: Vec<_> =
            ports.iter().map(|port| record(&mut network, &port[fields(port)..])).collect();
        let output = record(&mut network, &returned);
        let mut names = HashMap::new();
        let cell = network.cell("cell", output, |cell| {
            let mut scope = Scope { cell, tensors: HashMap::new(), values: None };
            for (fields, &record) in ports.iter().zip(&records) {
                match fields[..] {
                    [name] if name.starts_with("many") => {
                        let [sum] = cell.many(name, record).sum();
                        scope.tensors.insert(name.into(), sum);
                    }
                    [name] => {
                        let [a] = cell.one(name, record);
                        scope.tensors.insert(name.into(), a);
                    }
                    [first, second] => {
                        let [a, b] = cell.one(first, record);
                        scope.tensors.extend([(first.into(), a), (second.into(), b)]);
                    }
                    ["many", _, _] => scope.values = Some(cell.many("many", record)),
                    _ => unreachable!("a port has one field or two"),
                }
            }
            for equation in equations.split(',') {
                let (name, right) = equation.split_once('=').expect("name = expression");
                let value = Parser::new(right).sum(&mut scope);
                scope.tensors.insert(name.trim().into(), value);
            }
            let named = scope.tensors.iter().map(|(name, tensor)| (tensor.var(), name.clone()));
            names = named.collect();
            returned.iter().map(|name| scope.tensors[*name]).collect()
        });
        let kind = cell.unwrap_or_else(|error| panic!("{text}: {error}"));
        let (records, cell) = (RecordLayout::all(&network), network[kind].clone());
        Self { records, cell, names }
    }

    pub(super) fn equations(&self) -> Equations<'_> {
        Equations::new(&self.records, &self.cell)
    }

    /// Returns the steps of the cell, compiled in this style, one line each.
    pub(super) fn compiled(&self, style: CellStyle) -> String {
        let batches = crate::inner_batches(&self.cell);
        super::compile(&self.records, &self.cell, style, &batches).plan.to_string()
    }

    pub(super) fn name(&self, var: Var) -> String {
        self.names.get(&var).cloned().unwrap_or_else(|| var.to_string())
    }

    fn list(&self, vars: &[Var]) -> String {
        let names: Vec<String> = vars.iter().map(|&var| self.name(var)).collect();
        names.join(" ")
    }

    /// Returns groups as text, such as `(i f) (o waiting g); fused c h`.
    pub(super) fn groups(&self, groups: &[Group]) -> String {
        let group = |group: &Group| match group {
            Group::Stacks(stacks) => {
                let stacks = stacks.iter().map(|stack| match &stack.waiting[..] {
                    [] => format!("({})", self.list(&stack.products)),
                    waiting => {
                        format!("({} waiting {})", self.list(&stack.products), self.list(waiting))
                    }
                });
                stacks.collect::<Vec<_>>().join(" ")
            }
            Group::Elementwise(run) => format!("fused {}", self.list(run)),
            Group::Batch(batch) => format!("batch {}", self.list(batch)),
            Group::Expand(var, _) => format!("expand {}", self.name(*var)),
            Group::Other(var) => format!("run {}", self.name(*var)),
        };
        groups.iter().map(group).collect::<Vec<_>>().join("; ")
    }
}

/// Lists the variables of each region, in the order of their places: `s0: i f; out: h c`.
pub(super) fn regions(cell: &CellText, places: &Places) -> String {
    let mut regions: BTreeMap<Base, Vec<(u32, String)>> = BTreeMap::new();
    for var in cell.equations().vars() {
        let written = |place: &Place| matches!(place.base, Base::Scratch(_) | Base::Output);
        if let Some(place) = places.find(var).filter(written) {
            regions.entry(place.base).or_default().push((place.offset, cell.name(var)));
        }
    }
    let region = |(base, mut vars): (Base, Vec<(u32, String)>)| {
        vars.sort_unstable();
        let names: Vec<String> = vars.into_iter().map(|(_, name)| name).collect();
        let base = match base {
            Base::Scratch(region) => format!("s{region}"),
            _ => "out".into(),
        };
        format!("{base}: {}", names.join(" "))
    };
    regions.into_iter().map(region).collect::<Vec<_>>().join("; ")
}

struct Scope<'c> {
    cell: &'c CellBuilder,
    tensors: HashMap<String, Tensor<'c>>,
    /// The port `many:k:v`.
    values: Option<Values<'c>>,
}

impl<'c> Scope<'c> {
    /// Returns the variable with this name, or else declares a parameter.
    fn get(&mut self, name: &str) -> Tensor<'c> {
        let cell = self.cell;
        let parameter = || match name.as_bytes()[0] {
            b'b' => cell.parameter(name, &[SIZE]),
            b't' => cell.lookup(name, name, &[9, SIZE]),
            b'v' => cell.parameter(name, &[SIZE, 2 * SIZE]),
            b'1' => cell.constant(1.0, Shape::Vector(SIZE as u32)),
            _ => cell.parameter(name, &[SIZE, SIZE]),
        };
        *self.tensors.entry(name.into()).or_insert_with(parameter)
    }
}

/// The remaining words of an expression.
struct Parser<'t> {
    words: std::iter::Peekable<std::vec::IntoIter<&'t str>>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(end) = rest.find(['(', ')', '[', ']', '\'']) {
                words.extend([&rest[..end], &rest[end..=end]]);
                rest = &rest[end + 1..];
            }
            words.push(rest);
        }
        words.retain(|word| !word.is_empty());
        Self { words: words.into_iter().peekable() }
    }

    fn sum<'c>(&mut self, scope: &mut Scope<'c>) -> Tensor<'c> {
        let mut sum = self.element_product(scope);
        while let Some(operator) = self.words.next_if(|word| matches!(*word, "+" | "-")) {
            let term = self.element_product(scope);
            sum = if operator == "+" { sum + term } else { sum - term };
        }
        sum
    }

    fn element_product<'c>(&mut self, scope: &mut Scope<'c>) -> Tensor<'c> {
        let mut product = self.matrix_product(scope);
        while self.words.next_if_eq(&"*").is_some() {
            product = product * self.matrix_product(scope);
        }
        product
    }

    fn matrix_product<'c>(&mut self, scope: &mut Scope<'c>) -> Tensor<'c> {
        let first = self.factor(scope);
        match self.words.peek() {
            None | Some(&("+" | "-" | "*" | ")" | "]")) => first,
            Some(_) => first.matmul(self.matrix_product(scope)),
        }
    }

    fn factor<'c>(&mut self, scope: &mut Scope<'c>) -> Tensor<'c> {
        let value = match self.words.next().expect("a factor") {
            "(" => {
                let sum = self.sum(scope);
                assert_eq!(self.words.next(), Some(")"));
                sum
            }
            "[" => {
                let mut parts = Vec::new();
                while self.words.next_if_eq(&"]").is_none() {
                    parts.push(self.factor(scope));
                }
                scope.cell.concat(&parts)
            }
            "tanh" => self.factor(scope).tanh(),
            "sigmoid" => self.factor(scope).sigmoid(),
            "attend" => {
                let query = self.factor(scope);
                self.values(scope).expect("the port").attention(query, "k", "v", 2, 0.5)
            }
            "softmax" => match self.values(scope) {
                Some(values) => values.softmax_sum("k", "v"),
                None => self.factor(scope).softmax(),
            },
            "norm" => self.factor(scope).layer_norm(0.5),
            "matrix" => self.factor(scope).reshape(Shape::Matrix(2, 2)),
            "vector" => self.factor(scope).reshape(Shape::Vector(SIZE as u32)),
            name => scope.get(name),
        };
        match self.words.next_if_eq(&"'") {
            Some(_) => value.slice(0, value.shape().rows_and_columns().0 / 2),
            None => value,
        }
    }

    /// Returns the values of the port `many:k:v`, if it is next.
    fn values<'c>(&mut self, scope: &Scope<'c>) -> Option<Values<'c>> {
        let values = scope.values?;
        self.words.next_if_eq(&"many").map(|_| values)
    }
}

//! Visitors of serde, which append the items of a line to flat arrays.

use std::fmt;
use std::marker::PhantomData;

use edbatch_graph::Arity;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use super::{Line, SYNTAX, by_length};
use crate::json_fault::{mismatch, number_of_text, shortened};

/// The maximum number of calls of a line.
pub(super) const MAX_CALLS: usize = 1 << 20;

/// The maximum number of operands of a line: rows, values and items of lists.
pub(super) const MAX_OPERANDS: usize = 1 << 24;

/// The maximum number of emitted values of a line.
pub(super) const MAX_EMITTED: usize = 1 << 22;

/// The members of a line.
#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Give,
    Calls,
    Emit,
    Targets,
}

impl Line<'_> {
    fn operands(&self) -> usize {
        self.rows.len() + self.values.len()
    }

    fn check_operands<E: Error>(&self) -> Result<(), E> {
        match self.operands() <= MAX_OPERANDS {
            true => Ok(()),
            false => Err(mismatch(format_args!("at most {MAX_OPERANDS} operands"), "more")),
        }
    }

    fn value<'de, A: SeqAccess<'de>>(
        &mut self,
        seq: &mut A,
        what: impl fmt::Display,
    ) -> Result<bool, A::Error> {
        let value: Option<i32> = seq.next_element_seed(number(what))?;
        self.values.extend(value);
        self.check_operands()?;
        Ok(value.is_some())
    }
}

impl<'de> Visitor<'de> for &mut Line<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SYNTAX)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(member) = map.next_key::<Member>()? {
            const NAMES: [&str; 4] = ["give", "calls", "emit", "targets"];
            if std::mem::replace(&mut self.seen[member as usize], true) {
                return Err(A::Error::duplicate_field(NAMES[member as usize]));
            }
            match member {
                Member::Give => map.next_value_seed(Given(self))?,
                Member::Calls => map.next_value_seed(Calls(self))?,
                Member::Emit => {
                    let value = || number("the number of an emitted value");
                    self.emitted =
                        map.next_value_seed(Items(value, "emitted values", MAX_EMITTED))?;
                }
                Member::Targets => {
                    self.targets =
                        Some(map.next_value_seed(Items(|| Target, "targets", MAX_EMITTED))?);
                }
            }
        }
        match self.seen[Member::Calls as usize] {
            true => Ok(()),
            false => Err(A::Error::missing_field("calls")),
        }
    }
}

/// Implements [`DeserializeSeed`] by a method of the deserializer, for a type that is a visitor.
/// The brackets hold its generic parameters.
macro_rules! seed {
    ([$($generics:tt)*] $type:ty, $method:ident) => {
        impl<'de, $($generics)*> DeserializeSeed<'de> for $type {
            type Value = <Self as Visitor<'de>>::Value;

            #[inline]
            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
                from.$method(self)
            }
        }
    };
}

/// The member `give`: `[["record", [element, …]], …]`.
struct Given<'l, 'r>(&'l mut Line<'r>);
seed!(['l, 'r] Given<'l, 'r>, deserialize_seq);

impl<'de> Visitor<'de> for Given<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[[\"record\", [element, …]], …]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(()) = seq.next_element_seed(GivenRow(self.0))? {}
        Ok(())
    }
}

/// A given value: `["record", [element, …]]`.
struct GivenRow<'l, 'r>(&'l mut Line<'r>);
seed!(['l, 'r] GivenRow<'l, 'r>, deserialize_seq);

impl<'de> Visitor<'de> for GivenRow<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[\"record\", [element, …]]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let reader = self.0.reader;
        let record = seq.next_element_seed(Name { names: &reader.records, what: "record" })?;
        let record = record.ok_or_else(|| mismatch(&self, "[]"))?;
        let name = &reader.network().fields(record).name;
        let row = seq.next_element::<&RawValue>()?;
        let row = row.ok_or_else(|| {
            mismatch(format_args!("the elements of a {name}"), "the end of the given value")
        })?;
        let before = self.0.elements.len();
        push_elements(row.get(), &mut self.0.elements, name)?;
        self.0.given.push((record, self.0.elements.len() - before));
        end(&mut seq, format_args!("the end of the given value of record {name}"))
    }
}

impl fmt::Display for GivenRow<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Visitor::expecting(self, f)
    }
}

/// Appends the numbers of a list. Each is rounded once, from its digits to 32 bits.
pub(super) fn push_elements<E: Error>(
    text: &str,
    elements: &mut Vec<f32>,
    record: &str,
) -> Result<(), E> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let list = format_args!("a list of the elements of a {record}");
    let inner = inner.ok_or_else(|| mismatch(list, shortened(text)))?;
    if inner.trim_ascii().is_empty() {
        return Ok(());
    }
    for (index, number) in inner.split(',').enumerate() {
        let number = number_of_text(number.trim_ascii()).map_err(|error: serde_json::Error| {
            E::custom(format_args!("{error} (element {index} of a {record})"))
        });
        elements.push(number?);
    }
    Ok(())
}

/// The member `calls`.
struct Calls<'l, 'r>(&'l mut Line<'r>);
seed!(['l, 'r] Calls<'l, 'r>, deserialize_seq);

impl<'de> Visitor<'de> for Calls<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of calls")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(()) = seq.next_element_seed(Call(self.0))? {
            if self.0.calls.len() > MAX_CALLS {
                return Err(mismatch(format_args!("at most {MAX_CALLS} calls"), "more"));
            }
        }
        Ok(())
    }
}

/// A call: `["cell", row, value, [value, …]]`.
struct Call<'l, 'r>(&'l mut Line<'r>);
seed!(['l, 'r] Call<'l, 'r>, deserialize_seq);

impl<'de> Visitor<'de> for Call<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a call, [\"cell\", row, value, [value, …]]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self(line) = self;
        let reader = line.reader;
        let kind = seq.next_element_seed(Name { names: &reader.kinds, what: "cell" })?;
        let kind = kind.ok_or_else(|| mismatch("the name of a cell", "an empty call"))?;
        let cell = &reader.network()[kind];
        const END: &str = "the end of the call";
        for table in cell.tables() {
            let of = format_args!("a row of table {} of cell {}", table.name, cell.name());
            let row = seq.next_element_seed(number(of))?;
            line.rows.push(row.ok_or_else(|| mismatch(of, END))?);
        }
        let before = line.values.len();
        for port in cell.ports() {
            let found = match port.arity {
                Arity::One => {
                    let of = format_args!("a value for {} of cell {}", port.name, cell.name());
                    line.value(&mut seq, of)?
                }
                Arity::Many => {
                    let values = ListOfValues { line, port: &port.name, cell: cell.name() };
                    seq.next_element_seed(values)?.is_some()
                }
            };
            if !found {
                let of = format_args!("a value for {} of cell {}", port.name, cell.name());
                return Err(mismatch(of, END));
            }
        }
        line.check_operands()?;
        line.calls.push((kind, (line.values.len() - before) as u32));
        end(&mut seq, format_args!("the end of the call of cell {}", cell.name()))
    }
}

/// The values at a port that takes any number of them.
struct ListOfValues<'l, 'r> {
    line: &'l mut Line<'r>,
    port: &'l str,
    cell: &'l str,
}
seed!(['l, 'r] ListOfValues<'l, 'r>, deserialize_seq);

impl<'de> Visitor<'de> for ListOfValues<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of values for {} of cell {}", self.port, self.cell)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let of = format_args!("a value for {} of cell {}", self.port, self.cell);
        while self.line.value(&mut seq, of)? {}
        Ok(())
    }
}

/// A list without another item.
fn end<'de, A: SeqAccess<'de>>(seq: &mut A, expected: impl fmt::Display) -> Result<(), A::Error> {
    match seq.next_element::<serde::de::IgnoredAny>()? {
        None => Ok(()),
        Some(_) => Err(mismatch(expected, "another item")),
    }
}

/// The name of a cell or a record.
struct Name<'n, I> {
    names: &'n [(String, I)],
    what: &'n str,
}
seed!(['n, I: Copy] Name<'n, I>, deserialize_str);

impl<I: Copy> Visitor<'_> for Name<'_, I> {
    type Value = I;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a {}", self.what)
    }

    #[inline]
    fn visit_str<E: Error>(self, name: &str) -> Result<I, E> {
        match self.names.binary_search_by(|(known, _)| by_length(known, name)) {
            Ok(index) => Ok(self.names[index].1),
            Err(_) => Err(mismatch(
                format_args!("a {} of the network", self.what),
                format_args!("{:?}", shortened(name)),
            )),
        }
    }
}

/// A number in the range of `N`. `what` describes it.
struct Number<W, N> {
    what: W,
    of: PhantomData<N>,
}
seed!([W: fmt::Display, N: TryFrom<i64>] Number<W, N>, deserialize_i64);

fn number<W, N>(what: W) -> Number<W, N> {
    Number { what, of: PhantomData }
}

impl<W: fmt::Display, N: TryFrom<i64>> Visitor<'_> for Number<W, N> {
    type Value = N;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }

    #[inline]
    fn visit_i64<E: Error>(self, number: i64) -> Result<N, E> {
        N::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    #[inline]
    fn visit_u64<E: Error>(self, number: u64) -> Result<N, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }
}

/// A class or null.
struct Target;
seed!([] Target, deserialize_any);

impl Visitor<'_> for Target {
    type Value = Option<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a class or null as target")
    }

    fn visit_u64<E: Error>(self, class: u64) -> Result<Option<u32>, E> {
        number::<_, u32>("a class or null as target").visit_u64(class).map(Some)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<u32>, E> {
        Ok(None)
    }
}

/// A list with a maximum number of items. The function makes a seed for each item.
pub(super) struct Items<F>(pub(super) F, pub(super) &'static str, pub(super) usize);
seed!([S: DeserializeSeed<'de>, F: Fn() -> S] Items<F>, deserialize_seq);

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> Visitor<'de> for Items<F> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.1)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.0())? {
            if items.len() == self.2 {
                return Err(mismatch(format_args!("at most {} {}", self.2, self.1), "more"));
            }
            items.push(item);
        }
        Ok(items)
    }
}

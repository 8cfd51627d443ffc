//! The items of a file, as serde reads them: each with its limits.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{MAX_CELLS, MAX_ITEMS, MAX_OPERATIONS};
use crate::json_fault::{MAX_NAME, mismatch};

/// A whole file. Its items are parsed one by one, so that errors have their place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File<'a> {
    pub(super) edbatch_network: u64,
    #[serde(borrow)]
    pub(super) records: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    pub(super) parameters: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    pub(super) initial_values: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    pub(super) cells: Items<&'a RawValue, MAX_CELLS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordItem<'a> {
    pub(super) name: Name,
    #[serde(borrow)]
    pub(super) fields: Items<&'a RawValue, MAX_ITEMS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldItem {
    pub(super) name: Name,
    pub(super) shape: Dims,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParameterItem {
    pub(super) name: Name,
    pub(super) shape: Dims,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InitialItem {
    pub(super) record: Name,
    pub(super) parameters: Items<Name, MAX_ITEMS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CellItem<'a> {
    pub(super) name: Name,
    pub(super) record: Name,
    #[serde(borrow)]
    pub(super) tables: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    pub(super) ports: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    pub(super) operations: Items<&'a RawValue, MAX_OPERATIONS>,
    pub(super) outputs: Items<u32, MAX_ITEMS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableItem {
    pub(super) name: Name,
    #[serde(default, deserialize_with = "present")]
    pub(super) parameter: Option<Name>,
    /// The size of an index port.
    #[serde(default, deserialize_with = "present")]
    pub(super) size: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortItem {
    pub(super) name: Name,
    pub(super) record: Name,
    #[serde(default)]
    pub(super) many: bool,
}

/// The dimensions of a tensor: at most three, so that more are not stored.
pub(super) type Dims = Items<usize, 3>;

/// A list of at most `MAX` items.
pub(super) struct Items<T, const MAX: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Items<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = Items<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    if items.len() == MAX {
                        return Err(mismatch(
                            format_args!("a list of at most {MAX} items"),
                            "more",
                        ));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }

        from.deserialize_seq(List(std::marker::PhantomData))
    }
}

/// A name of at most [`MAX_NAME`] bytes, without control characters.
pub(super) struct Name(pub(super) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        if name.len() > MAX_NAME {
            let bytes = name.len();
            return Err(mismatch(format_args!("a name of at most {MAX_NAME} bytes"), bytes));
        }
        if name.contains(|c: char| c.is_control()) {
            return Err(mismatch("a name without control characters", format_args!("{name:?}")));
        }
        Ok(Self(name))
    }
}

/// Reads a member that is there. Without this function, `null` would count as a missing member.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

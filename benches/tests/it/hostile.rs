//! Corrupted files of records, and records with impossible figures.

use std::fs;

use edbatch_benches::record::Record;
use edbatch_benches::record::journal::read;
use edbatch_benches::render::against::changes;
use edbatch_benches::render::page::page;
use edbatch_benches::render::summary::summary;
use edbatch_benches::render::tables::tables;
use edbatch_testing::cases;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::sample::records;

/// Values that no measurement writes into a record.
fn hostile() -> impl Strategy<Value = Value> {
    let numbers = [0.0, -0.0, -1.0, 1e-300, 1e300, -1e300, 0.5, 1.0, 1e19];
    let words = ["", "edbatch", "<script>", "\u{1f600}\n", "pytorch-", "a b"];
    prop_oneof![
        4 => prop::sample::select(numbers.to_vec()).prop_map(|number| json!(number)),
        4 => prop::sample::select(&[0_u64, 1, 2, 64, u64::MAX]).prop_map(|number| json!(number)),
        1 => prop::sample::select(words.to_vec()).prop_map(|word| json!(word)),
        1 => Just(json!([])),
        1 => Just(Value::Null),
    ]
}

/// Calls `by` for each scalar inside a value, and replaces the scalar if it returns a value.
fn replace(value: &mut Value, by: &mut impl FnMut() -> Option<Value>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, by)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace(value, by)),
        scalar => *scalar = by().unwrap_or_else(|| scalar.take()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(200), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_records_are_rendered(
        chosen in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
        corrupted in prop::collection::vec((0_usize..60, hostile()), 0..60),
    ) {
        let all = records();
        let mut corrupted = corrupted.into_iter();
        let (mut skip, mut by) = corrupted.next().unwrap_or((usize::MAX, Value::Null));
        let mut next = || match skip {
            0 => {
                let value = by.clone();
                (skip, by) = corrupted.next().unwrap_or((usize::MAX, Value::Null));
                Some(value)
            }
            _ => {
                skip -= 1;
                None
            }
        };
        let records: Vec<Record> = chosen.iter().filter_map(|index| {
            let mut value = serde_json::to_value(index.get(&all)).unwrap();
            replace(&mut value, &mut next);
            serde_json::from_value(value).ok()
        }).collect();
        tables(&records).iter().for_each(|table| drop(table.to_string()));
        prop_assert!(summary(&records).len() < 100_000);
        prop_assert!(page(&records).len() < 10_000_000);
        let _ = (changes(&all, &records), changes(&records, &all));
    }

    #[test]
    fn any_file_is_read_or_rejected(
        lines in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        at in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let all = records();
        let line = |index: &prop::sample::Index| serde_json::to_string(index.get(&all)).unwrap();
        let lines = lines.iter().map(|index| line(index) + "\n");
        let mut text = lines.collect::<String>().into_bytes();
        let at = at.index(text.len() + 1);
        text.splice(at..at, bytes);
        let path = std::env::temp_dir().join(format!("edbatch-records-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        if let Err(error) = read(&path) {
            let said = error.to_string();
            prop_assert!(said.starts_with("line ") || said.contains("UTF-8"), "{said}");
        }
        fs::remove_file(&path).unwrap();
    }
}

//! The mark of a completed shard: `part-00003.done`, one JSON object.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::shard::{Division, Shard};

/// The maximum size of a mark in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A description of a completed shard: its inputs, its model and its results. Equal runs write
/// equal marks, byte by byte.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    pub(crate) shard: u32,
    pub(crate) of: u32,
    /// The number of lines in the shard's file of results.
    pub(crate) lines: u64,
    /// The number of lines without results.
    pub(crate) failed: u64,
    /// The SHA-256 of the model's configuration, vocabularies and weights.
    pub(crate) model: String,
    /// The SHA-256 of the concatenated `files`, as stored on disk, compressed or not.
    pub(crate) input: String,
    /// The SHA-256 of the shard's file of results.
    pub(crate) output: String,
    /// The size of the shard's file of results in bytes.
    pub(crate) bytes: u64,
    /// The rounding and the checks of results. They must be the same for all shards, so that
    /// results do not depend on the machine.
    pub(crate) arithmetic: String,
    pub(crate) division: Division,
    /// The number of files of the whole corpus.
    pub(crate) inputs: u64,
    /// The files that the shard read, in order.
    pub(crate) files: Vec<MarkedFile>,
}

/// A file of inputs that a shard has read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkedFile {
    /// The position in the list of all files, from 0.
    pub(crate) index: u64,
    /// The name on the command line.
    pub(crate) name: String,
    /// The number of the file's first input in the corpus.
    pub(crate) first: u64,
    /// The number of inputs in the file, including inputs of other shards.
    pub(crate) lines: u64,
    /// The size in bytes.
    pub(crate) bytes: u64,
}

impl Mark {
    /// Reads the mark of a shard in a folder. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// If the mark cannot be read, is invalid or is inconsistent.
    pub(crate) fn read(dir: &Path, shard: u32) -> Result<Option<Self>, String> {
        // The name does not depend on the number of shards.
        let path = Shard { number: shard, of: u32::MAX }.mark(dir);
        let unreadable = |error: io::Error| format!("cannot read the mark: {error}");
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(format!("the mark has more than {MAX_BYTES} bytes"));
        }
        Self::parse(&text, shard).map(Some)
    }

    /// Parses a mark. Fails if it belongs to another shard.
    pub(crate) fn parse(text: &[u8], shard: u32) -> Result<Self, String> {
        let mark: Self = serde_json::from_slice(text)
            .map_err(|error| format!("not a valid shard mark: {error}"))?;
        if mark.shard != shard {
            return Err(format!("the mark belongs to shard {}", mark.shard));
        }
        match mark.is_consistent() {
            Some(true) => Ok(mark),
            _ => Err("the counts in the mark are inconsistent".into()),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("plain data becomes JSON");
        format!("{json}\n")
    }

    pub(crate) fn shard(&self) -> Shard {
        Shard { number: self.shard, of: self.of }
    }

    /// Returns the number of inputs of all files that the shard has read.
    pub(crate) fn inputs_read(&self) -> u64 {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// Returns true if the mark's counts do not contradict each other; `None` if a sum overflows.
    fn is_consistent(&self) -> Option<bool> {
        let shard = self.shard();
        let hex = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let hashes = [&self.model, &self.input, &self.output].into_iter().all(|text| hex(text));
        if !hashes || self.shard >= self.of || self.failed > self.lines {
            return Some(false);
        }
        let mut end = 0_u64;
        let mut sum = 0_u64;
        for file in &self.files {
            if file.first < end || file.index >= self.inputs {
                return Some(false);
            }
            end = file.first.checked_add(file.lines)?;
            sum += file.lines;
        }
        let indices = self.files.iter().map(|file| file.index);
        Some(match self.division {
            Division::Files => {
                let own = (u64::from(self.shard)..self.inputs).step_by(self.of as usize);
                self.lines == sum && self.inputs >= u64::from(self.of) && indices.eq(own)
            }
            Division::Lines => {
                let all = self.lines == shard.count_below(sum) && end == sum;
                all && self.inputs < u64::from(self.of) && indices.eq(0..self.inputs)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(index: u64, first: u64, lines: u64) -> MarkedFile {
        MarkedFile { index, name: format!("{index}.txt"), first, lines, bytes: 9 * lines }
    }

    fn mark(division: Division, lines: u64, inputs: u64, files: Vec<MarkedFile>) -> Mark {
        let hash = "0123456789abcdef".repeat(4);
        Mark {
            shard: 1,
            of: 3,
            lines,
            failed: 1,
            model: hash.clone(),
            input: hash.clone(),
            output: hash,
            bytes: 100,
            arithmetic: "fused".into(),
            division,
            inputs,
            files,
        }
    }

    fn good() -> [Mark; 2] {
        [
            mark(Division::Lines, 3, 2, vec![file(0, 0, 5), file(1, 5, 3)]),
            mark(Division::Files, 7, 5, vec![file(1, 4, 2), file(4, 20, 5)]),
        ]
    }

    #[test]
    fn marks_round_trip() {
        for mark in good() {
            assert_eq!(Mark::parse(mark.to_json().as_bytes(), 1).as_ref(), Ok(&mark));
            let other = Mark::parse(mark.to_json().as_bytes(), 2).unwrap_err();
            assert!(other.contains("shard 1"), "{other}");
        }
    }

    #[test]
    fn inconsistent_marks_are_errors() {
        type Change = fn(&mut Mark);
        let changes: [Change; 12] = [
            |mark| mark.of = 1,
            |mark| mark.of = 0,
            |mark| mark.of = 9,
            |mark| mark.lines += 1,
            |mark| mark.failed = mark.lines + 1,
            |mark| mark.model.clear(),
            |mark| mark.output.push('0'),
            |mark| mark.input = "g".repeat(64),
            |mark| mark.inputs = u64::MAX,
            |mark| drop(mark.files.pop()),
            |mark| mark.files[1].first = 0,
            |mark| mark.files[1].lines = u64::MAX,
        ];
        for mark in good() {
            for (index, change) in changes.iter().enumerate() {
                let mut bad = mark.clone();
                change(&mut bad);
                let got = Mark::parse(bad.to_json().as_bytes(), 1);
                assert!(got.is_err(), "{:?}, change {index}", mark.division);
            }
        }
    }

    proptest! {
        #[test]
        fn numbers_of_any_size_do_not_panic(
            numbers in prop::collection::vec(any::<u64>(), 8),
            which in 0..2,
        ) {
            let mut mark = good()[which as usize].clone();
            mark.of = numbers[0] as u32;
            (mark.lines, mark.failed, mark.inputs) = (numbers[1], numbers[2], numbers[3]);
            mark.files[0] = file(numbers[4], numbers[5], numbers[6] / 9);
            mark.files[1].lines = numbers[7];
            let _ = Mark::parse(mark.to_json().as_bytes(), 1);
        }
    }
}

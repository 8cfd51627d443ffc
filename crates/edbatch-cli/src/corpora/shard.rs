//! A shard of a corpus: the inputs that it takes, and the names of its files.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Shard `number` of `of`, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shard {
    pub(crate) number: u32,
    pub(crate) of: u32,
}

/// The division of a corpus into shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Division {
    /// Shard i of n takes the files i, i + n, i + 2n, ….
    Files,
    /// Shard i of n takes the inputs i, i + n, i + 2n, ….
    Lines,
}

impl Shard {
    /// Returns the division for this number of files. If every shard gets at least one file, shards
    /// take whole files, so that no file is read twice.
    pub(crate) fn division(self, files: usize) -> Division {
        if files as u64 >= u64::from(self.of) { Division::Files } else { Division::Lines }
    }

    /// Returns true if the shard takes the file or input with this number.
    pub(crate) fn takes(self, number: u64) -> bool {
        number % u64::from(self.of) == u64::from(self.number)
    }

    /// Returns the lowest number that the shard takes among those from `number` on.
    pub(crate) fn first_from(self, number: u64) -> u64 {
        let (own, of) = (u64::from(self.number), u64::from(self.of));
        number + (own + of - number % of) % of
    }

    /// Returns how many of the numbers below `end` the shard takes.
    pub(crate) fn count_below(self, end: u64) -> u64 {
        let (number, of) = (u64::from(self.number), u64::from(self.of));
        end / of + u64::from(end % of > number)
    }

    pub(crate) fn part(self, dir: &Path) -> PathBuf {
        dir.join(format!("part-{:05}.jsonl", self.number))
    }

    pub(crate) fn mark(self, dir: &Path) -> PathBuf {
        dir.join(format!("part-{:05}.done", self.number))
    }
}

/// Returns true for the names of the files of shards.
pub(crate) fn is_shard_file(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"part-")
}

/// Returns the shard number in the name of a mark file (`part-00000.done`), else `None`.
pub(crate) fn number_of_mark(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("part-")?.strip_suffix(".done")?;
    let number = digits.parse().ok()?;
    (format!("{number:05}") == digits).then_some(number)
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected I/N, shard I of N counted from 0, such as 3/64";
        let (number, of) = text.split_once('/').ok_or(expected)?;
        let read = |digits: &str| digits.parse::<u32>().map_err(|_| expected.to_string());
        let (number, of) = (read(number)?, read(of)?);
        if number >= of {
            return Err(format!("expected I below N: shards count from 0, got {number}/{of}"));
        }
        Ok(Self { number, of })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_0() {
        assert_eq!("3/64".parse(), Ok(Shard { number: 3, of: 64 }));
        for wrong in
            ["", "3", "3/", "/3", "64/64", "0/0", "-1/4", "1/4/9", "1.0/4", "1/99999999999"]
        {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_number_belongs_to_one_shard() {
        for (of, end) in [(1, 7), (3, 0), (3, 7), (8, 8), (9, 4)] {
            let shards = (0..of).map(|number| Shard { number, of });
            for number in 0..end {
                assert_eq!(shards.clone().filter(|shard| shard.takes(number)).count(), 1);
            }
            for shard in shards {
                let taken = (0..end).filter(|&number| shard.takes(number)).count() as u64;
                assert_eq!(shard.count_below(end), taken, "{shard} of {end}");
                let first = shard.first_from(end);
                assert!(shard.takes(first) && first >= end && first - end < of.into());
            }
        }
    }

    #[test]
    fn marks_are_recognised_by_name() {
        let shard = Shard { number: 123_456, of: 200_000 };
        for (name, expected) in [
            ("part-00003.done", Some(3)),
            ("part-123456.done", Some(shard.number)),
            ("part-3.done", None),
            ("part-000003.done", None),
            ("part-00003.jsonl", None),
            ("part-+0003.done", None),
        ] {
            assert_eq!(number_of_mark(name), expected, "{name}");
        }
        assert_eq!(shard.mark(Path::new("out")), Path::new("out/part-123456.done"));
    }
}

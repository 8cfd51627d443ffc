//! Reads consecutive-ones instances: `p c1p n m total`, then m restrictions `k a1 … ak` of leaves
//! from 0. Used by the example `c1p` and the fuzzer in `crates/edbatch/fuzz`.

use pqtree::PqTree;
use std::io::{BufRead, Read as _};

/// The number of bytes of a line that are read at once.
const PART: usize = 1 << 14;

/// An instance. Its restrictions are sets of leaves, stored one after another.
pub(crate) struct Instance {
    pub(crate) leaves: u32,
    pub(crate) elements: Vec<u32>,
    /// The end of each restriction in `elements`.
    pub(crate) ends: Vec<usize>,
}

impl Instance {
    pub(crate) fn restrictions(&self) -> impl Iterator<Item = &[u32]> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| &self.elements[std::mem::replace(&mut begin, end)..end])
    }
}

/// The lines of a file, read on demand.
pub(crate) struct Lines {
    text: Box<dyn BufRead>,
    line: String,
    /// The number of `line`, from 1.
    number: usize,
}

impl Lines {
    pub(crate) fn new(text: Box<dyn BufRead>) -> Self {
        Self { text, line: String::new(), number: 0 }
    }

    /// Returns the next instance, if there is one. Allocates for the data found, whatever the
    /// header says.
    pub(crate) fn instance(&mut self) -> Result<Option<Instance>, String> {
        if !self.next()? {
            return Ok(None);
        }
        let [leaves, restrictions, total] = self.header()?;
        if leaves > PqTree::MAX_LEAVES {
            let error = format!("expected at most {} leaves, got {leaves}", PqTree::MAX_LEAVES);
            return Err(self.error(&error));
        }
        let mut instance = Instance { leaves, elements: Vec::new(), ends: Vec::new() };
        for restriction in 0..restrictions {
            if !self.next()? {
                let found = format!("expected {restrictions} restrictions, got {restriction}");
                return Err(self.error(&found));
            }
            self.restriction(&mut instance)?;
        }
        let found = instance.elements.len();
        if found as u64 != u64::from(total) {
            return Err(self.error(&format!("expected {total} elements in all, got {found}")));
        }
        Ok(Some(instance))
    }

    fn header(&self) -> Result<[u32; 3], String> {
        let expected = || self.error(&format!("expected `p c1p n m total`, got {:?}", self.line));
        let fields = self.line.strip_prefix("p c1p").ok_or_else(expected)?;
        let fields: Vec<u32> = fields
            .split_ascii_whitespace()
            .map(|field| self.number(field))
            .collect::<Result<_, _>>()?;
        fields.try_into().map_err(|_| expected())
    }

    fn restriction(&self, instance: &mut Instance) -> Result<(), String> {
        let mut fields = self.line.split_ascii_whitespace();
        let count = self.number(fields.next().unwrap_or("0"))? as usize;
        let begin = instance.elements.len();
        for field in fields {
            let (leaf, leaves) = (self.number(field)?, instance.leaves);
            if leaf >= leaves {
                let error = format!("leaf {leaf} is out of range: expected less than {leaves}");
                return Err(self.error(&error));
            }
            self.reserve(&mut instance.elements, 1)?;
            instance.elements.push(leaf);
        }
        let found = instance.elements.len() - begin;
        if found != count {
            return Err(self.error(&format!("expected {count} leaves, got {found}")));
        }
        let mut sorted = Vec::new();
        self.reserve(&mut sorted, count)?;
        sorted.extend_from_slice(&instance.elements[begin..]);
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.error(&format!("leaf {} is repeated", twice[0])));
        }
        self.reserve(&mut instance.ends, 1)?;
        instance.ends.push(instance.elements.len());
        Ok(())
    }

    /// Makes room in a list. Fails if there is not enough memory.
    fn reserve<T>(&self, list: &mut Vec<T>, more: usize) -> Result<(), String> {
        list.try_reserve(more).map_err(|_| self.error("not enough memory to read the instance"))
    }

    fn number(&self, field: &str) -> Result<u32, String> {
        field
            .parse()
            .map_err(|_| self.error(&format!("expected a number below 2^32, got {field:?}")))
    }

    /// Moves to the next line that is not a comment and not empty. Returns false at the end.
    fn next(&mut self) -> Result<bool, String> {
        loop {
            self.number += 1;
            let mut line = std::mem::take(&mut self.line).into_bytes();
            line.clear();
            while line.last() != Some(&b'\n') {
                self.reserve(&mut line, PART)?;
                let read = self.text.by_ref().take(PART as u64).read_until(b'\n', &mut line);
                if read.map_err(|error| self.error(&error.to_string()))? == 0 {
                    break;
                }
            }
            self.line = String::from_utf8(line).map_err(|error| self.error(&error.to_string()))?;
            if self.line.is_empty() {
                return Ok(false);
            }
            if !self.line.starts_with('c') && !self.line.trim().is_empty() {
                self.line.truncate(self.line.trim_end().len());
                return Ok(true);
            }
        }
    }

    fn error(&self, what: &str) -> String {
        format!("line {}: {what}", self.number)
    }
}

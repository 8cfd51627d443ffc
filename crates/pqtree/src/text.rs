//! Trees as text, `(0 [1 2 (3 4)])`: round brackets around the children of a P-node, square ones
//! around a Q-node's.
//!
//! The text shows the tree as it is stored, from left to right; equal trees may have different
//! texts, of which
//! [`PqTree::canonical`] has a fixed one. The empty tree is `()`, the tree of one leaf `0`.

use crate::builder::Builder;
use crate::conflict::LeafError;
use crate::node::Kind;
use crate::tree::{PqTree, check_count};
use crate::walk::Event;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::str::FromStr;

impl fmt::Display for PqTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_text(f, |f, leaf| write!(f, "{leaf}"))
    }
}

impl fmt::Debug for PqTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PqTree({self})")
    }
}

impl PqTree {
    /// Writes the text, with the leaves as they are written by `write_leaf`.
    pub(crate) fn write_text(
        &self,
        f: &mut fmt::Formatter<'_>,
        mut write_leaf: impl FnMut(&mut fmt::Formatter<'_>, u32) -> fmt::Result,
    ) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("()");
        }
        let mut after_opening = true;
        for event in self.events() {
            if !after_opening && !matches!(event, Event::Close(_)) {
                f.write_char(' ')?;
            }
            after_opening = matches!(event, Event::Open(_));
            match event {
                Event::Leaf(leaf) => write_leaf(f, leaf)?,
                Event::Open(node) => {
                    f.write_char(if self.kind(node) == Kind::Q { '[' } else { '(' })?
                }
                Event::Close(node) => {
                    f.write_char(if self.kind(node) == Kind::Q { ']' } else { ')' })?
                }
            }
        }
        Ok(())
    }
}

/// Why a text is not a tree. Places are bytes from the beginning of the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// A character that is no digit, bracket or blank.
    Unexpected {
        /// The character.
        found: char,
        /// Its place.
        at: usize,
    },
    /// A bracket that closes no open one, or one of the other shape.
    Unmatched {
        /// Its place.
        at: usize,
    },
    /// The quote before a label, which is never closed.
    Unclosed {
        /// Its place.
        at: usize,
    },
    /// A bracket that is never closed, or more than one tree, or none.
    NotOneTree,
    /// A number that is too large for the count of leaves in the text, or there twice: a tree of n
    /// leaves has each of 0 to n − 1 once.
    Leaf {
        /// The number.
        leaf: u64,
        /// How many leaves the text has.
        leaves: u32,
    },
    /// A circular tree whose first number is not that of its last element.
    Hinge {
        /// How many elements the tree has then.
        elements: u32,
    },
    /// More leaves than a tree can have.
    TooMany {
        /// How many leaves the text has.
        leaves: u64,
    },
}

impl ParseError {
    /// The same of a text that has so many bytes more before it.
    pub(crate) fn after(mut self, bytes: usize) -> Self {
        if let Self::Unexpected { at, .. } | Self::Unmatched { at } | Self::Unclosed { at } =
            &mut self
        {
            *at += bytes;
        }
        self
    }
}

impl FromStr for PqTree {
    type Err = ParseError;

    /// Reads a tree. Brackets around a single child, and around none, are taken off.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(tokens(text)?)
    }
}

/// The tree that is written so.
pub(crate) fn read(tokens: Vec<Token>) -> Result<PqTree, ParseError> {
    let leaves = tokens.iter().filter(|token| matches!(token, Token::Leaf(_))).count() as u64;
    check_count(leaves).map_err(|_| ParseError::TooMany { leaves })?;
    let leaves = leaves as u32;
    let mut seen = alloc::vec![false; leaves as usize];
    let mut builder = Builder::new(leaves);
    let mut open = Vec::new();
    let mut complete = false;
    for token in tokens {
        if complete {
            return Err(ParseError::NotOneTree);
        }
        match token {
            Token::Open(kind) => {
                builder.open(kind);
                open.push(kind);
            }
            Token::Close(kind, at) => {
                if open.pop() != Some(kind) {
                    return Err(ParseError::Unmatched { at });
                }
                builder.close();
            }
            Token::Leaf(leaf) => {
                let error = ParseError::Leaf { leaf, leaves };
                let index = u32::try_from(leaf).map_err(|_| error)?;
                match seen.get_mut(index as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err(error),
                }
                builder.leaf(index);
            }
        }
        complete = open.is_empty();
    }
    if complete { Ok(PqTree::from_nodes(builder.finish())) } else { Err(ParseError::NotOneTree) }
}

/// A part of a text.
pub(crate) enum Token {
    Open(Kind),
    /// With its place in the text.
    Close(Kind, usize),
    Leaf(u64),
}

impl Token {
    /// What the character at a place is, if it is a bracket.
    pub(crate) fn bracket(found: char, at: usize) -> Option<Self> {
        Some(match found {
            '(' => Self::Open(Kind::P),
            '[' => Self::Open(Kind::Q),
            ')' => Self::Close(Kind::P, at),
            ']' => Self::Close(Kind::Q, at),
            _ => return None,
        })
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, ParseError> {
    let mut tokens = Vec::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, found)) = characters.next() {
        if let Some(bracket) = Token::bracket(found, at) {
            tokens.push(bracket);
            continue;
        }
        tokens.push(match found {
            '0'..='9' => {
                let mut leaf = u64::from(found) - u64::from('0');
                while let Some((_, digit)) = characters.next_if(|(_, next)| next.is_ascii_digit()) {
                    leaf =
                        leaf.saturating_mul(10).saturating_add(u64::from(digit) - u64::from('0'));
                }
                Token::Leaf(leaf)
            }
            found if found.is_whitespace() => continue,
            found => return Err(ParseError::Unexpected { found, at }),
        });
    }
    Ok(tokens)
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { found, at } => {
                write!(f, "byte {at}: expected a number, a bracket or a blank, got {found:?}")
            }
            Self::Unmatched { at } => {
                write!(f, "byte {at}: this bracket closes none that is open and of its shape")
            }
            Self::Unclosed { at } => write!(f, "byte {at}: the quote that begins here never ends"),
            Self::NotOneTree => f.write_str("expected one tree, with all its brackets closed"),
            Self::Hinge { elements } => {
                write!(f, "expected the last of {elements} elements, {}, first", elements - 1)
            }
            Self::TooMany { leaves } => LeafError::TooMany { leaves: *leaves }.fmt(f),
            Self::Leaf { leaf, leaves } => {
                write!(
                    f,
                    "leaf {leaf}: in a tree of {leaves} leaves, each number below {leaves} is there once"
                )
            }
        }
    }
}

impl core::error::Error for ParseError {}

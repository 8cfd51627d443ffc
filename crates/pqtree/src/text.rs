//! Trees as text, such as `(0 [1 2 (3 4)])`: round brackets for a P-node, square ones for a Q-node.
//!
//! The text shows the tree as it is stored, from left to right, so equal trees may have different
//! texts. The text of [`PqTree::canonical`] is unique. The empty tree is `()`, and the tree of one
//! leaf is `0`.

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
    /// Writes the text, with each leaf written by `write_leaf`.
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

/// The reason why a text is not a tree. Positions are byte offsets in the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// A character that is not a digit, a bracket or a blank.
    Unexpected {
        /// The character.
        found: char,
        /// The position.
        at: usize,
    },
    /// A closing bracket without an open one, or of the wrong shape.
    Unmatched {
        /// The position.
        at: usize,
    },
    /// A quote without a closing quote.
    Unclosed {
        /// The position of the opening quote.
        at: usize,
    },
    /// A bracket that is never closed, or a text with no tree or several.
    NotOneTree,
    /// A repeated leaf, or one that is too large. A tree of n leaves has each of 0 to n − 1 once.
    Leaf {
        /// The leaf.
        leaf: u64,
        /// The number of leaves in the text.
        leaves: u32,
    },
    /// A circular tree that does not start with its last element.
    Hinge {
        /// The number of elements in the text.
        elements: u32,
    },
    /// More leaves than a tree can have.
    TooMany {
        /// The number of leaves in the text.
        leaves: u64,
    },
}

impl ParseError {
    /// Adds `bytes` to the position, for a text that starts after that many other bytes.
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

    /// Parses a tree. Brackets around one child or none are dropped.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(tokens(text)?)
    }
}

/// Builds the tree of a sequence of tokens.
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

/// A token of a text.
pub(crate) enum Token {
    Open(Kind),
    /// A closing bracket and its position.
    Close(Kind, usize),
    Leaf(u64),
}

impl Token {
    /// Returns the token of a character if it is a bracket.
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
                write!(f, "byte {at}: this closing bracket matches no open bracket")
            }
            Self::Unclosed { at } => write!(f, "byte {at}: this quote is never closed"),
            Self::NotOneTree => f.write_str("expected one tree, with all its brackets closed"),
            Self::Hinge { elements } => {
                write!(f, "expected {}, the last of {elements} elements, first", elements - 1)
            }
            Self::TooMany { leaves } => LeafError::TooMany { leaves: *leaves }.fmt(f),
            Self::Leaf { leaf, leaves } => {
                write!(
                    f,
                    "leaf {leaf}: expected {leaves} leaves with each number below {leaves} once"
                )
            }
        }
    }
}

impl core::error::Error for ParseError {}

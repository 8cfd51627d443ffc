//! The parser of bracketed trees, binary and n-ary: a pushdown automaton.
//!
//! A line is split into `(`, `)` and text. Text ends only at an ASCII space or a bracket (tokens
//! may contain a no-break space). An open bracket pushes a [`Frame`] onto an explicit stack; a
//! closing bracket pops it and adds a node. *Cost.* One pass; the stack is as deep as the tree.

use crate::error::quoted;
use crate::tree::{Tree, TreeBuilder};

/// The number of children that a node may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    /// Two children or one token.
    Two,
    /// Any number of children, or one token, or nothing. The label may be missing if there is a
    /// child.
    Any,
}

/// A piece of a line: a bracket, or text between brackets and spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Open,
    Close,
    Text(&'a str),
}

/// A syntax error: what was expected, and what was found.
pub(crate) struct Mismatch {
    pub(crate) expected: &'static str,
    pub(crate) got: String,
}

/// A tree under construction.
pub(crate) struct Brackets {
    arity: Arity,
    open: Vec<Frame>,
    tree: TreeBuilder,
}

struct Frame {
    label: Option<String>,
    token: Option<String>,
    children: usize,
}

impl Brackets {
    pub(crate) fn new(arity: Arity) -> Self {
        Brackets { arity, open: Vec::new(), tree: TreeBuilder::new() }
    }

    /// Returns the number of open brackets.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Consumes the next piece. Returns the tree when its last bracket closes.
    pub(crate) fn take(&mut self, piece: Piece<'_>) -> Result<Option<Tree>, Mismatch> {
        let Some(frame) = self.open.last_mut() else {
            if piece != Piece::Open {
                return Err(mismatch("\"(\"", piece));
            }
            self.open.push(Frame::EMPTY);
            return Ok(None);
        };
        match piece {
            Piece::Open => frame.take_child(self.arity)?,
            Piece::Text(text) => return frame.take_text(text).map(|()| None),
            Piece::Close => {
                frame.check_complete(self.arity)?;
                return Ok(self.close());
            }
        }
        self.open.push(Frame::EMPTY);
        Ok(None)
    }

    fn close(&mut self) -> Option<Tree> {
        let frame = self.open.pop().expect("a bracket is open");
        self.tree.push(frame.label.unwrap_or_default(), frame.token, frame.children);
        self.open.is_empty().then(|| std::mem::take(&mut self.tree).finish())
    }
}

impl Frame {
    const EMPTY: Frame = Frame { label: None, token: None, children: 0 };

    fn take_child(&mut self, arity: Arity) -> Result<(), Mismatch> {
        if self.label.is_none() {
            if arity == Arity::Two {
                return Err(mismatch("a label", Piece::Open));
            }
            // The Penn Treebank wraps each sentence in a bracket without a label.
            self.label = Some(String::new());
        }
        if self.token.is_some() {
            return Err(mismatch("\")\" after a token", Piece::Open));
        }
        if arity == Arity::Two && self.children == 2 {
            return Err(mismatch("\")\" after two children", Piece::Open));
        }
        self.children += 1;
        Ok(())
    }

    fn take_text(&mut self, text: &str) -> Result<(), Mismatch> {
        if self.label.is_none() {
            self.label = Some(text.to_string());
        } else if self.token.is_some() {
            return Err(mismatch("\")\" after a token", Piece::Text(text)));
        } else if self.children > 0 {
            return Err(mismatch("\"(\" or \")\" after a child", Piece::Text(text)));
        } else {
            self.token = Some(text.to_string());
        }
        Ok(())
    }

    fn check_complete(&self, arity: Arity) -> Result<(), Mismatch> {
        if self.label.is_none() {
            return Err(mismatch("a label", Piece::Close));
        }
        match (arity, self.children) {
            (Arity::Two, 0) if self.token.is_none() => {
                Err(mismatch("a token or two children", Piece::Close))
            }
            (Arity::Two, 1) => Err(mismatch("a second child", Piece::Close)),
            _ => Ok(()),
        }
    }
}

/// Iterates over the pieces of `line` from byte `start`, each with its byte offset.
pub(crate) fn pieces(line: &str, start: usize) -> impl Iterator<Item = (usize, Piece<'_>)> {
    let bytes = line.as_bytes();
    let mut at = start;
    std::iter::from_fn(move || {
        while bytes.get(at) == Some(&b' ') {
            at += 1;
        }
        let begin = at;
        let piece = match bytes.get(at)? {
            b'(' => Piece::Open,
            b')' => Piece::Close,
            _ => {
                // ASCII bytes never occur inside a multi-byte character.
                let is_end = |b: &u8| matches!(b, b' ' | b'(' | b')');
                let end =
                    bytes[at..].iter().position(is_end).map_or(bytes.len(), |length| at + length);
                at = end - 1;
                Piece::Text(&line[begin..end])
            }
        };
        at += 1;
        Some((begin, piece))
    })
}

impl Piece<'_> {
    /// Returns the length in bytes.
    pub(crate) fn len(self) -> usize {
        match self {
            Piece::Open | Piece::Close => 1,
            Piece::Text(text) => text.len(),
        }
    }
}

pub(crate) fn mismatch(expected: &'static str, got: Piece<'_>) -> Mismatch {
    let got = match got {
        Piece::Open => quoted("("),
        Piece::Close => quoted(")"),
        Piece::Text(text) => quoted(text),
    };
    Mismatch { expected, got }
}

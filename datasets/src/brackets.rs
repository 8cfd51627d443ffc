//! The parser of bracketed trees, binary and n-ary: a pushdown automaton.
//!
//! A line is split into `(`, `)` and text. Text ends only at an ASCII space, a tab or a bracket
//! (tokens may contain a no-break space). An open bracket pushes a [`Frame`] onto an explicit
//! stack; a closing bracket pops it and adds a node. *Cost.* One pass; the stack is as deep as the
//! tree.

use crate::tree::{Tree, TreeBuilder};

/// The number of children that a node may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    /// Two children or one token.
    Two,
    /// Any number of children, or one token, or neither. The label may be missing if there is a
    /// child.
    Any,
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

    /// Consumes the next piece. Returns the tree when its last bracket closes. The error says what
    /// was expected instead of the piece.
    pub(crate) fn take(&mut self, piece: &str) -> Result<Option<Tree>, &'static str> {
        match (piece, self.open.last_mut()) {
            ("(", None) => {}
            (_, None) => return Err("\"(\""),
            ("(", Some(frame)) => frame.take_child(self.arity)?,
            (")", Some(frame)) => {
                frame.check_complete(self.arity)?;
                return Ok(self.close());
            }
            (text, Some(frame)) => return frame.take_text(text).map(|()| None),
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

    fn take_child(&mut self, arity: Arity) -> Result<(), &'static str> {
        if self.label.is_none() {
            if arity == Arity::Two {
                return Err("a label");
            }
            // The Penn Treebank wraps each sentence in a bracket without a label.
            self.label = Some(String::new());
        }
        if self.token.is_some() {
            return Err("\")\" after a token");
        }
        if arity == Arity::Two && self.children == 2 {
            return Err("\")\" after two children");
        }
        self.children += 1;
        Ok(())
    }

    fn take_text(&mut self, text: &str) -> Result<(), &'static str> {
        if self.label.is_none() {
            self.label = Some(text.to_string());
        } else if self.token.is_some() {
            return Err("\")\" after a token");
        } else if self.children > 0 {
            return Err("\"(\" or \")\" after a child");
        } else {
            self.token = Some(text.to_string());
        }
        Ok(())
    }

    fn check_complete(&self, arity: Arity) -> Result<(), &'static str> {
        match (arity, self.children) {
            _ if self.label.is_none() => Err("a label"),
            (Arity::Two, 0) if self.token.is_none() => Err("a token or two children"),
            (Arity::Two, 1) => Err("a second child (join a node that has one child with it)"),
            _ => Ok(()),
        }
    }
}

/// Iterates over the pieces of `line` from byte `start`, each with its byte offset: brackets, and
/// the text between brackets, spaces and tabs.
pub(crate) fn pieces(line: &str, start: usize) -> impl Iterator<Item = (usize, &str)> {
    let bytes = line.as_bytes();
    let mut at = start;
    std::iter::from_fn(move || {
        let begin = at + bytes[at..].iter().position(|b| !matches!(b, b' ' | b'\t'))?;
        // ASCII bytes never occur inside a multi-byte character.
        let is_end = |b: &u8| matches!(b, b' ' | b'\t' | b'(' | b')');
        let length = match bytes[begin] {
            b'(' | b')' => 1,
            _ => bytes[begin..].iter().position(is_end).unwrap_or(bytes.len() - begin),
        };
        at = begin + length;
        Some((begin, &line[begin..at]))
    })
}

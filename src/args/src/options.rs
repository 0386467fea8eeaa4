//! Iterator over the options of an argv, in every form that runc, crun and youki accept.
//!
//! Forms: `--name value`, `--name=value`, `-name value` and `-name=value` (Go), unambiguous
//! prefixes `--nam value` (argp), `-n value`, `-nvalue`, `-n=value`, and clusters `-dn value`.

use crate::flags::{Flag, Verbs, by_long, by_short};

/// Position of a value in argv: the argument that holds it, and the offset where it begins.
pub type ValuePosition = (usize, usize);

/// An element of argv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A flag of the table.
    Known {
        /// Long name.
        name: &'static str,
        /// Value of the flag; a switch may have a value too (`--detach=false`).
        value: Option<&'a [u8]>,
        /// Position of the value, or of the flag if it has no value.
        at: ValuePosition,
    },
    /// Index of an argument with a flag that the table lacks. Without `=`, the next argument may
    /// or may not be its value.
    Unknown(usize),
    /// Index of an argument that is not a flag.
    Word(usize),
    /// `--`: no flag follows.
    End,
}

/// Reads arguments by the flags of a verb.
#[derive(Debug)]
pub struct Options<'a> {
    arguments: &'a [&'a [u8]],
    verbs: Verbs,
    /// Index of the argument to read next.
    pub next: usize,
    /// Rest of a cluster of short flags: argument and offset.
    cluster: Option<(usize, usize)>,
    ended: bool,
}

impl<'a> Options<'a> {
    /// Starts to read `arguments` by the flags of `verbs`.
    pub fn new(arguments: &'a [&'a [u8]], verbs: Verbs) -> Self {
        Self { arguments, verbs, next: 0, cluster: None, ended: false }
    }

    /// Reads a long flag, whose name begins at offset `start`. Returns `None` if the table lacks
    /// it.
    fn long(&mut self, index: usize, start: usize) -> Option<Item<'a>> {
        let bytes = self.arguments[index];
        let body = &bytes[start..];
        let equals = body.iter().position(|b| *b == b'=');
        let typed = &body[..equals.unwrap_or(body.len())];
        let flag = by_long(self.verbs, typed, start == 2)?;
        self.next = index + 1;
        Some(match equals {
            Some(equals) => self.inline(flag, index, start + equals + 1),
            None => self.separate(flag, index),
        })
    }

    /// Reads the short flag at `offset`, alone or in a cluster.
    fn short(&mut self, index: usize, offset: usize) -> Item<'a> {
        let bytes = self.arguments[index];
        self.next = index + 1;
        self.cluster = None;
        let Some(flag) = by_short(self.verbs, bytes[offset]) else {
            return Item::Unknown(index);
        };
        match bytes.get(offset + 1) {
            None => self.separate(flag, index),
            Some(b'=') => self.inline(flag, index, offset + 2),
            Some(_) if flag.takes_value => self.inline(flag, index, offset + 1),
            Some(_) => {
                self.cluster = Some((index, offset + 1));
                Item::Known { name: flag.name, value: None, at: (index, 0) }
            }
        }
    }

    /// Returns a flag whose value is the rest of the same argument.
    fn inline(&self, flag: &Flag, index: usize, offset: usize) -> Item<'a> {
        let value = &self.arguments[index][offset..];
        Item::Known { name: flag.name, value: Some(value), at: (index, offset) }
    }

    /// Returns a flag whose value, if it takes one, is the next argument.
    fn separate(&mut self, flag: &Flag, index: usize) -> Item<'a> {
        let name = flag.name;
        match self.arguments.get(index + 1) {
            Some(value) if flag.takes_value => {
                self.next = index + 2;
                Item::Known { name, value: Some(value), at: (index + 1, 0) }
            }
            _ => Item::Known { name, value: None, at: (index, 0) },
        }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if let Some((index, offset)) = self.cluster {
            return Some(self.short(index, offset));
        }
        let index = self.next;
        let bytes = *self.arguments.get(index)?;
        self.next = index + 1;
        if self.ended || bytes.len() < 2 || bytes[0] != b'-' {
            return Some(Item::Word(index));
        }
        if bytes == b"--" {
            self.ended = true;
            return Some(Item::End);
        }
        if bytes[1] == b'-' {
            return Some(self.long(index, 2).unwrap_or(Item::Unknown(index)));
        }
        Some(match self.long(index, 1) {
            Some(item) => item,
            None => self.short(index, 1),
        })
    }
}

/// Whether a switch is on, by Go's rules for its value.
pub fn is_on(value: Option<&[u8]>) -> bool {
    !matches!(value, Some(b"0" | b"f" | b"F" | b"false" | b"False" | b"FALSE"))
}

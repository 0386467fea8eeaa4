//! [`Input`]: the bytes of a target, taken part by part. Nothing fails: behind the end there are
//! zeros and empty parts.

use std::borrow::Cow;

/// Ends a part. UTF-8 has no such byte, so that any text can be a part.
pub const END: u8 = 0xff;

/// What is left of an input.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of it.
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// A number: small ones are one byte, some at the edges of the integer types as well, any other
    /// takes nine.
    pub fn number(&mut self) -> i64 {
        match self.byte() {
            END => {
                let mut bytes = [0; 8];
                bytes.fill_with(|| self.byte());
                i64::from_le_bytes(bytes)
            }
            small @ ..EDGES_FROM => small.into(),
            edge => EDGES[usize::from(edge - EDGES_FROM)],
        }
    }

    /// The bytes up to [`END`].
    pub fn part(&mut self) -> &'a [u8] {
        let at = self.rest.iter().position(|b| *b == END).unwrap_or(self.rest.len());
        let (part, rest) = self.rest.split_at(at);
        self.rest = rest.get(1..).unwrap_or_default();
        part
    }

    /// The same as text.
    pub fn text(&mut self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.part())
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

/// Bytes from here on stand for numbers at the edges.
pub(crate) const EDGES_FROM: u8 = END - EDGES.len() as u8;

pub(crate) const EDGES: [i64; 12] = [
    -1,
    -2,
    i32::MIN as i64,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    u32::MAX as i64,
    u32::MAX as i64 + 1,
    i64::MIN,
    i64::MAX,
    1 << 20,
    1 << 30,
    1 << 53,
];

//! [`Input`]: the bytes of a target, taken part by part. No method fails: after the end of the
//! bytes, numbers are zero and parts are empty.

use std::borrow::Cow;

/// Byte that ends a part. UTF-8 does not contain this byte, so any text can be a part.
pub const END: u8 = 0xff;

/// The bytes of an input that are not taken yet.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Starts with all bytes of an input.
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Whether all bytes are taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes one byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// Takes a number. One byte stands for a number below [`EDGES_FROM`] or for one of [`EDGES`].
    /// Any other number has nine bytes, the first of which is [`END`].
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

    /// Takes the bytes up to [`END`].
    pub fn part(&mut self) -> &'a [u8] {
        let at = self.rest.iter().position(|b| *b == END).unwrap_or(self.rest.len());
        let (part, rest) = self.rest.split_at(at);
        self.rest = rest.get(1..).unwrap_or_default();
        part
    }

    /// Takes the bytes up to [`END`] as text.
    pub fn text(&mut self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.part())
    }

    /// Takes all bytes that are left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

/// First byte that stands for an entry of [`EDGES`].
pub(crate) const EDGES_FROM: u8 = END - EDGES.len() as u8;

/// Numbers at the limits of integer types, and large powers of two. One byte selects each of them,
/// so that mutations find these numbers often.
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

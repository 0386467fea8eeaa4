//! The encoding of protobuf messages: tags, variable-length numbers, and texts with their lengths.

/// Field numbers of key and value in an entry of a map.
pub(super) const KEY: u32 = 1;
pub(super) const VALUE: u32 = 2;

// Wire types: the lower three bits of a tag.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED_32: u8 = 5;

/// A value in an encoded message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A value of fixed length, which no field of the protocol has.
    Other,
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Takes the next field from the front of a message; `None` at its end, or if it is malformed.
pub(super) fn take<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let tag = number(rest)?;
    let value = match (tag & 7) as u8 {
        VARINT => Value::Number(number(rest)?),
        LENGTH => {
            let length = usize::try_from(number(rest)?).ok()?;
            Value::Bytes(split(rest, length)?)
        }
        FIXED_64 => split(rest, 8).map(|_| Value::Other)?,
        FIXED_32 => split(rest, 4).map(|_| Value::Other)?,
        _ => return None,
    };
    Some((u32::try_from(tag >> 3).ok()?, value))
}

/// Takes a variable-length number from the front; `None` if it is malformed.
pub(super) fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, others) = rest.split_first()?;
        *rest = others;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn split<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, others) = rest.split_at_checked(length)?;
    *rest = others;
    Some(first)
}

/// The values of one field.
pub(super) struct Values<'a> {
    rest: &'a [u8],
    number: u32,
}

impl<'a> Values<'a> {
    pub(super) fn of(message: &'a [u8], number: u32) -> Self {
        Self { rest: message, number }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        loop {
            let (number, value) = take(&mut self.rest)?;
            if number == self.number {
                return Some(value);
            }
        }
    }
}

/// Returns the text or message of a field: the last one, if there are several.
pub(super) fn last(message: &[u8], number: u32) -> Option<&[u8]> {
    Values::of(message, number).filter_map(Value::bytes).last()
}

/// Appends a number with its tag.
pub(super) fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    put(out, u64::from(field) << 3 | u64::from(VARINT));
    put(out, number);
}

/// Appends a tag and the length of what `content` appends, followed by that content.
pub(super) fn put_delimited<E>(
    out: &mut Vec<u8>,
    field: u32,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put(out, u64::from(field) << 3 | u64::from(LENGTH));
    let start = out.len();
    content(out)?;
    let length = out.len() - start;
    let mut prefix = Vec::with_capacity(2);
    put(&mut prefix, length as u64);
    out.splice(start..start, prefix);
    Ok(())
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

//! JSON, written piece by piece, into memory that needs no heap or any other place.

use crate::digest::hexadecimal_digit;

/// A place for text, as far as it fits there.
pub trait ByteSink {
    /// Appends bytes. Returns `None` if they do not fit.
    fn put(&mut self, bytes: &[u8]) -> Option<()>;
}

/// Memory that grows, for callers with a heap.
impl ByteSink for alloc::vec::Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.extend_from_slice(bytes);
        Some(())
    }
}

/// Memory of a fixed size.
#[derive(Debug)]
pub(crate) struct FixedBuffer<'a> {
    buffer: &'a mut [u8],
    pub(crate) length: usize,
}

impl<'a> FixedBuffer<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }
}

impl ByteSink for FixedBuffer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length.checked_add(bytes.len())?;
        self.buffer.get_mut(self.length..end)?.copy_from_slice(bytes);
        self.length = end;
        Some(())
    }
}

/// Appends a string, or an object with the bytes of a text that is not UTF-8, as `OsText` of
/// `nri-control` reads them.
pub(crate) fn text(sink: &mut impl ByteSink, text: &[u8]) -> Option<()> {
    if core::str::from_utf8(text).is_ok() {
        return string(sink, text);
    }
    for (index, byte) in text.iter().enumerate() {
        sink.put(if index == 0 { br#"{"bytes":["# } else { b"," })?;
        let digits = [b'0' + byte / 100, b'0' + byte / 10 % 10, b'0' + byte % 10];
        let zeros = digits.iter().take(2).take_while(|digit| **digit == b'0').count();
        sink.put(digits.get(zeros..)?)?;
    }
    sink.put(b"]}")
}

/// Appends a string that is UTF-8.
fn string(sink: &mut impl ByteSink, text: &[u8]) -> Option<()> {
    sink.put(b"\"")?;
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte < b' ' || b"\"\\".contains(byte)) {
        let (plain, special) = rest.split_at_checked(at)?;
        let (byte, after) = special.split_first()?;
        sink.put(plain)?;
        if *byte < b' ' {
            sink.put(br"\u00")?;
            sink.put(&[hexadecimal_digit(*byte >> 4), hexadecimal_digit(*byte)])?;
        } else {
            sink.put(&[b'\\', *byte])?;
        }
        rest = after;
    }
    sink.put(rest)?;
    sink.put(b"\"")
}

/// Appends a list of texts.
pub(crate) fn list<'t>(
    sink: &mut impl ByteSink,
    texts: impl Iterator<Item = &'t [u8]>,
) -> Option<()> {
    sink.put(b"[")?;
    for (index, one) in texts.enumerate() {
        if index > 0 {
            sink.put(b",")?;
        }
        text(sink, one)?;
    }
    sink.put(b"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(texts: &[&[u8]], size: usize) -> Option<String> {
        let mut buffer = vec![0; size];
        let mut sink = FixedBuffer::new(&mut buffer);
        list(&mut sink, texts.iter().copied())?;
        let length = sink.length;
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    }

    #[test]
    fn every_text_is_written_as_json() {
        let check = |texts: &[&[u8]], expected: Option<&str>| {
            assert_eq!(written(texts, 64).as_deref(), expected, "{texts:?}");
        };
        check(&[], Some("[]"));
        check(&[b"", b"a b"], Some(r#"["","a b"]"#));
        check(&[br#"\a"b\"#], Some(r#"["\\a\"b\\"]"#));
        check(&["\u{fc}\u{7f}".as_bytes()], Some("[\"\u{fc}\u{7f}\"]"));
        check(&[b"a\n\x1f"], Some(r#"["a\u000a\u001f"]"#));
        check(&[b"\x01\xff\x10d"], Some(r#"[{"bytes":[1,255,16,100]}]"#));
        check(&[&[b'x'; 61]], None);
        assert!(written(&[&[b'x'; 60]], 64).is_some());
    }
}

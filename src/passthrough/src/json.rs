//! JSON, written into memory that needs no heap.

/// A text in JSON, as far as it is written.
#[derive(Debug)]
pub(crate) struct JsonBuffer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> JsonBuffer<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    /// Appends bytes that are JSON. Returns `None` if they do not fit.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length.checked_add(bytes.len())?;
        self.buffer.get_mut(self.length..end)?.copy_from_slice(bytes);
        self.length = end;
        Some(())
    }

    /// Appends a string. Returns `None` if it does not fit, is not UTF-8, or has a control
    /// character.
    pub(crate) fn text(&mut self, text: &[u8]) -> Option<()> {
        core::str::from_utf8(text).ok()?;
        self.raw(b"\"")?;
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| *byte < b' ' || b"\"\\".contains(byte)) {
            let (plain, special) = rest.split_at_checked(at)?;
            let (byte, after) = special.split_first()?;
            if *byte < b' ' {
                return None;
            }
            self.raw(plain)?;
            self.raw(&[b'\\', *byte])?;
            rest = after;
        }
        self.raw(rest)?;
        self.raw(b"\"")
    }

    /// Appends a list of strings.
    pub(crate) fn list<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) -> Option<()> {
        self.raw(b"[")?;
        for (index, text) in texts.enumerate() {
            if index > 0 {
                self.raw(b",")?;
            }
            self.text(text)?;
        }
        self.raw(b"]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(texts: &[&[u8]], size: usize) -> Option<String> {
        let mut buffer = vec![0; size];
        let mut json = JsonBuffer::new(&mut buffer);
        json.list(texts.iter().copied())?;
        Some(String::from_utf8(json.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn strings_are_escaped_or_refused() {
        let check = |texts: &[&[u8]], expected: Option<&str>| {
            assert_eq!(written(texts, 64).as_deref(), expected, "{texts:?}");
        };
        check(&[], Some("[]"));
        check(&[b"", b"a b"], Some(r#"["","a b"]"#));
        check(&[br#"\a"b\"#], Some(r#"["\\a\"b\\"]"#));
        check(&["\u{fc}\u{7f}".as_bytes()], Some("[\"\u{fc}\u{7f}\"]"));
        check(&[b"a\nb"], None);
        check(&[b"\xff"], None);
        check(&[&[b'x'; 61]], None);
        assert!(written(&[&[b'x'; 60]], 64).is_some());
    }
}

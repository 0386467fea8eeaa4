//! A path of limited length, in memory that needs no heap.

use core::ffi::CStr;

/// Space for usual paths and their terminating NUL. A call with a longer path is decided after the
/// C library's start.
const USUAL: usize = 512;

/// A path as long as the kernel accepts it.
pub type LongPath = PathBuffer<4096>;

/// A path, built from parts.
#[derive(Debug)]
pub struct PathBuffer<const CAPACITY: usize = USUAL> {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl<const CAPACITY: usize> Default for PathBuffer<CAPACITY> {
    fn default() -> Self {
        Self { bytes: [0; CAPACITY], length: 0 }
    }
}

impl<const CAPACITY: usize> PathBuffer<CAPACITY> {
    /// Replaces the path by these parts, one after the other. Returns `None` if the parts are too
    /// long or contain a NUL.
    pub fn set(&mut self, parts: &[&[u8]]) -> Option<&CStr> {
        self.length = 0;
        for part in parts {
            let end = self.length.checked_add(part.len())?;
            if end >= CAPACITY || part.contains(&0) {
                return None;
            }
            self.bytes.get_mut(self.length..end)?.copy_from_slice(part);
            self.length = end;
        }
        *self.bytes.get_mut(self.length)? = 0;
        self.as_c_str()
    }

    /// Returns the path.
    pub fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.bytes.get(..=self.length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_too_long_or_has_a_nul_is_refused() {
        let mut path: PathBuffer = PathBuffer::default();
        assert_eq!(path.set(&[b"/usr/bin", b"/", b"runc"]), Some(c"/usr/bin/runc"));
        assert_eq!(path.set(&[b"/s"]), Some(c"/s"), "shorter than before");
        assert_eq!(path.set(&[b"/a\0b"]), None);
        assert!(path.set(&[&[b'x'; USUAL - 1]]).is_some());
        assert_eq!(path.set(&[&[b'x'; USUAL]]), None);
        assert_eq!(path.set(&[b"/", &[b'x'; USUAL - 1]]), None);
    }
}

//! Entry point of the program, called by the C library with pointers that Rust cannot check.
//!
//! This file does nothing else: [`crate::wrapper::run`] handles the call.
#![allow(unsafe_code)] // each block says why it is sound

/// `main` of the C library, see `main.rs`.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(
    argc: std::ffi::c_int,
    argv: *const *const std::ffi::c_char,
    envp: *const *const std::ffi::c_char,
) -> std::ffi::c_int {
    // SAFETY: the C library passes `argc` pointers to NUL-terminated strings and a NULL-terminated
    // array of such pointers, all valid as long as the process lives.
    let argv = unsafe { copy(argv, usize::try_from(argc).unwrap_or(0)) };
    // SAFETY: the C library passes a NULL-terminated array of pointers to NUL-terminated strings,
    // all valid as long as the process lives.
    let envp = unsafe { copy(envp, usize::MAX) };
    crate::wrapper::run(&crate::call::Call::new(argv, envp))
}

/// Copies the strings of an array that ends after `limit` pointers or at NULL, whichever is first.
///
/// # Safety
/// `array` is NULL, or points to `limit` valid pointers to NUL-terminated strings, or to fewer of
/// them and a NULL.
unsafe fn copy(array: *const *const std::ffi::c_char, limit: usize) -> Vec<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    let mut strings = Vec::new();
    if array.is_null() {
        return strings;
    }
    for i in 0..limit {
        // SAFETY: `i` is not beyond the end, which is `limit` or the NULL where this loop ends.
        let string = unsafe { *array.add(i) };
        if string.is_null() {
            break;
        }
        // SAFETY: the caller guarantees that `string` points to a NUL-terminated string.
        let bytes = unsafe { std::ffi::CStr::from_ptr(string) }.to_bytes().to_vec();
        strings.push(std::ffi::OsString::from_vec(bytes));
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::ffi::OsStrExt, ptr};

    #[test]
    fn strings_of_the_c_library_are_copied_up_to_null() {
        let array =
            [c"runc".as_ptr(), c"".as_ptr(), c"\xff=1".as_ptr(), ptr::null(), c"behind".as_ptr()];
        let strings = |array: &[_], limit| {
            // SAFETY: all pointers of `array` are to literals, and the copy ends at NULL or
            // `limit`.
            unsafe { copy(array.as_ptr(), limit) }
        };
        let bytes = |limit| -> Vec<Vec<u8>> {
            strings(&array, limit).iter().map(|string| string.as_bytes().to_vec()).collect()
        };
        assert_eq!(bytes(usize::MAX), [&b"runc"[..], b"", b"\xff=1"]);
        assert_eq!(bytes(2), [&b"runc"[..], b""]);
        assert!(bytes(0).is_empty());
        // SAFETY: `copy` does not read from NULL.
        let none = unsafe { copy(ptr::null(), 1) };
        assert!(none.is_empty(), "a NULL array has no strings");
    }
}

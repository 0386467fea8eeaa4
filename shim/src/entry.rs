//! `main` of the C library, which passes pointers that Rust cannot check.
#![allow(unsafe_code)] // each block says why it is sound

use std::ffi::{CStr, c_char};

/// `main` of the C library, see `main.rs`.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(
    _: std::ffi::c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> std::ffi::c_int {
    // SAFETY: the C library passes NULL-terminated arrays of pointers to NUL-terminated strings,
    // all valid, and not changed by anything, as long as the process lives.
    let (argv, envp) = unsafe { (strings(argv), strings(envp)) };
    crate::wrapper::run(&crate::call::Call::new(&argv, envp))
}

/// Returns the strings of an array that ends at NULL.
///
/// # Safety
/// `array` is NULL, or points to pointers to NUL-terminated strings and a NULL. The strings live,
/// and do not change, as long as the process.
unsafe fn strings(array: *const *const c_char) -> Vec<&'static CStr> {
    // Our allocator frees nothing: each growth of the vector would leave its earlier copy behind.
    let mut strings = Vec::with_capacity(64);
    let mut next = array;
    // SAFETY: `next` is in the array, since the loop ends at the NULL.
    while let Some(string) = unsafe { next.as_ref() }.filter(|string| !string.is_null()) {
        // SAFETY: the caller guarantees that `string` points to a NUL-terminated string.
        strings.push(unsafe { CStr::from_ptr(*string) });
        // SAFETY: this pointer is not the NULL, so another one follows.
        next = unsafe { next.add(1) };
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn strings_of_the_c_library_are_read_up_to_null() {
        let array =
            [c"runc".as_ptr(), c"".as_ptr(), c"\xff=1".as_ptr(), ptr::null(), c"behind".as_ptr()];
        // SAFETY: the pointers up to the NULL are to literals.
        let found = unsafe { strings(array.as_ptr()) };
        assert_eq!(found, [c"runc", c"", c"\xff=1"]);
        // SAFETY: nothing is read from NULL.
        let none = unsafe { strings(ptr::null()) };
        assert!(none.is_empty(), "a NULL array has no strings");
    }
}

//! Entry points of the program: the kernel calls `nri_entry` before the C library starts, and the C
//! library calls `main`. Both receive pointers that Rust cannot check.
//!
//! The start of the C library takes most of the time of a call that is passed through: it reads the
//! properties of the processor, which traps in a virtual machine. So [`early`] first lets
//! `nri-passthrough` decide whether the call is passed through, and if so, replaces the process.
//! Otherwise the C library starts as usual, and [`crate::wrapper::run`] handles the call.
//!
//! Before the C library's start there are no thread-local variables and no heap, and functions that
//! the C library has in variants for several processors cannot be called. `nri-passthrough` does
//! not use the C library. Compilers insert calls of `memcpy` and similar functions by themselves;
//! the linker replaces these functions of the C library, in the whole program, by the functions in
//! this file (`build.rs`).
#![allow(unsafe_code)] // each block says why it is sound

#[cfg(early_entry)]
mod early {
    use nri_passthrough::{BorrowedCall, Decision, PathBuffer, Sent, decide};
    use std::{
        ffi::{CStr, c_char},
        mem::ManuallyDrop,
        os::fd::{AsRawFd, FromRawFd, OwnedFd},
        sync::atomic::{AtomicI32, Ordering::Relaxed},
    };

    // The kernel jumps here, with argc, argv and the environment on the stack, and a value for the
    // C library's `_start` in rdx. `_start` must find the stack and rdx unchanged.
    std::arch::global_asm!(
        ".globl nri_entry",
        ".type nri_entry, @function",
        "nri_entry:",
        "xor ebp, ebp",
        "mov rbx, rsp",
        "mov r12, rdx",
        "mov rdi, rsp",
        "and rsp, -16",
        "call {early}",
        "mov rsp, rbx",
        "mov rdx, r12",
        "jmp _start",
        ".size nri_entry, . - nri_entry",
        early = sym early,
    );

    // The linker uses these in place of the functions without `__wrap_`. They are written to be
    // short rather than fast, since this program copies little.
    std::arch::global_asm!(
        ".globl __wrap_memcpy, __wrap_memmove, __wrap_memset, __wrap_memcmp, __wrap_bcmp",
        ".globl __wrap_strlen",
        "__wrap_memmove:",
        "mov rax, rdi",
        "sub rax, rsi",
        "cmp rax, rdx",
        "jae __wrap_memcpy",
        // The target begins inside of the source, so the copy begins at the end.
        "mov rax, rdi",
        "mov rcx, rdx",
        "lea rdi, [rdi + rdx - 1]",
        "lea rsi, [rsi + rdx - 1]",
        "std",
        "rep movsb",
        "cld",
        "ret",
        "__wrap_memcpy:",
        "mov rax, rdi",
        "mov rcx, rdx",
        "rep movsb",
        "ret",
        "__wrap_memset:",
        "mov r8, rdi",
        "mov eax, esi",
        "mov rcx, rdx",
        "rep stosb",
        "mov rax, r8",
        "ret",
        "__wrap_bcmp:",
        "__wrap_memcmp:",
        "xor eax, eax",
        "xor ecx, ecx",
        "2:",
        "cmp rcx, rdx",
        "je 3f",
        "movzx eax, byte ptr [rdi + rcx]",
        "movzx r8d, byte ptr [rsi + rcx]",
        "inc rcx",
        "sub eax, r8d",
        "je 2b",
        "3:",
        "ret",
        "__wrap_strlen:",
        "xor eax, eax",
        "2:",
        "cmp byte ptr [rdi + rax], 0",
        "je 3f",
        "inc rax",
        "jmp 2b",
        "3:",
        "ret",
    );

    /// Maximum number of arguments, more than engines pass. A call with more arguments is handled
    /// after the C library's start.
    const MAX_ARGUMENTS: usize = 64;

    /// Descriptors of a request that was sent: the connection to `nrid`, and the bundle. -1: none.
    static SENT: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

    /// Keeps the descriptors for [`take_sent`].
    fn keep(sent: Option<Sent>) {
        let Some(Sent { connection, bundle }) = sent else { return };
        let bundle = bundle.as_ref().map_or(-1, |bundle| bundle.as_raw_fd());
        for (place, fd) in SENT.iter().zip([connection.as_raw_fd(), bundle]) {
            place.store(fd, Relaxed);
        }
    }

    /// Returns the request of this call that was sent already, once.
    pub(super) fn take_sent() -> Option<Sent> {
        let [connection, bundle] = SENT.each_ref().map(|place| {
            let fd = place.swap(-1, Relaxed);
            // SAFETY: `early` opened the descriptor, and nothing else knows it.
            (fd >= 0).then(|| ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) }))
        });
        connection.map(|connection| Sent { connection, bundle })
    }

    /// Replaces this process by the real runtime if `nri-passthrough` decides so. Returns if the
    /// wrapper must decide, or if execve(2) fails: after the C library's start, the wrapper fails
    /// in the same way and reports the error.
    ///
    /// Only `nri_entry` calls this function, with the stack pointer of the kernel. There the kernel
    /// has stored argc, then argc pointers and a NULL, then the pointers of the environment and a
    /// NULL. All pointers are to NUL-terminated strings.
    extern "C" fn early(stack: *mut usize) {
        if cfg!(test) {
            return;
        }
        // SAFETY: argc is at this address.
        let argc = unsafe { *stack };
        if argc == 0 || argc > MAX_ARGUMENTS {
            return;
        }
        let mut strings: [&[u8]; MAX_ARGUMENTS] = [&[]; MAX_ARGUMENTS];
        // SAFETY: argv begins after argc, and the environment begins after the NULL of argv.
        let (argv, environment) = unsafe {
            let argv = stack.add(1).cast::<*const c_char>();
            (argv, argv.add(argc + 1))
        };
        for (index, string) in strings.iter_mut().enumerate().take(argc) {
            // SAFETY: argv has argc pointers to NUL-terminated strings, which nothing changes.
            *string = unsafe { CStr::from_ptr(*argv.add(index)) }.to_bytes();
        }
        let Some((name, arguments)) = strings.get(..argc).and_then(<[_]>::split_first) else {
            return;
        };
        let mut next = environment;
        let entries = std::iter::from_fn(move || {
            // SAFETY: `next` points to an entry or to the final NULL, and never moves past the
            // NULL.
            let entry = unsafe { *next };
            if entry.is_null() {
                return None;
            }
            // SAFETY: this entry is not the NULL, so another entry or the NULL follows.
            next = unsafe { next.add(1) };
            // SAFETY: an entry is a NUL-terminated string, which nothing changes.
            Some(unsafe { CStr::from_ptr(entry) }.to_bytes())
        });
        let mut path = PathBuffer::default();
        let call = BorrowedCall { name, arguments, environment: entries, close };
        let path = match decide(call, &mut path) {
            Decision::Runtime(path, sent) => {
                keep(sent);
                path
            }
            Decision::Later(sent) => {
                keep(sent);
                return;
            }
        };
        // SAFETY: argv belongs to this process, and nothing else uses its first pointer.
        let name = unsafe { argv.replace(path.as_ptr()) };
        // SAFETY: the kernel made the strings and arrays, except `path`, which is a NUL-terminated
        // string. On success, the call does not return.
        unsafe {
            system_call(EXECVE, [path.as_ptr() as usize, argv as usize, environment as usize])
        };
        // SAFETY: as for `replace`; `name` is the pointer that argv had before.
        unsafe { argv.write(name) };
    }

    /// Number of close(2).
    const CLOSE: usize = 3;
    /// Number of execve(2).
    const EXECVE: usize = 59;

    fn close(fd: i32) {
        // SAFETY: the caller owns the descriptor, and does not use it again.
        unsafe { system_call(CLOSE, [fd as usize, 0, 0]) };
    }

    /// Makes a system call whose result is not needed.
    ///
    /// # Safety
    /// The arguments must be valid for the system call.
    unsafe fn system_call(number: usize, arguments: [usize; 3]) {
        // SAFETY: the kernel changes the registers that are listed, and what the caller allows.
        unsafe {
            std::arch::asm!(
                "syscall",
                inlateout("rax") number => _,
                in("rdi") arguments[0],
                in("rsi") arguments[1],
                in("rdx") arguments[2],
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
    }
}

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
    #[cfg(early_entry)]
    let sent = early::take_sent();
    #[cfg(not(early_entry))]
    let sent = None;
    crate::wrapper::run(&crate::call::Call::new(argv, envp), sent)
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
        // SAFETY: `i` is below `limit`, and the loop ends at the NULL, so the pointer is in the
        // array.
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

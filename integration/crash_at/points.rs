//! Table of the system calls that change something outside of the process, and of the objects that
//! they change.
//!
//! Not included: calls that wake threads of the same program, writes to its log, and calls that
//! only affect its memory and descriptors.

use nix::{libc, unistd::Pid};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// Position of the changed object in the arguments of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    /// No object.
    Nothing,
    /// A file descriptor.
    Fd,
    /// A file descriptor, unless it is an eventfd or a log file.
    Written,
    /// A path, in this argument.
    Path(usize),
    /// A path, in this argument, if the flags in the next argument create the file.
    Created(usize),
    /// A new process (`clone`), unless the flags in the first argument create a thread.
    Process,
    /// A new process (`clone3`), unless the flags at the address in the first argument create a
    /// thread.
    Process3,
}

use Object::{Created, Fd, Nothing, Path, Process, Process3, Written};

/// Number and name of each system call that changes something, and the changed object.
const CALLS: &[(libc::c_long, &str, Object)] = &[
    (libc::SYS_openat, "openat", Created(1)),
    (libc::SYS_write, "write", Written),
    (libc::SYS_writev, "writev", Written),
    (libc::SYS_pwrite64, "pwrite", Written),
    (libc::SYS_sendto, "sendto", Fd),
    (libc::SYS_sendmsg, "sendmsg", Fd),
    (libc::SYS_connect, "connect", Fd),
    (libc::SYS_bind, "bind", Fd),
    (libc::SYS_listen, "listen", Fd),
    (libc::SYS_ftruncate, "ftruncate", Fd),
    (libc::SYS_fsync, "fsync", Fd),
    (libc::SYS_fdatasync, "fdatasync", Fd),
    (libc::SYS_fchmod, "fchmod", Fd),
    (libc::SYS_fchmodat, "fchmodat", Path(1)),
    (libc::SYS_fchown, "fchown", Fd),
    (libc::SYS_flock, "flock", Fd),
    (libc::SYS_renameat2, "renameat2", Path(1)),
    (libc::SYS_unlinkat, "unlinkat", Path(1)),
    (libc::SYS_mkdirat, "mkdirat", Path(1)),
    (libc::SYS_linkat, "linkat", Path(3)),
    (libc::SYS_symlinkat, "symlinkat", Path(2)),
    (libc::SYS_execve, "execve", Path(0)),
    (libc::SYS_execveat, "execveat", Path(1)),
    (libc::SYS_clone, "clone", Process),
    (libc::SYS_clone3, "clone3", Process3),
    (libc::SYS_kill, "kill", Nothing),
    (libc::SYS_pidfd_send_signal, "pidfd_send_signal", Nothing),
    (libc::SYS_setsid, "setsid", Nothing),
    (libc::SYS_setpgid, "setpgid", Nothing),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open", Created(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename", Path(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_renameat, "renameat", Path(1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink", Path(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, "rmdir", Path(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir", Path(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, "chmod", Path(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_fork, "fork", Nothing),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_vfork, "vfork", Nothing),
];

/// Whether the registers of this architecture are known.
pub(crate) const SUPPORTED: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Number and arguments of the system call that a stopped thread is about to make.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call(pid: Pid) -> nix::Result<(libc::c_long, [u64; 4])> {
    let regs = nix::sys::ptrace::getregs(pid)?;
    Ok((regs.orig_rax.cast_signed(), [regs.rdi, regs.rsi, regs.rdx, regs.r10]))
}

/// Number and arguments of the system call that a stopped thread is about to make.
#[cfg(target_arch = "aarch64")]
pub(crate) fn call(pid: Pid) -> nix::Result<(libc::c_long, [u64; 4])> {
    let regs = nix::sys::ptrace::getregs(pid)?.regs;
    Ok((regs[8].cast_signed(), [regs[0], regs[1], regs[2], regs[3]]))
}

/// Never called: [`SUPPORTED`] is checked first.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn call(_: Pid) -> nix::Result<(libc::c_long, [u64; 4])> {
    Err(nix::errno::Errno::ENOSYS)
}

/// Describes the change that a stopped thread is about to make; `None` if the system call changes
/// nothing outside of the process.
pub(crate) fn change(pid: Pid, number: libc::c_long, arguments: [u64; 4]) -> Option<String> {
    let (_, name, object) = CALLS.iter().find(|(n, ..)| *n == number)?;
    let changed = match *object {
        Nothing => String::new(),
        Fd => fd_target(pid, arguments[0]),
        Written => {
            let file = fd_target(pid, arguments[0]);
            if file.contains("[eventfd]") || file.ends_with(".log") {
                return None;
            }
            file
        }
        Path(n) => path_at(pid, arguments[n]),
        Created(n) => {
            let creates = arguments[n + 1] & libc::O_CREAT.cast_unsigned() as u64 != 0;
            let path = path_at(pid, arguments[n]);
            if !creates || path.ends_with(".log") {
                return None;
            }
            path
        }
        Process => new_process(arguments[0])?,
        Process3 => {
            let mut flags = [0; 8];
            memory(pid)?.read_exact_at(&mut flags, arguments[0]).ok()?;
            new_process(u64::from_ne_bytes(flags))?
        }
    };
    Some(format!("{name} {changed}"))
}

/// Describes a `clone`; `None` if it creates a thread.
fn new_process(flags: u64) -> Option<String> {
    (flags & libc::CLONE_THREAD.cast_unsigned() as u64 == 0).then(String::new)
}

/// File of a descriptor, as the kernel names it.
fn fd_target(pid: Pid, fd: u64) -> String {
    let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// Memory of a stopped process.
fn memory(pid: Pid) -> Option<File> {
    File::open(format!("/proc/{pid}/mem")).ok()
}

/// Path at an address of a process. 512 bytes suffice to recognize a path in the log.
fn path_at(pid: Pid, address: u64) -> String {
    let mut bytes = [0; 512];
    // The read is short if the next page is not mapped.
    let n = memory(pid).and_then(|file| file.read_at(&mut bytes, address).ok()).unwrap_or(0);
    let end = bytes[..n].iter().position(|b| *b == 0).unwrap_or(n);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

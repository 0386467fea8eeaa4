//! System calls without a safe wrapper in a library. All `unsafe` of the crate is here.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Sets close-on-exec on every descriptor from `first` on.
///
/// # Errors
/// The kernel is older than 5.11, and `/proc` cannot be read.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC the call only sets a flag; no descriptor is closed or
    // changes its meaning.
    let rc = unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
    if rc == 0 { Ok(()) } else { close_on_exec_each(first) }
}

/// As [`close_on_exec_from`], for kernels before Linux 5.11, which lack the call or its flag.
fn close_on_exec_each(first: u32) -> io::Result<()> {
    // Collected before the loop, so that the descriptor of the directory itself is closed by then.
    let open: Vec<_> = std::fs::read_dir("/proc/self/fd")?.collect::<io::Result<_>>()?;
    let numbers = open.iter().filter_map(|fd| fd.file_name().to_str()?.parse::<u32>().ok());
    for number in numbers.filter(|number| *number >= first).filter_map(|n| i32::try_from(n).ok()) {
        // SAFETY: the call sets a flag of a descriptor, or fails if the descriptor is not open.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Takes ownership of a descriptor inherited from the parent, and makes it close-on-exec. Call only
/// at the start of the process, once for each number.
///
/// # Errors
/// The descriptor is not open.
pub(crate) fn take_descriptor(number: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the call sets a flag of a descriptor, or fails if the descriptor is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, since fcntl succeeded, and has no other owner: this process
    // has not opened a descriptor yet, and each number is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Removes variables from the environment. Call only at the start of the process.
pub(crate) fn remove_variables(names: &[&str]) {
    for name in names {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::remove_var(name) };
    }
}

/// Registers a descriptor for waiting until it is readable.
///
/// # Errors
/// The kernel cannot wait for this kind of descriptor.
pub(crate) fn wait_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd returns the same open descriptor for as long as it lives, and AsyncFd owns
    // it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(Into::into)
}

/// Allows this process, which has one thread, all CPUs that its cpuset allows.
///
/// # Errors
/// The system call is blocked.
pub(crate) fn allow_all_cpus() -> io::Result<()> {
    // As many CPUs as a kernel can have; the kernel ignores those that do not exist.
    const MAX_CPUS: usize = 8192;
    let mask = [u64::MAX; MAX_CPUS / 64];
    // SAFETY: the kernel reads the stated number of bytes of the array, which outlives the call.
    checked(unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) }.into())
}

/// Sets the default scheduling policy.
///
/// # Errors
/// The process may not leave its policy.
pub(crate) fn use_default_scheduler() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one struct, which lives during the call.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) }.into())
}

/// Sets the default I/O priority, which follows the CPU priority.
///
/// # Errors
/// The system call is blocked.
pub(crate) fn use_default_io_priority() -> io::Result<()> {
    const WHO_PROCESS: libc::c_long = 1;
    // SAFETY: all arguments are numbers.
    checked(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, 0) })
}

/// Allows memory of all NUMA nodes that the cpuset allows.
///
/// # Errors
/// The system call is blocked.
pub(crate) fn use_default_memory_policy() -> io::Result<()> {
    // SAFETY: the policy is MPOL_DEFAULT, for which the kernel reads no nodes.
    let set = checked(unsafe { libc::syscall(libc::SYS_set_mempolicy, 0, 0, 0) });
    // A kernel without NUMA has no policies.
    set.or_else(|e| if e.raw_os_error() == Some(libc::ENOSYS) { Ok(()) } else { Err(e) })
}

/// Allows transparent huge pages.
///
/// # Errors
/// The system call is blocked.
pub(crate) fn allow_huge_pages() -> io::Result<()> {
    // SAFETY: all arguments are numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0) }.into())
}

/// Sets the default execution domain, as for a program that was not started by setarch(8).
///
/// # Errors
/// The process may not change it.
pub(crate) fn use_default_personality() -> io::Result<()> {
    const QUERY: libc::c_ulong = 0xffff_ffff;
    // SAFETY: the argument is a number, which only queries the execution domain.
    if unsafe { libc::personality(QUERY) } == 0 {
        return Ok(());
    }
    // SAFETY: the argument is a number; flags of address space layouts apply to later programs.
    checked(unsafe { libc::personality(0) }.into())
}

/// Resets all ignored signals to their default actions, except SIGPIPE, which Rust programs
/// ignore, and handles SIGXFSZ: a write beyond the limit of the size of files is an error and not
/// the end of the process. Programs that this one starts have the default action again, since an
/// exec removes handlers. Call only at the start of the process.
pub(crate) fn reset_signal_actions() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let is_ignored = |signal| {
        // SAFETY: a struct of numbers and null pointers is valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the call only writes the present action into the struct.
        let rc = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        rc == 0 && action.sa_sigaction == libc::SIG_IGN
    };
    for signal in (1..=libc::SIGRTMAX()).filter(|s| *s != libc::SIGPIPE && is_ignored(*s)) {
        // SAFETY: no other thread runs yet, and the default action calls no code.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t) };
}

/// Converts the result of a system call that returns -1 on failure.
fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Registers `function`, which the child of `command` calls before it executes the program.
/// `function` must only make system calls: it may neither allocate memory nor take a lock, because
/// the other threads of this process do not exist in the child.
pub(crate) fn before_exec(
    command: &mut tokio::process::Command,
    function: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the callers' functions only make system calls, as required above.
    unsafe { command.pre_exec(function) };
}

/// First version of the kernel's `struct pidfd_info` (include/uapi/linux/pidfd.h).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// Mask bit that requests [`PidfdInfo::exit_code`].
const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// Request number `_IOWR(0xFF, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::Ioctl =
    (3 << 30) | ((size_of::<PidfdInfo>() as libc::Ioctl) << 16) | (0xFF << 8) | 11;

/// Returns the wait status of a reaped process, `None` before it is reaped.
///
/// # Errors
/// The kernel does not support the request.
pub(crate) fn pidfd_exit_status(pidfd: &OwnedFd) -> io::Result<Option<i32>> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the argument is a valid, exclusively borrowed struct of the size that the request
    // number states; a kernel that does not know the request fails without touching it.
    let rc = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::os::fd::AsFd;

    /// Whether the kernel reports the status: 6.15 or later.
    fn kernel_reports_status() -> bool {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(15))
    }

    #[test]
    fn descriptors_are_close_on_exec_on_old_kernels_too() {
        use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};
        // Above the descriptors of tests that run at the same time.
        const FIRST: u32 = 500;
        let low = std::fs::File::open("/dev/null").unwrap();
        let high = fcntl_dupfd_cloexec(&low, FIRST as i32).unwrap();
        for function in [close_on_exec_from, close_on_exec_each] {
            for fd in [low.as_fd(), high.as_fd()] {
                fcntl_setfd(fd, FdFlags::empty()).unwrap();
            }
            function(FIRST).unwrap();
            assert_eq!(fcntl_getfd(&low).unwrap(), FdFlags::empty());
            assert_eq!(fcntl_getfd(&high).unwrap(), FdFlags::CLOEXEC);
        }
    }

    #[test]
    fn a_reaped_process_has_its_wait_status() {
        for (script, status) in
            [("read x; exit 3", 3 << 8), ("read x; exit 0", 0), ("read x; kill -9 $$", 9)]
        {
            let mut command = std::process::Command::new("sh");
            let mut child =
                command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().unwrap();
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
            let reported = || pidfd_exit_status(&pidfd).ok().flatten();
            assert_eq!(reported(), None, "{script}: has a status before the exit");
            // `wait` closes the child's stdin, which ends the script.
            child.wait().unwrap();
            assert_eq!(reported(), kernel_reports_status().then_some(status), "{script}");
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(pidfd_exit_status(&file.into()).is_err(), "/dev/null has an exit status");
    }
}

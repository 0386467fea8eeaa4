//! `before-6-15 COMMAND...`: runs a command as on Linux before 6.13, where a pidfd does not report
//! the exit code of a reaped process (6.15 reports it). The request is refused by a seccomp filter,
//! which all processes that the command starts inherit. Needs CAP_SYS_ADMIN.
#![allow(unsafe_code)]

use std::{
    io::Error,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

/// Set for the command, whose tests expect other exit codes than on the real kernel.
const VARIABLE: &str = "NRI_BEFORE_6_15";

/// Type and number of `PIDFD_GET_INFO`; the other bits of the request are a size and a direction.
const PIDFD_GET_INFO: u32 = 0xFF << 8 | 11;

/// Offsets in the kernel's `struct seccomp_data`, on machines with the low half of a number first.
const CALL: u32 = 0;
const SECOND_ARGUMENT: u32 = 24;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("before-6-15: no command");
        return ExitCode::FAILURE;
    };
    let error = match refuse_pidfd_info() {
        Ok(()) => Command::new(&program).args(words).env(VARIABLE, "1").exec(),
        Err(error) => error,
    };
    eprintln!("before-6-15: {}: {error}", program.display());
    ExitCode::FAILURE
}

/// Lets `PIDFD_GET_INFO` fail with ENOTTY, in this process and its descendants.
fn refuse_pidfd_info() -> Result<(), Error> {
    let statement = |code: u32, k: u32| jump(code, k, 0, 0);
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, CALL),
        jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_ioctl as u32, 0, 4),
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, SECOND_ARGUMENT),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xffff),
        jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, PIDFD_GET_INFO, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOTTY as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program =
        libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_mut_ptr() };
    let (set, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
    // SAFETY: the kernel copies the program and its statements, which live during the call.
    let rc = unsafe { libc::prctl(set, mode, &raw const program) };
    if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn jump(code: u32, k: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: if_true, jf: if_false, k }
}

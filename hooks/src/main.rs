//! `nri-oci-hook --socket PATH --record KEY [--patience SECONDS] createRuntime|poststart|poststop`:
//! reports to `nrid` the events of a container that the wrapper cannot report, such as the events
//! during `run`. `--patience` is the time limit of the reply to `createRuntime`.
//!
//! `nrid` writes this command line into the `config.json` of a container. The low-level runtime
//! runs it with the OCI state on stdin and an environment that cannot be relied upon.
//! `createRuntime` fails the creation if `nrid` refuses or does not run, also with the key
//! `unreachable = "pass"`: a plugin has adjusted the container, which would start without events
//! and without enforcement. `poststart` and `poststop` exit with 0 even if the report fails.
//!
//! Start from [`args::Args`] and [`report`].

mod args;
mod error;

use args::Args;
use error::Error;
use nri_control::{
    Client, ClientError, FrameError, Hook, HookKind, Reply, Request, answers, encode,
    touch_as_child,
};
use nri_locate::{BreakGlass, Environment, break_glass};
use nri_values::printable;
use std::{
    io::{self, Read, Write},
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

/// Size limit of the OCI state in bytes. The state contains the annotations of the container, which
/// may be large.
const STATE_LIMIT: u64 = 4 << 20;
/// Time limit of the reply if the command line has none. `nrid` has its own limit for each plugin.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of the reply to `poststart` and `poststop`: nrid completes these events even if the
/// hook no longer waits.
const POST_REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that the hook `createRuntime` waits until an nrid accepts connections: systemd or a wrapper
/// may be starting one. The other hooks do not wait, since their failure does not fail the
/// container.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Limit of attempts to send the request: an nrid may exit before it replies, and so may the next.
const ATTEMPTS: u32 = 3;
/// Longest time without a sign of life from nrid. The time is short, since a `delete` waits for the
/// `poststop` hook.
const SILENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    if touch_as_child() {
        return ExitCode::SUCCESS;
    }
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(e) => return fail(&e, ExitCode::FAILURE),
    };
    match report(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if is_required(args.kind) && !is_bypassed() => fail(&e, ExitCode::FAILURE),
        Err(e) => fail(&e, ExitCode::SUCCESS),
    }
}

/// Whether a failure of the hook must keep the container from starting.
fn is_required(kind: HookKind) -> bool {
    kind == HookKind::CreateRuntime
}

/// Whether the operator has switched NRI off (break-glass), by the file or by the environment
/// variable. The hook has the environment that `config.json` sets for it, else the runtime's.
fn is_bypassed() -> bool {
    matches!(break_glass(&Environment::of_this_process(), answers), BreakGlass::On(_))
}

/// Reports the event to `nrid`.
fn report(args: &Args) -> Result<(), Error> {
    let mut state = String::new();
    io::stdin().lock().take(STATE_LIMIT + 1).read_to_string(&mut state).map_err(Error::State)?;
    if state.len() as u64 > STATE_LIMIT {
        return Err(Error::StateTooLarge(STATE_LIMIT));
    }
    // stdin is read first: a runtime may die of SIGPIPE if its hook does not read.
    if is_bypassed() {
        return Ok(());
    }
    let hook = Hook { kind: args.kind, record: args.record.clone(), state };
    let request = encode(&Request::Hook(Box::new(hook))).map_err(ClientError::from)?;
    let mut attempts_left = ATTEMPTS;
    loop {
        attempts_left -= 1;
        let mut client = connect(args)?;
        let timeout = match args.timeout {
            _ if !is_required(args.kind) => POST_REPLY_TIMEOUT,
            Some(seconds) => Duration::from_secs(seconds),
            None => REPLY_TIMEOUT,
        };
        client.set_timeouts(timeout, SILENCE)?;
        match client.first_call(&request, &[]) {
            Ok(Reply::Done) => return Ok(()),
            Ok(Reply::Refused { message }) => return Err(Error::Refused(message)),
            Ok(_) => return Err(Error::Reply),
            // nrid has exited or is being replaced. The next nrid reads from the container's record
            // which events plugins have received, so that the request can be repeated.
            Err(ClientError::Frame(FrameError::Closed | FrameError::Io(_)))
                if attempts_left > 0 => {}
            Err(e) => return Err(Error::Nrid(e)),
        }
    }
}

/// Connects to nrid. The hook `createRuntime` waits for the next nrid, which systemd or a wrapper
/// may be starting. A hook does not start nrid: nrid would be a child of the runtime, and crun
/// exits only after its last child.
fn connect(args: &Args) -> Result<Client, ClientError> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match Client::connect(&args.socket) {
            Err(ClientError::Connect(_)) if is_required(args.kind) && Instant::now() < deadline => {
                sleep(CONNECT_PAUSE)
            }
            connected => return connected,
        }
    }
}

/// Writes the error to stderr, which runtimes report, and returns the exit code.
fn fail(e: &Error, code: ExitCode) -> ExitCode {
    let _ = writeln!(io::stderr(), "nri-oci-hook: {}", printable(e.to_string().trim_end()));
    code
}

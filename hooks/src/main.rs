//! `nri-oci-hook --socket PATH --record KEY [--patience SECONDS] createRuntime|poststart|poststop`:
//! tells `nrid` what happens inside the life of a container where the wrapper is not, as inside
//! `run`.
//!
//! `nrid` writes this call into the document of a container. The low-level runtime makes it, with
//! the OCI state on stdin and no environment that one could rely on. Decides nothing:
//! `createRuntime` fails the creation if `nrid` says so or is gone, since the container would start
//! without what was promised to it; the later two never fail anything.
//!
//! Start from [`args::Args`] and [`report`].

mod args;
mod error;

use args::Args;
use error::Error;
use nri_control::{Client, ClientError, FrameError, Hook, HookKind, Reply, Request, printable};
use nri_locate::{BreakGlass, Environment, break_glass};
use std::{
    io::{self, Read, Write},
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

/// Largest state, in bytes: it holds the container's annotations.
const LARGEST_STATE: u64 = 4 << 20;
/// How long `nrid` may take where it did not say; it bounds each plugin by itself.
const ANSWER: Duration = Duration::from_secs(60);
/// The same where the container does not depend on it: nrid goes on by itself then.
const AFTERWARDS: Duration = Duration::from_secs(30);
/// How long there may be none.
const ABSENCE: Duration = Duration::from_secs(3);
/// And how long it waits before it looks again.
const PAUSE: Duration = Duration::from_millis(20);
/// How often it is asked: it may end meanwhile, and once more.
const ATTEMPTS: u32 = 3;
/// How long it may give no sign of life. A `delete` waits for us.
const SILENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(e) => return say(&e, ExitCode::FAILURE),
    };
    match report(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if may_fail(args.kind) && !is_bypassed() => say(&e, ExitCode::FAILURE),
        Err(e) => say(&e, ExitCode::SUCCESS),
    }
}

/// Whether the container is better not started.
fn may_fail(kind: HookKind) -> bool {
    kind == HookKind::CreateRuntime
}

/// Whether NRI is out of service, for a container whose `config.json` still names this hook. The
/// environment is that of the hook in `config.json`, or of the runtime.
fn is_bypassed() -> bool {
    matches!(break_glass(&Environment::of_this_process()), BreakGlass::On)
}

/// Tells `nrid`.
fn report(args: &Args) -> Result<(), Error> {
    let mut state = String::new();
    io::stdin().lock().take(LARGEST_STATE + 1).read_to_string(&mut state).map_err(Error::State)?;
    if state.len() as u64 > LARGEST_STATE {
        return Err(Error::StateTooLarge(LARGEST_STATE));
    }
    // Not before: a runtime whose hook does not read may die of that.
    if is_bypassed() {
        return Ok(());
    }
    let hook = Hook { kind: args.kind, record: args.record.clone(), state };
    let request = Request::Hook(Box::new(hook));
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        let mut client = connect(args)?;
        let answer = args.patience.map_or(ANSWER, Duration::from_secs);
        client.set_patience(if may_fail(args.kind) { answer } else { AFTERWARDS }, SILENCE)?;
        match client.first_call(&request, &[]) {
            Ok(Reply::Done) => return Ok(()),
            Ok(Reply::Refused { message }) => return Err(Error::Refused(message)),
            Ok(_) => return Err(Error::Answer),
            // It ended, or is being replaced: the next one knows the container and what it has told
            // of it.
            Err(ClientError::Frame(FrameError::Closed | FrameError::Io(_))) if left > 0 => {}
            Err(e) => return Err(Error::Nrid(e)),
        }
    }
}

/// Connects. Where a container depends on it, one that has just ended is waited for: systemd or a
/// wrapper may be starting the next one. A hook itself starts none: it would be a child of the
/// runtime, which may not end before all its children have.
fn connect(args: &Args) -> Result<Client, ClientError> {
    let deadline = Instant::now() + ABSENCE;
    loop {
        match Client::connect(&args.socket) {
            Err(ClientError::Connect(_)) if may_fail(args.kind) && Instant::now() < deadline => {
                sleep(PAUSE)
            }
            connected => return connected,
        }
    }
}

/// A hook that fails is reported by its stderr.
fn say(e: &Error, code: ExitCode) -> ExitCode {
    let _ = writeln!(io::stderr(), "nri-oci-hook: {}", printable(e.to_string().trim_end()));
    code
}

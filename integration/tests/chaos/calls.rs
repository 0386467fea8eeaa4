//! Calls of the wrapper, some of which are disturbed by SIGKILL, SIGTERM or a temporary SIGSTOP.
//! Every failed call must print an error.

use super::{rng::Rng, run::Run};
use nri_integration::message_defect;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time after which a call is reported as hanging: longer than all configured timeouts together.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Result of a call.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
    /// Whether the call got SIGKILL or SIGTERM, so that its effect is unknown.
    pub(super) interrupted: bool,
}

impl Outcome {
    pub(super) fn is_ok(&self) -> bool {
        self.code == Some(0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Term,
    Stop,
}

/// Calls the wrapper, and disturbs `percent` of the calls.
pub(super) fn call(run: &Run, rng: &mut Rng, percent: u64, arguments: &[&str]) -> Outcome {
    let fault = rng.percent(percent).then(|| match rng.within(0..10) {
        0..5 => Fault::Kill,
        5..7 => Fault::Term,
        _ => Fault::Stop,
    });
    // Most calls take some tens of milliseconds.
    let (delay, stop_time) = (rng.millis(1..120), rng.millis(20..400));
    let [out, err] = files(run);
    let mut command = run.node.wrapper();
    command.args(arguments).stdin(Stdio::null());
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let begin = Instant::now();
    let mut child = command.spawn().expect("the wrapper can be run");
    let pid = Pid::from_child(&child);
    let mut fault = fault.map(|fault| (fault, begin + delay));
    let mut resume_at: Option<Instant> = None;
    let (mut interrupted, mut hung) = (false, false);
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait for the wrapper") {
            break status;
        }
        let now = Instant::now();
        if let Some((what, _)) = fault.take_if(|(_, when)| now >= *when) {
            // The child has not been reaped, so its process id is still valid.
            let signal = match what {
                Fault::Kill => Signal::KILL,
                Fault::Term => Signal::TERM,
                Fault::Stop => Signal::STOP,
            };
            run.note(format!("{what:?} the wrapper of {}", arguments.join(" ")));
            run.count(match what {
                Fault::Stop => "wrappers stopped",
                _ => "wrappers killed",
            });
            let _ = kill_process(pid, signal);
            interrupted |= what != Fault::Stop;
            resume_at = (what == Fault::Stop).then(|| now + stop_time);
        }
        if resume_at.take_if(|when| now >= *when).is_some() {
            let _ = kill_process(pid, Signal::CONT);
        }
        if now > begin + CALL_TIMEOUT && !hung {
            hung = true;
            run.wrong(format!("{} takes longer than {CALL_TIMEOUT:?}", arguments.join(" ")));
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(2));
    };
    run.count("calls");
    let outcome = Outcome { code: status.code(), out: text(&out), err: text(&err), interrupted };
    for file in [out, err] {
        let _ = fs::remove_file(file);
    }
    let result = match (outcome.code, interrupted) {
        (Some(0), _) => "succeeded".to_owned(),
        (_, true) => format!("interrupted: {}", outcome.err.trim_end()),
        (code, _) => format!("failed with {code:?}: {}", outcome.err.trim_end()),
    };
    run.note(format!("{} ({:.0?}) {result}", arguments.join(" "), begin.elapsed()));
    if !outcome.is_ok() && !interrupted && !hung {
        run.count("calls that failed");
        if let Some(why) = message_defect(&outcome.err) {
            run.wrong(format!(
                "{} failed with {:?}, {why}: {:?}",
                arguments.join(" "),
                outcome.code,
                outcome.err
            ));
        }
    }
    outcome
}

fn files(run: &Run) -> [PathBuf; 2] {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let n = CALLS.fetch_add(1, Ordering::Relaxed);
    ["out", "err"].map(|end| run.node.path("calls").join(format!("{n}.{end}")))
}

fn text(file: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

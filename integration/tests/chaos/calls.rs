//! Calls of the wrapper. Some of the called wrappers get SIGKILL, SIGTERM or, temporarily, SIGSTOP.
//! A call that fails must print an error, unless its wrapper got SIGKILL or SIGTERM.

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

/// Time after which a call is reported as hanging: longer than the sum of all configured timeouts,
/// so that a call that waits for each of them is not reported.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Result of a call.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
    /// Whether the wrapper got SIGKILL or SIGTERM, so that the effect of the call is unknown.
    pub(super) interrupted: bool,
}

impl Outcome {
    pub(super) fn is_ok(&self) -> bool {
        self.code == Some(0)
    }
}

/// Signal that the called wrapper gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Term,
    /// SIGSTOP, followed by SIGCONT.
    Stop,
}

/// Calls the wrapper. `percent` is the probability that the wrapper gets a signal of [`Fault`].
pub(super) fn call(run: &Run, rng: &mut Rng, percent: u64, arguments: &[&str]) -> Outcome {
    let fault = rng.percent(percent).then(|| match rng.within(0..10) {
        0..5 => Fault::Kill,
        5..7 => Fault::Term,
        _ => Fault::Stop,
    });
    // Most calls take some tens of milliseconds, so most signals arrive during the call.
    let (delay, stop_time) = (rng.millis(1..120), rng.millis(20..400));
    let [out, err] = output_files(run);
    let mut command = run.node.wrapper();
    command.args(arguments).stdin(Stdio::null());
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let begin = Instant::now();
    let mut child = command.spawn().expect("the wrapper can be run");
    let pid = Pid::from_child(&child);
    let mut fault = fault.map(|fault| (fault, begin + delay));
    let mut resume_at: Option<Instant> = None;
    let (mut interrupted, mut is_hanging) = (false, false);
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait for the wrapper") {
            break status;
        }
        let now = Instant::now();
        if let Some((fault, _)) = fault.take_if(|(_, time)| now >= *time) {
            // The child has not been reaped, so its process id is still valid.
            let signal = match fault {
                Fault::Kill => Signal::KILL,
                Fault::Term => Signal::TERM,
                Fault::Stop => Signal::STOP,
            };
            run.note(format!("{fault:?} the wrapper of {}", arguments.join(" ")));
            run.count(match fault {
                Fault::Stop => "wrappers stopped",
                _ => "wrappers killed",
            });
            let _ = kill_process(pid, signal);
            interrupted |= fault != Fault::Stop;
            resume_at = (fault == Fault::Stop).then(|| now + stop_time);
        }
        if resume_at.take_if(|time| now >= *time).is_some() {
            let _ = kill_process(pid, Signal::CONT);
        }
        if now > begin + CALL_TIMEOUT && !is_hanging {
            is_hanging = true;
            run.report_defect(format!(
                "{} takes longer than {CALL_TIMEOUT:?}",
                arguments.join(" ")
            ));
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(2));
    };
    run.count("calls");
    let outcome =
        Outcome { code: status.code(), out: read_lossy(&out), err: read_lossy(&err), interrupted };
    for file in [out, err] {
        let _ = fs::remove_file(file);
    }
    let result = match (outcome.code, interrupted) {
        (Some(0), _) => "succeeded".to_owned(),
        (_, true) => format!("interrupted: {}", outcome.err.trim_end()),
        (code, _) => format!("failed with {code:?}: {}", outcome.err.trim_end()),
    };
    run.note(format!("{} ({:.0?}) {result}", arguments.join(" "), begin.elapsed()));
    if !outcome.is_ok() && !interrupted && !is_hanging {
        run.count("calls that failed");
        if let Some(defect) = message_defect(&outcome.err) {
            run.report_defect(format!(
                "{} failed with {:?} and the message {:?}: {defect}",
                arguments.join(" "),
                outcome.code,
                outcome.err
            ));
        }
    }
    outcome
}

/// Returns new paths for stdout and stderr of a call.
fn output_files(run: &Run) -> [PathBuf; 2] {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let n = CALLS.fetch_add(1, Ordering::Relaxed);
    ["out", "err"].map(|end| run.node.path("calls").join(format!("{n}.{end}")))
}

fn read_lossy(file: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

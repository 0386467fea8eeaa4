//! Calls of the wrapper, some of which are disturbed: killed, ended, or stopped for a while.
//! Whatever happens, a failure has to be told.

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

/// Longer than any of the timeouts that are configured takes to be felt.
const LONGEST: Duration = Duration::from_secs(60);

/// What came of a call.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
    /// It was killed or got SIGTERM: what it did is not known.
    pub(super) cut_short: bool,
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
    let (when, how_long) = (rng.millis(1..120), rng.millis(20..400));
    let [out, err] = files(run);
    let mut command = run.node.wrapper();
    command.args(arguments).stdin(Stdio::null());
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let begin = Instant::now();
    let mut child = command.spawn().expect("the wrapper can be run");
    let pid = Pid::from_child(&child);
    let mut fault = fault.map(|fault| (fault, begin + when));
    let mut going_on: Option<Instant> = None;
    let (mut cut_short, mut hung) = (false, false);
    let status = loop {
        if let Some(status) = child.try_wait().expect("our child") {
            break status;
        }
        let now = Instant::now();
        if let Some((what, _)) = fault.take_if(|(_, when)| now >= *when) {
            // Our child has not been waited for: the id is still its.
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
            cut_short |= what != Fault::Stop;
            going_on = (what == Fault::Stop).then(|| now + how_long);
        }
        if going_on.take_if(|when| now >= *when).is_some() {
            let _ = kill_process(pid, Signal::CONT);
        }
        if now > begin + LONGEST && !hung {
            hung = true;
            run.wrong(format!("{} takes longer than {LONGEST:?}", arguments.join(" ")));
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(2));
    };
    run.count("calls");
    let outcome = Outcome { code: status.code(), out: text(&out), err: text(&err), cut_short };
    for file in [out, err] {
        let _ = fs::remove_file(file);
    }
    let verdict = match (outcome.code, cut_short) {
        (Some(0), _) => "made".to_owned(),
        (_, true) => format!("cut short: {}", outcome.err.trim_end()),
        (code, _) => format!("failed with {code:?}: {}", outcome.err.trim_end()),
    };
    run.note(format!("{} ({:.0?}) {verdict}", arguments.join(" "), begin.elapsed()));
    if !outcome.is_ok() && !cut_short && !hung {
        run.count("calls that failed");
        if let Some(why) = message_defect(&outcome.err) {
            run.wrong(format!(
                "{} failed with {:?} and {why}: {:?}",
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

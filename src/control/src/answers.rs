//! Whether the file system of a file answers, found out by a child of this program. The wrapper,
//! whose options are those of the runtime, has a child of its own.

use crate::exit::exits_within;
use nri_locate::{ANSWER_TIMEOUT, touch};
use rustix::process::Pid;
use std::{
    ffi::OsStr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// First argument of the child; the second is the file.
const ARGUMENT: &str = "--touch";

/// Whether a child of this program, whose `main` begins with [`touch_as_child`], can access a file
/// in time. If no child can be started or watched, `true`: the file is accessed then.
pub fn answers(path: &Path) -> bool {
    let mut command = Command::new("/proc/self/exe");
    command.arg(ARGUMENT).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(child) = command.spawn() else { return true };
    ends(child, ANSWER_TIMEOUT)
}

fn ends(mut child: Child, limit: Duration) -> bool {
    let exits = exits_within(Pid::from_child(&child), limit);
    if let Ok(true) = exits {
        let _ = child.wait();
    } else {
        // It ends when the file system answers, and is then reaped.
        let _ = child.kill();
        thread::spawn(move || child.wait());
    }
    exits.unwrap_or(true)
}

/// Accesses the file if this process is the child of [`answers`]; returns whether it is.
pub fn touch_as_child() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let is_child = arguments.next().is_some_and(|first| first == OsStr::new(ARGUMENT));
    if let Some(path) = arguments.next().filter(|_| is_child) {
        touch(Path::new(&path));
    }
    is_child
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_does_not_end_is_killed_after_the_limit() {
        let sleep = |time: &str| Command::new("sleep").arg(time).spawn().unwrap();
        assert!(ends(sleep("0"), Duration::from_secs(60)));
        let hangs = sleep("1000");
        let pid = Pid::from_child(&hangs);
        assert!(!ends(hangs, Duration::from_millis(50)));
        while rustix::process::test_kill_process(pid).is_ok() {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

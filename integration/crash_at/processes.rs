//! Maps each traced thread to the process that is killed at a change of the thread.

use crate::arguments::Arguments;
use nix::unistd::Pid;
use std::{collections::HashMap, fs, path::PathBuf};

/// The traced threads, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Process to kill for a thread: the process that executed the program, even if the thread is
    /// in a forked copy of this process. `None` for a thread of another program.
    victims: HashMap<Pid, Option<Pid>>,
}

impl Threads {
    /// Classifies a new thread, or one that has just executed a program; returns the process to
    /// kill.
    pub(crate) fn classify(
        &mut self,
        arguments: &Arguments,
        pid: Pid,
        executed: bool,
    ) -> Option<Pid> {
        if let (Some(known), false) = (self.victims.get(&pid), executed) {
            return *known;
        }
        let (tgid, parent) = (status_id(pid, "Tgid:").unwrap_or(pid), status_id(pid, "PPid:"));
        let victim = is_counted(arguments, tgid).then(|| {
            // A forked copy that has not executed a program yet belongs to the process it was
            // forked from.
            let origin = if tgid == pid { parent } else { Some(tgid) };
            let inherited = origin
                .filter(|_| !executed)
                .and_then(|origin| self.victims.get(&origin).copied().flatten());
            inherited.unwrap_or(tgid)
        });
        self.victims.insert(pid, victim);
        victim
    }

    /// Process to kill for a thread; `None` if the thread belongs to another program.
    pub(crate) fn victim(&self, pid: Pid) -> Option<Pid> {
        self.victims.get(&pid).copied().flatten()
    }

    /// Removes a thread that has ended.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.victims.remove(&pid);
    }
}

/// Process id in a line of `/proc/PID/status`.
fn status_id(pid: Pid, key: &str) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().parse().ok().map(Pid::from_raw)
}

fn program(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

fn arguments_of(pid: Pid) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|b| *b == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

/// Whether changes of a process are counted.
fn is_counted(arguments: &Arguments, pid: Pid) -> bool {
    let has_argument = |except: &String| arguments_of(pid).contains(except);
    program(pid).as_ref() == Some(&arguments.program)
        && !arguments.except.as_ref().is_some_and(has_argument)
}

/// Returns the processes of a program that have a text in their command line.
pub(crate) fn find(path: &PathBuf, text: &str) -> Vec<Pid> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw));
    pids.filter(|pid| {
        program(*pid).as_ref() == Some(path) && arguments_of(*pid).join(" ").contains(text)
    })
    .collect()
}

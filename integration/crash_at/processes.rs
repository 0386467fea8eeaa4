//! Whose a thread is: which process of the program it belongs to.

use crate::arguments::Arguments;
use nix::unistd::Pid;
use std::{collections::HashMap, fs, path::PathBuf};

/// What is known of the threads that are traced, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// The process that is to be killed: the one that executed the program, of which others are
    /// copies; none: not of the program.
    victims: HashMap<Pid, Option<Pid>>,
}

impl Threads {
    /// Looks at a thread that is seen first, or that has executed a program.
    pub(crate) fn look(&mut self, arguments: &Arguments, pid: Pid, executed: bool) -> Option<Pid> {
        if let (Some(known), false) = (self.victims.get(&pid), executed) {
            return *known;
        }
        let (tgid, parent) = (status(pid, "Tgid:").unwrap_or(pid), status(pid, "PPid:"));
        let victim = is_counted(arguments, tgid).then(|| {
            // A copy of a process that has not executed anything yet is still that process's work.
            let whose = if tgid == pid { parent } else { Some(tgid) };
            let inherited = whose
                .filter(|_| !executed)
                .and_then(|whose| self.victims.get(&whose).copied().flatten());
            inherited.unwrap_or(tgid)
        });
        self.victims.insert(pid, victim);
        victim
    }

    /// The process that a thread works for, if it is one of the program.
    pub(crate) fn victim(&self, pid: Pid) -> Option<Pid> {
        self.victims.get(&pid).copied().flatten()
    }

    pub(crate) fn forget(&mut self, pid: Pid) {
        self.victims.remove(&pid);
    }
}

fn status(pid: Pid, key: &str) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().parse().ok().map(Pid::from_raw)
}

fn program(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

fn words(pid: Pid) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn is_counted(arguments: &Arguments, pid: Pid) -> bool {
    let excepted = |except: &String| words(pid).contains(except);
    program(pid).as_ref() == Some(&arguments.program)
        && !arguments.except.as_ref().is_some_and(excepted)
}

/// The processes of a program whose command line holds a text.
pub(crate) fn of(name: &PathBuf, mark: &str) -> Vec<Pid> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw));
    pids.filter(|pid| program(*pid).as_ref() == Some(name) && words(*pid).join(" ").contains(mark))
        .collect()
}

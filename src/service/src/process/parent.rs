//! The parent of `nrid`, if it is Podman's conmon.
//!
//! An `nrid` that a wrapper has started becomes a child of the nearest subreaper among the
//! ancestors of the wrapper. In `podman run` this is conmon, which calls `create`. conmon does not
//! exit before all its children have, so it would remain as long as `nrid`, and a `podman run` that
//! waits for it would hang. A process cannot change its parent. But Podman itself calls `start`
//! soon after `create`: `nrid` then ends without a reply, and the wrapper, which is no descendant
//! of conmon, starts the next `nrid` and asks that one.

use crate::host::process;
use nri_control::{Request, Verb};
use std::{
    os::unix::process::parent_id,
    sync::atomic::{AtomicU32, Ordering},
};

/// Name of conmon in `/proc/PID/stat`.
const CONMON: &str = "conmon";

/// Process 1, which is never conmon.
const INIT: u32 = 1;

/// More ancestors than a call of an engine has; a limit in case that `/proc` changes meanwhile.
const MAX_ANCESTORS: usize = 64;

/// The parent of this process.
#[derive(Debug, Default)]
pub struct Parent {
    /// A parent that is not conmon, so that it is looked up once.
    other: AtomicU32,
}

impl Parent {
    /// Whether conmon waits for this process, and the sender of this request can start the next
    /// `nrid`, which conmon would not wait for.
    pub fn gives_way(&self, request: &Request, sender: Option<i32>) -> bool {
        let Request::Begin(begin) = request else { return false };
        begin.verb == Verb::Start && self.is_conmon() && sender.is_some_and(is_outside_of_conmon)
    }

    fn is_conmon(&self) -> bool {
        let parent = parent_id();
        if parent == INIT || parent == self.other.load(Ordering::Relaxed) {
            return false;
        }
        let found = i32::try_from(parent).ok().and_then(process::name_and_parent);
        let is_conmon = found.is_some_and(|(name, _)| name == CONMON);
        if !is_conmon {
            self.other.store(parent, Ordering::Relaxed);
        }
        is_conmon
    }
}

/// Whether no ancestor of this process is conmon; `false` if an ancestor is unknown.
fn is_outside_of_conmon(pid: i32) -> bool {
    let mut pid = pid;
    for _ in 0..MAX_ANCESTORS {
        match process::name_and_parent(pid) {
            Some((name, _)) if name == CONMON => return false,
            // The parent of process 1 is 0, as is a parent outside of the pid namespace.
            Some((_, 0)) => return true,
            Some((_, parent)) => pid = parent,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        os::unix::fs::symlink,
        process::{Command, Stdio},
    };

    #[test]
    fn descendants_of_conmon_are_recognized() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_outside_of_conmon(own));
        assert!(!is_outside_of_conmon(i32::MAX), "a process that does not exist");
        let dir = tempfile::tempdir().unwrap();
        let conmon = dir.path().join(CONMON);
        symlink("/bin/sh", &conmon).unwrap();
        let mut conmon = Command::new(&conmon)
            .args(["-c", "sh -c 'echo $$; read line'; true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(conmon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let child: i32 = line.trim().parse().unwrap();
        assert_eq!(
            process::name_and_parent(child),
            Some(("sh".into(), i32::try_from(conmon.id()).unwrap()))
        );
        assert!(!is_outside_of_conmon(child));
        drop(conmon.stdin.take());
        conmon.wait().unwrap();
    }
}

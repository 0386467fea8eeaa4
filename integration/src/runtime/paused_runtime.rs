//! Runtime that pauses in the middle of a verb, so that a test can kill a program at that moment.

use crate::{Node, Runtime, wait_until, write_program};
use std::{fs, path::PathBuf};

/// A script that calls the node's real runtime, and pauses until [`PausedRuntime::resume`].
#[derive(Debug)]
pub struct PausedRuntime {
    /// The script as a runtime.
    pub runtime: Runtime,
    paused: PathBuf,
    resumed: PathBuf,
}

impl PausedRuntime {
    /// Writes a script that pauses before `create` and after `update`.
    pub fn new(node: &Node) -> Self {
        let cases = r#"create) pause ;;
            update) "$real" "$@"; code=$?; pause; exit $code ;;"#;
        Self::with_cases(node, cases)
    }

    /// Writes a script with these `case` clauses for the runtime's arguments: `$real` is the real
    /// runtime, `pause` waits for [`PausedRuntime::resume`].
    pub fn with_cases(node: &Node, cases: &str) -> Self {
        let name = node.runtime().name;
        // `nrid` follows calls of runtimes with these names.
        let path = node.path(&format!("pausing-{name}"));
        let [paused, resumed] = ["paused", "resumed"].map(|file| node.path(file));
        let text = format!(
            r#"#!/bin/sh
real='{real}'
pause() {{ : > '{paused}'; while [ ! -e '{resumed}' ]; do sleep 0.02; done; }}
for argument in "$@"; do
  case $argument in
    {cases}
  esac
done
exec "$real" "$@"
"#,
            real = node.runtime().path.display(),
            paused = paused.display(),
            resumed = resumed.display(),
        );
        write_program(&path, &text);
        Self { runtime: Runtime { name, path }, paused, resumed }
    }

    /// Waits until a call pauses.
    pub fn wait_for_pause(&self) {
        wait_until("a paused runtime", || self.paused.exists().then_some(()));
    }

    /// Resumes the paused call; later calls do not pause.
    ///
    /// # Panics
    /// The node's directory cannot be written.
    pub fn resume(&self) {
        fs::write(&self.resumed, "").expect("the test directory is writable");
    }
}

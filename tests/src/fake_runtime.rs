//! Puts a fake low-level runtime somewhere, tells it what to do, and reads how it was called.
//!
//! The program itself is `src/bin/fake_runtime.rs`. It is not a runtime: no namespace, no cgroup,
//! no OCI config is read. A script is an object of verbs (`"*"`: any other), each with an object of
//! what to do, in this order:
//!
//! | key | value | |
//! |---|---|---|
//! | `stdin` | true | reads all of stdin and notes it |
//! | `process_document` | true | reads the file of `--process` and notes it |
//! | `catch` | true | blocks all signals, and notes those that come while it waits |
//! | `process` | true | starts a process that runs until it is killed; writes `--pid-file` |
//! | `pid_file` | text | writes that to `--pid-file` |
//! | `exec` | `{"argv": [..], "env": [..]}` | becomes another program, with any environment |
//! | `until` | path | waits until that file exists |
//! | `end_process` | true | kills the process of the container that is named in argv |
//! | `stdout`, `stderr` | text | writes it |
//! | `signal` | number | sends itself that signal |
//! | `exit` | number | the exit code, 0 if not given |

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// An installed fake runtime.
#[derive(Debug, Clone)]
pub struct FakeRuntime {
    /// Where it is.
    pub path: PathBuf,
}

/// How long a test waits for something before it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl FakeRuntime {
    /// Puts it at `dir/name`, as a symbolic link.
    ///
    /// # Errors
    /// The file system's.
    pub fn install(dir: &Path, name: &str) -> std::io::Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join(name);
        std::os::unix::fs::symlink(program("fake_runtime"), &path)?;
        Ok(Self { path })
    }

    /// What to do from now on.
    ///
    /// # Errors
    /// The file system's.
    pub fn script(&self, script: &Value) -> std::io::Result<()> {
        // By rename, so that a call never reads half of it.
        let new = self.named(".script.new");
        fs::write(&new, script.to_string())?;
        fs::rename(new, self.named(".script.json"))
    }

    /// Everything it noted so far: a `call` with `argv`, `own` and perhaps `stdin`, or a `signal`
    /// with `code` and `sender`.
    pub fn notes(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.named(".calls.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The calls among the notes.
    pub fn calls(&self) -> Vec<Value> {
        self.notes().into_iter().filter(|n| n.get("argv").is_some()).collect()
    }

    /// Waits until its notes satisfy `condition`, and returns them.
    ///
    /// # Panics
    /// They do not in time.
    #[allow(clippy::panic)] // only tests call this
    pub fn wait(&self, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let notes = self.notes();
            if condition(&notes) {
                return notes;
            }
            if Instant::now() > deadline {
                panic!("{what}: not noted by {}: {notes:#?}", self.path.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Forgets all notes.
    pub fn forget(&self) {
        let _ = fs::remove_file(self.named(".calls.jsonl"));
    }

    fn named(&self, end: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(end);
        path.into()
    }
}

/// A program of this workspace, in the target directory of the running test.
///
/// # Panics
/// It has not been built.
#[allow(clippy::panic)] // only tests call this
pub fn program(name: &str) -> PathBuf {
    let dir = std::env::current_exe().ok().and_then(|exe| {
        let deps = exe.parent()?;
        Some(if deps.ends_with("deps") { deps.parent()? } else { deps }.to_owned())
    });
    let path = dir.unwrap_or_default().join(name);
    if !path.is_file() {
        panic!("{} is missing: run 'cargo build --workspace --bins' first", path.display());
    }
    path
}

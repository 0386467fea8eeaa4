//! Installs a fake low-level runtime, writes its script, and reads the records of its calls.
//!
//! The program itself is `src/bin/fake_runtime.rs`. It creates no namespaces and no cgroups, and
//! reads no OCI config. A script is a JSON object from verbs to steps; the verb `"*"` stands for
//! all verbs that the script does not list. A step is an object with these keys, performed in this
//! order:
//!
//! | key | value | effect |
//! |---|---|---|
//! | `stdin` | true | reads all of stdin and records it |
//! | `process_file` | true | reads the file of `--process` and records it |
//! | `catch` | true | blocks all signals, and records those that arrive during `until` |
//! | `process` | true | starts a process that runs until it is killed; writes its id to
//! `--pid-file` |
//! | `pid_file` | text | writes this text to `--pid-file` |
//! | `exec` | `{"argv": [..], "env": [..]}` | executes another program, with any environment |
//! | `until` | path | waits until this file exists |
//! | `end_process` | true | kills the process of the container that argv names |
//! | `log` | text | appends this text to the file of `--log` |
//! | `stdout`, `stderr` | text | writes this text |
//! | `signal` | number | sends itself this signal |
//! | `exit` | number | exits with this code (default 0) |

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// An installed fake runtime.
#[derive(Debug, Clone)]
pub struct FakeRuntime {
    /// Path of the executable.
    pub path: PathBuf,
}

/// Time that a test waits for a condition before it fails.
pub const TIMEOUT: Duration = Duration::from_secs(30);

impl FakeRuntime {
    /// Installs the fake runtime as the symbolic link `dir/name`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn install(dir: &Path, name: &str) -> std::io::Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join(name);
        std::os::unix::fs::symlink(program("fake_runtime"), &path)?;
        Ok(Self { path })
    }

    /// Sets the script of all later calls.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn script(&self, script: &Value) -> std::io::Result<()> {
        // The rename keeps a concurrent call from reading half of the script.
        let new = self.file(".script.new");
        fs::write(&new, script.to_string())?;
        fs::rename(new, self.file(".script.json"))
    }

    /// Returns all records so far: a `call` with `argv`, `own` and optionally `stdin`, or a
    /// `signal` with `code` and `sender`.
    pub fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file(".calls.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the records of calls.
    pub fn calls(&self) -> Vec<Value> {
        self.records().into_iter().filter(|record| record.get("argv").is_some()).collect()
    }

    /// Waits until the records satisfy `condition`, and returns the records.
    ///
    /// # Panics
    /// If the condition does not hold within [`TIMEOUT`].
    #[allow(clippy::panic)] // only tests call this
    pub fn wait(&self, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let records = self.records();
            if condition(&records) {
                return records;
            }
            if Instant::now() > deadline {
                panic!("timeout: {what}: records of {}: {records:#?}", self.path.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Deletes all records.
    pub fn clear(&self) {
        let _ = fs::remove_file(self.file(".calls.jsonl"));
    }

    /// Path of a file beside the executable: the path of the executable with `suffix` appended.
    fn file(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }
}

/// Path of a program of this workspace, in the target directory of the running test.
///
/// # Panics
/// If the program has not been built.
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

//! Programs of NRI v0.1: finds them, and runs them once, within limits of time and output.

use crate::message::ProgramResult;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::{Instant, timeout_at},
};

/// Where programs are.
pub(crate) const DEFAULT_DIRECTORY: &str = "/opt/nri/bin";

/// `PATH` of an adapter without one: a plugin that a runtime launches has no variables but those of
/// NRI, but its programs were made to be called by containerd.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Largest result of a program, in bytes; a message of NRI has at most 4 MiB.
const MAX_OUTPUT: u64 = 1 << 20;

/// Bytes of an invalid result that an error quotes.
const QUOTED: usize = 200;

/// The directories of programs, in the order in which they are searched.
#[derive(Debug)]
pub(crate) struct SearchPath {
    directories: Vec<PathBuf>,
}

/// A program did not reply with a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("no program of this name in {0}")]
    NotFound(String),
    #[error("{0:?} is neither a name nor an absolute path")]
    Name(String),
    #[error("{program} could not be run: {source}")]
    Run { program: PathBuf, source: io::Error },
    #[error("{program} did not reply within {limit:?} of the event, and was killed")]
    Timeout { program: PathBuf, limit: Duration },
    #[error("{program} wrote more than {MAX_OUTPUT} bytes, and was killed")]
    TooLarge { program: PathBuf },
    #[error("{program} ({status}) wrote no result, but {output:?}: {source}")]
    Invalid { program: PathBuf, status: ExitStatus, output: String, source: serde_json::Error },
    /// The program's own error.
    #[error("{0}")]
    Reported(String),
}

/// Until when a program has to reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// Time limit for all programs of an event.
    limit: Duration,
    end: Instant,
}

impl Deadline {
    /// Returns the deadline of an event that begins now.
    pub(crate) fn after(limit: Duration) -> Self {
        Self { limit, end: Instant::now() + limit }
    }
}

impl SearchPath {
    /// The directory, and after it those of `PATH`, where upstream searches first: names of
    /// programs are free, and `script` is also a command of most systems. Relative ones are left
    /// out.
    pub(crate) fn new(path: Option<OsString>, directory: &Path) -> Self {
        let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
        let directories = std::env::split_paths(&path).filter(|d| d.is_absolute());
        Self { directories: [directory.to_owned()].into_iter().chain(directories).collect() }
    }

    /// Finds a program.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, ProgramError> {
        if name.starts_with('/') {
            return Ok(PathBuf::from(name));
        }
        if name.is_empty() || name.contains('/') {
            return Err(ProgramError::Name(name.to_owned()));
        }
        let candidates = self.directories.iter().map(|directory| directory.join(name));
        let found = candidates.into_iter().find(|file| is_executable(file));
        found.ok_or_else(|| ProgramError::NotFound(self.text().to_string_lossy().into_owned()))
    }

    /// The value of `PATH` for programs.
    fn text(&self) -> OsString {
        // A directory with a colon, which cannot be in PATH, was given as an option.
        std::env::join_paths(&self.directories).unwrap_or_default()
    }

    /// Runs a program with a request, and returns its result. The program's stderr is that of this
    /// process. It is killed, with all that it started, if it exceeds a limit.
    pub(crate) async fn invoke(
        &self,
        program: &Path,
        request: &[u8],
        deadline: Deadline,
    ) -> Result<ProgramResult, ProgramError> {
        let failed = |source| ProgramError::Run { program: program.to_owned(), source };
        let mut child = Command::new(program)
            .arg("invoke")
            .env("PATH", self.text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let ended = timeout_at(deadline.end, exchange(&mut child, request)).await;
        let (status, output) = match ended {
            Ok(Ok(Some(ended))) => ended,
            other => {
                kill(&mut child).await;
                let program = program.to_owned();
                return Err(match other {
                    Ok(Ok(_)) => ProgramError::TooLarge { program },
                    Ok(Err(source)) => ProgramError::Run { program, source },
                    Err(_) => ProgramError::Timeout { program, limit: deadline.limit },
                });
            }
        };
        let result = serde_json::from_slice::<ProgramResult>(&output).map_err(|source| {
            let output = String::from_utf8_lossy(&output[..output.len().min(QUOTED)]);
            let (program, output) = (program.to_owned(), output.into_owned());
            ProgramError::Invalid { program, status, output, source }
        })?;
        // A result counts whatever the exit status is, as for upstream's client.
        if result.error.is_empty() { Ok(result) } else { Err(ProgramError::Reported(result.error)) }
    }
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Writes the request and reads the output to its end; `None` if it is too long.
async fn exchange(child: &mut Child, request: &[u8]) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let write = async {
        let Some(mut stdin) = stdin else { return Ok(()) };
        match stdin.write_all(request).await {
            // A program need not read its request.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    };
    let read = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_OUTPUT + 1).read_to_end(&mut output).await?;
        }
        if output.len() as u64 > MAX_OUTPUT {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(output)
    };
    let output = match tokio::try_join!(write, read) {
        Ok(((), output)) => output,
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => return Ok(None),
        Err(e) => return Err(e),
    };
    Ok(Some((child.wait().await?, output)))
}

/// Kills the process group of a child, and waits for the child.
async fn kill(child: &mut Child) {
    let group = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(group) = group {
        // Fails if the whole group has ended.
        killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
    }
    // Fails if the child was waited for.
    child.wait().await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LONG: Duration = Duration::from_secs(60);

    /// Writes a shell script, which [`SearchPath`] finds as `program`.
    fn script(text: &str) -> (tempfile::TempDir, SearchPath) {
        let dir = tempfile::tempdir().unwrap();
        let (source, file) = (dir.path().join("source"), dir.path().join("program"));
        fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
        // Written by another process: a child that another test forks meanwhile would keep the file
        // open for writing, and executing it would fail (ETXTBSY).
        let mut install = std::process::Command::new("install");
        assert!(install.arg("-m755").args([source, file]).status().unwrap().success());
        let search = SearchPath::new(Some("/bin:/usr/bin:relative::".into()), dir.path());
        (dir, search)
    }

    fn invoke(text: &str, request: &[u8], limit: Duration) -> Result<ProgramResult, String> {
        let (dir, search) = script(text);
        let program = search.find("program").unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = tokio.block_on(search.invoke(&program, request, Deadline::after(limit)));
        let text = |e: ProgramError| e.to_string().replace(dir.path().to_str().unwrap(), "DIR");
        result.map_err(text)
    }

    #[test]
    fn a_program_reads_the_request_and_writes_a_result() {
        let result = invoke(
            r#"read -r request; echo "{\"plugin\": \"$1\", \"metadata\": {\"got\": \"$request\"}}""#,
            b"a request\n",
            LONG,
        )
        .unwrap();
        assert_eq!(result.plugin, "invoke");
        assert_eq!(result.metadata.unwrap()["got"], "a request");
        // Larger than a pipe, and not read.
        let unread = invoke("echo '{\"plugin\": \"x\"}'; exit 3", &vec![b'x'; 1 << 20], LONG);
        assert_eq!(unread.unwrap().plugin, "x");
    }

    #[test]
    fn errors_of_programs_are_reported() {
        let check = |text: &str, expected: &str| {
            let error = invoke(text, b"", LONG).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        check(r#"echo '{"error": "no such group"}'"#, "no such group");
        check("exit 7", "DIR/program (exit status: 7) wrote no result, but \"\": EOF");
        check("echo hello", "DIR/program (exit status: 0) wrote no result, but \"hello\\n\": ");
        check("echo '{} {}'", "DIR/program (exit status: 0) wrote no result, but \"{} {}\\n\": ");
        check("yes", "DIR/program wrote more than 1048576 bytes, and was killed");
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let text =
            format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pid_file.display());
        let started = async {
            while !pid_file.exists() {
                tokio::task::yield_now().await;
            }
        };
        let (_program_dir, search) = script(&text);
        let program = search.find("program").unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = tokio.block_on(async {
            let limit = Duration::from_secs(3);
            let mut invoked = std::pin::pin!(search.invoke(&program, b"", Deadline::after(limit)));
            let result = tokio::select! {
                result = &mut invoked => result,
                () = started => invoked.await,
            };
            result.unwrap_err().to_string()
        });
        assert!(error.ends_with("did not reply within 3s of the event, and was killed"), "{error}");
        let pid: i32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let end = std::time::Instant::now() + LONG;
        // Without an init process in the test's pid namespace, a killed child stays as a zombie.
        let is_running = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while is_running() {
            assert!(std::time::Instant::now() < end, "process {pid} was not killed");
            std::thread::yield_now();
        }
    }

    #[test]
    fn programs_have_a_path_even_if_the_adapter_has_none() {
        let search = SearchPath::new(None, Path::new("/opt/nri/bin"));
        assert_eq!(search.text(), format!("/opt/nri/bin:{DEFAULT_PATH}").as_str());
        assert!(search.find("cat").is_ok());
    }

    #[test]
    fn programs_are_found_in_the_directory_and_then_in_path() {
        let (dir, search) = script("");
        assert_eq!(search.find("program").unwrap(), dir.path().join("program"));
        fs::copy("/bin/true", dir.path().join("sh")).unwrap();
        assert_eq!(search.find("sh").unwrap(), dir.path().join("sh"));
        assert_eq!(search.find("cat").unwrap(), Path::new("/bin/cat"));
        assert_eq!(search.find("/any/path").unwrap(), Path::new("/any/path"));
        fs::write(dir.path().join("data"), "").unwrap();
        for name in ["data", "absent"] {
            let error = search.find(name).unwrap_err().to_string();
            let path = format!("{}:/bin:/usr/bin", dir.path().display());
            assert_eq!(error, format!("no program of this name in {path}"));
        }
        for name in ["", "./program", "a/b"] {
            let error = search.find(name).unwrap_err().to_string();
            assert_eq!(error, format!("{name:?} is neither a name nor an absolute path"));
        }
    }
}

//! Calls of an engine's programs, with a time limit.

use super::verbs::Failure;
use std::{
    fs::File,
    io::{Read, Seek, Write},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Time limit of a call: engines take seconds, and plugins that hang some more.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes a command of words, such as `docker -H unix:///x`, and arguments.
pub(super) fn command(words: &[String], arguments: &[&str]) -> Command {
    let (program, first) = match words {
        [program, first @ ..] => (program.as_str(), first),
        [] => ("", &[][..]),
    };
    let mut command = Command::new(program);
    command.args(first).args(arguments);
    command
}

/// Runs a command to its end; returns stdout without the last line feed. Output goes to files, not
/// to pipes: containers may inherit it, and a pipe would stay open as long as they run.
pub(super) fn run(mut command: Command, stdin: Option<&str>) -> Result<String, Failure> {
    match output(&mut command, stdin) {
        Ok((Some(0), out, _)) => Ok(out.trim_end().to_owned()),
        Ok((code, out, err)) => Err(failure(code, &out, &err)),
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            Err(Failure::Unsupported(format!("{program} cannot be run: {error}")))
        }
    }
}

/// Makes the error of a call. Exit code 64 is that of a script which does not know the verb.
fn failure(code: Option<i32>, out: &str, err: &str) -> Failure {
    let text = if err.trim().is_empty() { out } else { err }.trim().to_owned();
    match code {
        Some(64) => Failure::Unsupported(text),
        Some(code) if text.is_empty() => Failure::Refused(format!("exit code {code}")),
        Some(_) => Failure::Refused(text),
        None => Failure::Refused(format!("killed after {} s: {text}", TIMEOUT.as_secs())),
    }
}

/// Exit code (none after the time limit), stdout and stderr of a command.
type Output = (Option<i32>, String, String);

fn output(command: &mut Command, stdin: Option<&str>) -> std::io::Result<Output> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let input = match stdin {
        None => Stdio::null(),
        Some(text) => {
            let mut file = tempfile::tempfile()?;
            file.write_all(text.as_bytes())?;
            file.rewind()?;
            file.into()
        }
    };
    command.stdin(input).stdout(out.try_clone()?).stderr(err.try_clone()?).current_dir("/");
    let mut child = command.spawn()?;
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        sleep(Duration::from_millis(5)); // a poll, until the deadline
    };
    let code = status.map(|status| status.code().unwrap_or(-1));
    Ok((code, text(&mut out)?, text(&mut err)?))
}

fn text(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

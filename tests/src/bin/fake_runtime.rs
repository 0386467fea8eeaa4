//! Fake low-level runtime for tests: records how it was called, then performs the steps of a
//! script.
//!
//! The script is the JSON file `<argv[0]>.script.json`, or the file named by
//! `FAKE_RUNTIME_SCRIPT`; each call appends lines to `<argv[0]>.calls.jsonl`.
//! `nri_tests::fake_runtime` reads these lines and documents the script.
//!
//! The program runs without Rust's start-up code, because that code reopens closed stdio and
//! changes the disposition of SIGPIPE, which tests have to see.
#![no_main]
#![allow(unsafe_code)] // `no_mangle` on `main`

use nix::sys::{
    signal::{SigSet, Signal, kill},
    signalfd::{SfdFlags, SignalFd},
};
use nix::unistd::{Pid, getpgrp, getpid, getppid, getsid};
use nri_files::OsText;
use serde_json::{Map, Value, json};
use std::{
    ffi::{CString, OsStr, OsString},
    fs,
    io::{self, Read, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Time limit of the key `until`. It is longer than the 30 s that a test waits, so that the test
/// fails first, with its own message.
const TIMEOUT: Duration = Duration::from_secs(60);
/// First argument of a call that runs as the process of a container.
const PROCESS: &str = "fake-container-process";

#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    let own = own_state();
    let argv = split(&fs::read("/proc/self/cmdline").unwrap_or_default());
    let files = Files(argv.first().map(PathBuf::from).unwrap_or_default());
    if argv.get(1).is_some_and(|a| a == PROCESS) {
        // Runs until it is killed.
        loop {
            std::thread::park();
        }
    }
    let script = files.script();
    match perform_step(&files, &script, &argv, own) {
        Ok(code) => code,
        Err(e) => {
            let _ = writeln!(io::stderr(), "fake runtime: {e}");
            99 // an exit code that no test expects
        }
    }
}

/// Files beside the executable of this path.
struct Files(PathBuf);

impl Files {
    fn file(&self, suffix: &str) -> PathBuf {
        let mut path = self.0.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    fn script(&self) -> Value {
        let path = std::env::var_os("FAKE_RUNTIME_SCRIPT")
            .map_or_else(|| self.file(".script.json"), PathBuf::from);
        fs::read(path)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or(Value::Null)
    }

    fn append(&self, line: &Value) -> io::Result<()> {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(self.file(".calls.jsonl"))?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn process(&self, id: &OsStr) -> PathBuf {
        self.file(".processes").join(id)
    }
}

/// Returns the state of this process. The caller must not have opened any descriptor yet.
fn own_state() -> Map<String, Value> {
    let mut fds = Map::new();
    // 64 is more than the tests open.
    for number in 0..64 {
        // Reading the directory /proc/self/fd would open one more descriptor.
        if let Ok(target) = fs::read_link(format!("/proc/self/fd/{number}")) {
            fds.insert(number.to_string(), json!(OsText::from(&target)));
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim).map(str::to_owned)
    };
    let environment = split(&fs::read("/proc/self/environ").unwrap_or_default());
    let parent_death_signal = rustix::process::parent_process_death_signal().ok().flatten();
    let Value::Object(own) = json!({
        "pid": getpid().as_raw(),
        "ppid": getppid().as_raw(),
        "pgid": getpgrp().as_raw(),
        "sid": getsid(None).map_or(0, Pid::as_raw),
        "env": environment.into_iter().map(OsText).collect::<Vec<_>>(),
        "cwd": std::env::current_dir().ok().map(|d| OsText::from(&d)),
        "umask": field("Umask:"),
        "blocked": field("SigBlk:"),
        "ignored": field("SigIgn:"),
        "parent_death_signal": parent_death_signal.map(|s| s.as_raw()),
        "fds": fds,
    }) else {
        unreachable!("the literal is an object")
    };
    own
}

fn perform_step(
    files: &Files,
    script: &Value,
    argv: &[OsString],
    own: Map<String, Value>,
) -> io::Result<i32> {
    let arguments: Vec<&str> = argv.iter().skip(1).filter_map(|a| a.to_str()).collect();
    let verb = arguments.iter().find(|a| script.get(**a).is_some()).copied();
    let step = &script[verb.unwrap_or("*")];
    let mut call = json!({
        "call": verb,
        "argv": argv.iter().map(OsText::from).collect::<Vec<_>>(),
        "own": own,
    });
    if step["stdin"] == true {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text)?;
        call["stdin"] = json!(OsText(OsString::from_vec(text)));
    }
    if step["process_file"] == true
        && let Some(path) = option(argv, &["--process", "-p"])
    {
        // As text: tests compare the order of members and the notation of numbers.
        call["process_file"] = json!(OsText(OsString::from_vec(fs::read(path)?)));
    }
    let caught = if step["catch"] == true { Some(catch()?) } else { None };
    if step["process"] == true {
        start_process(files, argv)?;
    }
    if let Some(text) = step["pid_file"].as_str() {
        write_pid_file(argv, text)?;
    }
    files.append(&call)?;
    if let Some(exec) = step.get("exec") {
        return exec_program(exec);
    }
    if let Some(path) = step["until"].as_str() {
        wait_for(files, Path::new(path), caught.as_ref())?;
    }
    if step["end_process"] == true {
        end_process(files, argv)?;
    }
    if let (Some(text), Some(log)) = (step["log"].as_str(), option(argv, &["--log"])) {
        fs::File::options().append(true).create(true).open(log)?.write_all(text.as_bytes())?;
    }
    io::stdout().write_all(step["stdout"].as_str().unwrap_or_default().as_bytes())?;
    io::stdout().flush()?;
    io::stderr().write_all(step["stderr"].as_str().unwrap_or_default().as_bytes())?;
    if let Some(signal) = step["signal"].as_i64() {
        // SAFETY: the call gets no pointers, and any number is valid.
        unsafe { nix::libc::kill(getpid().as_raw(), signal as i32) };
    }
    Ok(step["exit"].as_i64().unwrap_or(0) as i32)
}

/// Executes a program with an environment that neither a shell nor `Command` can pass, such as
/// entries without an equals sign.
fn exec_program(exec: &Value) -> io::Result<i32> {
    let strings = |key: &str| -> io::Result<Vec<CString>> {
        let given = exec[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        given.map(|s| CString::new(s).map_err(io::Error::from)).collect()
    };
    let argv = strings("argv")?;
    let program = argv.first().ok_or_else(|| io::Error::other("exec without argv"))?;
    match nix::unistd::execve(program, &argv, &strings("env")?) {
        Ok(never) => match never {},
        Err(e) => Err(e.into()),
    }
}

/// Blocks all signals and returns a descriptor to read them from.
fn catch() -> io::Result<SignalFd> {
    let all = SigSet::all();
    all.thread_block()?;
    Ok(SignalFd::with_flags(&all, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Waits until `path` exists, and records the signals that arrive meanwhile.
fn wait_for(files: &Files, path: &Path, caught: Option<&SignalFd>) -> io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        while let Some(info) = caught.and_then(|c| c.read_signal().ok().flatten()) {
            files.append(
                &json!({"signal": info.ssi_signo, "code": info.ssi_code, "sender": info.ssi_pid}),
            )?;
        }
        if path.exists() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("{} did not appear", path.display())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn write_pid_file(argv: &[OsString], text: &str) -> io::Result<()> {
    option(argv, &["--pid-file"]).map_or(Ok(()), |path| fs::write(path, text))
}

/// Returns the value of the first option that has one of these names.
fn option(argv: &[OsString], names: &[&str]) -> Option<OsString> {
    argv.iter().enumerate().find_map(|(i, a)| {
        names.iter().find_map(|name| match a.as_bytes().strip_prefix(name.as_bytes())? {
            b"" => argv.get(i + 1).cloned(),
            rest => rest.strip_prefix(b"=").map(|v| OsStr::from_bytes(v).to_owned()),
        })
    })
}

/// Starts the process of a container, and writes its process id to the file that `end_process`
/// reads and to `--pid-file`.
fn start_process(files: &Files, argv: &[OsString]) -> io::Result<()> {
    let id = argv.last().cloned().unwrap_or_default();
    let child = Command::new(&files.0)
        .arg(PROCESS)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_clear()
        .spawn()?;
    let pid = child.id().to_string();
    fs::create_dir_all(files.file(".processes"))?;
    fs::write(files.process(&id), &pid)?;
    write_pid_file(argv, &pid)
}

/// Kills the processes of all containers that argv names.
fn end_process(files: &Files, argv: &[OsString]) -> io::Result<()> {
    for id in argv {
        if id.as_bytes().contains(&b'/') {
            continue;
        }
        let Ok(text) = fs::read_to_string(files.process(id)) else { continue };
        fs::remove_file(files.process(id))?;
        if let Ok(pid) = text.parse() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    Ok(())
}

/// Splits strings that end with NUL, as in `/proc/self/environ`.
fn split(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|b| *b == 0).map(|part| OsString::from_vec(part.to_vec())).collect()
}

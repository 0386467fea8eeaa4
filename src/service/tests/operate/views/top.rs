//! Tests of `nrictl top` with a real `nrid`, on a pseudoterminal.

use crate::{
    containers::{Sleep, create_and_start},
    node::{Node, Nrid, wait_until},
    views::{json_of, nrictl},
};
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex},
};

/// Size of the terminal.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// `nrictl top` on a terminal.
struct TopSession {
    /// Our end of the terminal.
    keyboard: File,
    /// The end of `nrictl`, kept open so that its modes can be read after the end.
    terminal: OwnedFd,
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl TopSession {
    fn start(node: &Node) -> Self {
        let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&control).unwrap();
        unlockpt(&control).unwrap();
        let name = ptsname(&control, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        tcsetwinsize(&terminal, SIZE).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("nrictl");
        let mut command = Command::new(program);
        command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
        command.arg("top").env("TERM", "xterm");
        let end = || terminal.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        let keyboard = File::from(control);
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut output, written) = (keyboard.try_clone().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length) = output.read(&mut bytes) {
                written.lock().unwrap().extend(&bytes[..length]);
            }
        });
        Self { keyboard, terminal, child, screen }
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.terminal).unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, text: &str) {
        wait_until(text, || self.text().contains(text).then_some(()));
    }

    fn press(&mut self, key: &str) {
        self.keyboard.write_all(key.as_bytes()).unwrap();
    }

    /// Waits for the end, and checks that the terminal is as it was.
    fn wait_for_end(mut self) -> ExitStatus {
        let status = wait_until("the end of top", || self.child.try_wait().unwrap());
        // The cursor is shown, and the screen is the one from before.
        self.wait_for("\x1b[?25h");
        self.wait_for("\x1b[?1049l");
        assert!(self.modes().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        status
    }
}

impl Drop for TopSession {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start() -> (Node, Nrid, Sleep) {
    let node = Node::new("");
    node.plugin("10-logger");
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "web-1", &process).unwrap();
    (node, nrid, process)
}

#[test]
fn top_shows_containers_and_plugins_until_a_key_or_a_signal() {
    let (node, nrid, _process) = start();
    let mut top = TopSession::start(&node);
    let modes = top.modes();
    assert!(modes.local_modes.contains(LocalModes::ICANON));
    top.wait_for("web-1");
    for part in ["\x1b[?1049h", "10-logger", "CALLS/S", "sorted by cpu", "1 container, 1 pod"] {
        assert!(top.text().contains(part), "{part}: {:?}", top.text());
    }
    assert!(!top.modes().local_modes.contains(LocalModes::ICANON));
    top.press("s");
    top.wait_for("sorted by memory");
    top.press("q");
    assert_eq!(top.wait_for_end().code(), Some(0));

    for key in ["\x1b", "\x03"] {
        let mut top = TopSession::start(&node);
        top.wait_for("web-1");
        top.press(key);
        assert_eq!(top.wait_for_end().code(), Some(0), "{key:?}");
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let top = TopSession::start(&node);
        top.wait_for("web-1");
        kill_process(Pid::from_child(&top.child), signal).unwrap();
        assert_eq!(top.wait_for_end().signal(), Some(signal.as_raw()));
    }
    node.stop();
    nrid.wait_for_exit();
}

/// Starts a shell script on a terminal of its own, which controls the processes of the script.
fn on_controlling_terminal(node: &Node, script: &str) -> (Child, File) {
    let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&control).unwrap();
    unlockpt(&control).unwrap();
    let name = ptsname(&control, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    tcsetwinsize(&terminal, SIZE).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("nrictl");
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "sh", "-c", script, "sh"]).arg(program);
    command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    let end = || terminal.try_clone().unwrap();
    command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end());
    (command.spawn().unwrap(), File::from(control))
}

/// Reads what was written to a terminal until this text.
fn read_until(terminal: &mut File, text: &str) -> String {
    let (mut found, mut bytes) = (String::new(), [0; 4096]);
    while !found.contains(text) {
        let length = terminal.read(&mut bytes).unwrap();
        found += &String::from_utf8_lossy(&bytes[..length]);
    }
    found
}

/// `timeout` makes its command a process group in the background of the terminal.
#[test]
fn top_in_the_background_says_so_and_ends() {
    let (node, nrid, _process) = start();
    let script = "timeout -k 20 1 \"$@\" top; echo \"<$?>\"";
    let (mut child, mut terminal) = on_controlling_terminal(&node, script);
    let text = read_until(&mut terminal, ">");
    assert!(text.contains("in the background") && text.contains("--once"), "{text:?}");
    assert!(text.contains("<1>"), "{text:?}");
    child.wait().unwrap();
    node.stop();
    nrid.wait_for_exit();
}

/// The shell continues when its job stops, so that the job is in the background afterwards.
#[test]
fn top_that_was_put_into_the_background_is_ended_by_a_signal() {
    let (node, nrid, _process) = start();
    let pid_file = node.path("pid");
    let script = format!(
        "set -m; sh -c 'echo $$ >{}; exec \"$@\" top' sh \"$@\"; echo job stopped; exec sleep 1000",
        pid_file.display()
    );
    let (mut child, mut terminal) = on_controlling_terminal(&node, &script);
    read_until(&mut terminal, "web-1");
    let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    read_until(&mut terminal, "job stopped");
    kill_process(pid, Signal::CONT).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    // Nobody waits for it: it stays a zombie, or is gone.
    wait_until("the end of top", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn top_continues_while_no_nrid_runs() {
    let (node, nrid, _process) = start();
    let mut top = TopSession::start(&node);
    top.wait_for("web-1");
    node.stop();
    nrid.wait_for_exit();
    top.wait_for("nrid is not running");
    top.press("q");
    assert_eq!(top.wait_for_end().code(), Some(0));
}

#[test]
fn top_without_a_terminal_prints_one_table_if_it_is_to() {
    let (node, nrid, _process) = start();
    let output = nrictl(&node, &["top"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("not a terminal") && stderr.contains("--once"), "{stderr}");
    let output = nrictl(&node, &["top", "--once"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !text.contains('\x1b'), "{text}");
    assert!(text.contains("10-logger") && text.contains("web-1"), "{text}");
    let value = json_of(&node, &["top", "--json"]);
    assert_eq!(value["containers"][0]["id"], "web-1");
    assert_eq!(value["plugins"][0]["name"], "10-logger");
    assert!(value["plugins"][0]["calls_per_second"].is_number());
    node.stop();
    nrid.wait_for_exit();
}

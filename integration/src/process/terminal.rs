//! Pseudo-terminal in which a test runs a program, as a user does.

use crate::wait_until;
use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

/// A pseudo-terminal that is the controlling terminal of a program.
#[derive(Debug)]
pub struct Terminal {
    screen: File,
    text: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Terminal {
    /// Runs a program in a new terminal.
    ///
    /// # Panics
    /// No pseudo-terminal is available, or the program cannot be started.
    pub fn run(command: &Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo-terminal can be opened");
        grantpt(&controller).expect("grantpt");
        unlockpt(&controller).expect("unlockpt");
        let name = ptsname(&controller, Vec::new()).expect("ptsname");
        let open_slave = || -> Stdio {
            rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
                .expect("the slave end of the terminal can be opened")
                .into()
        };
        // `setsid --ctty` sets the controlling terminal, which only a new process can do for
        // itself.
        let mut session = Command::new("setsid");
        session.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            session.current_dir(dir);
        }
        let child = session
            .stdin(open_slave())
            .stdout(open_slave())
            .stderr(open_slave())
            .spawn()
            .expect("`setsid` of util-linux exists");
        let screen = File::from(controller);
        let text = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, output) =
            (screen.try_clone().expect("the descriptor can be duplicated"), text.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails once the last process has closed the terminal.
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                output.lock().expect("no reader panics").extend_from_slice(&buffer[..n]);
            }
        });
        Self { screen, text, child }
    }

    /// Types text into the terminal.
    pub fn write(&self, text: &str) {
        (&self.screen).write_all(text.as_bytes()).expect("the terminal is open");
    }

    /// Returns all output of the terminal.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no reader panics")).into_owned()
    }

    /// Waits until `text` appears in the output.
    pub fn wait_for(&self, text: &str) {
        wait_until(format_args!("{text:?} in the terminal, which shows {:?}", self.text()), || {
            self.text().contains(text).then_some(())
        });
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.screen, size).expect("a terminal has a size");
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the program's exit; returns its exit code.
    pub fn wait_for_exit(mut self) -> Option<i32> {
        let child = &mut self.child;
        wait_until("the end of the program in the terminal", || {
            child.try_wait().expect("wait for the child process")
        })
        .code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

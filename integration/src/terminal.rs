//! A terminal, to call a program as a person would.

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

/// A terminal with a program in it, for which it is the controlling one.
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
    /// There is none, or the program cannot be started.
    pub fn run(command: &Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&controller).expect("grantpt");
        unlockpt(&controller).expect("unlockpt");
        let name = ptsname(&controller, Vec::new()).expect("ptsname");
        let side = || -> Stdio {
            rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
                .expect("its other end")
                .into()
        };
        // `setsid --ctty` makes it the controlling terminal, which only the new process itself
        // could do.
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
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("setsid of util-linux");
        let screen = File::from(controller);
        let text = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, kept) = (screen.try_clone().expect("a descriptor"), text.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the last process is an error here.
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                kept.lock().expect("no reader panics").extend_from_slice(&buffer[..n]);
            }
        });
        Self { screen, text, child }
    }

    /// Types.
    pub fn write(&self, text: &str) {
        (&self.screen).write_all(text.as_bytes()).expect("the terminal is open");
    }

    /// What is on the screen so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no reader panics")).into_owned()
    }

    /// Waits until `text` is on the screen.
    pub fn wait_for(&self, text: &str) {
        wait_until(format_args!("{text:?} on the screen, which shows {:?}", self.text()), || {
            self.text().contains(text).then_some(())
        });
    }

    /// Changes its size.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.screen, size).expect("a terminal has a size");
    }

    /// Waits for the program's end; returns its exit code.
    pub fn end(mut self) -> Option<i32> {
        let child = &mut self.child;
        wait_until("the end of the program in the terminal", || {
            child.try_wait().expect("our child")
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

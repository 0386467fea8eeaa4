//! The terminal of `nrictl top`: raw mode on the alternate screen, restored however the program
//! ends.

use crossterm::{
    cursor, event,
    event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{self, Clear, ClearType},
};
use nix::sys::signal::{SigSet, Signal};
use rustix::{process::getpgrp, termios::tcgetpgrp};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    flag, low_level,
};
use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Longest time until a signal is noticed.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The time has come to refresh the screen, or its size has changed.
    Refresh,
    /// Sort by the next column.
    Sort,
    /// End.
    Quit,
}

/// The terminal, restored when it is dropped.
pub(super) struct Screen {
    signals: Vec<(i32, Arc<AtomicBool>)>,
}

impl Screen {
    /// Whether standard input and output are terminals.
    pub(super) fn is_available() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Whether this process may use the terminal: in the background, the kernel would stop it. If
    /// the terminal is not that of its session, it always may.
    pub(super) fn is_in_foreground() -> bool {
        tcgetpgrp(io::stdin()).map_or(true, |foreground| foreground == getpgrp())
    }

    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        let mut signals = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            let received = Arc::new(AtomicBool::new(false));
            flag::register(signal, received.clone())?;
            signals.push((signal, received));
        }
        // So that a signal which comes in the background restores the terminal, too.
        let mut signals_of_terminal = SigSet::empty();
        signals_of_terminal.add(Signal::SIGTTOU);
        signals_of_terminal.thread_block()?;
        // From here on, dropping it restores the terminal.
        let screen = Self { signals };
        Self::prepare()?;
        Ok(screen)
    }

    fn prepare() -> io::Result<()> {
        terminal::enable_raw_mode()?;
        execute!(
            io::stdout(),
            terminal::EnterAlternateScreen,
            terminal::DisableLineWrap,
            cursor::Hide
        )
    }

    /// Number of rows.
    pub(super) fn rows() -> usize {
        terminal::size().map_or(24, |(_, rows)| rows.into())
    }

    /// Replaces what is on the screen.
    pub(super) fn show(lines: &[String]) -> io::Result<()> {
        // Written at once, so that the screen does not flicker.
        let mut frame = Vec::new();
        for (row, line) in lines.iter().enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(frame, cursor::MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
        }
        queue!(frame, Clear(ClearType::FromCursorDown))?;
        let mut out = io::stdout().lock();
        out.write_all(&frame)?;
        out.flush()
    }

    /// Waits for an action until `deadline`. A signal ends the program.
    pub(super) fn wait(&self, deadline: Instant) -> io::Result<Action> {
        let mut was_in_background = false;
        loop {
            if self.signal().is_some() {
                return Ok(Action::Quit);
            }
            if !Self::is_in_foreground() {
                was_in_background = true;
                thread::sleep(SIGNAL_CHECK);
                continue;
            }
            if was_in_background {
                // The shell has changed the modes.
                terminal::disable_raw_mode()?;
                Self::prepare()?;
                return Ok(Action::Refresh);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Action::Refresh);
            }
            match event::poll(left.min(SIGNAL_CHECK)) {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(action) = action(&event::read()?) {
                        return Ok(action);
                    }
                }
                // A signal.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the signal that was received.
    fn signal(&self) -> Option<i32> {
        let received = self.signals.iter().find(|(_, received)| received.load(Ordering::Relaxed));
        received.map(|(signal, _)| *signal)
    }

    /// Restores the terminal, and ends as the signal would have ended the program.
    pub(super) fn close(self) -> io::Result<()> {
        let signal = self.signal();
        drop(self);
        signal.map_or(Ok(()), low_level::emulate_default_handler)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = execute!(
            io::stdout(),
            cursor::Show,
            terminal::EnableLineWrap,
            terminal::LeaveAlternateScreen
        );
        let _ = terminal::disable_raw_mode();
    }
}

/// Returns the action for an event; `None` if it has none. In raw mode, Ctrl-C is a key.
fn action(event: &Event) -> Option<Action> {
    match event {
        Event::Resize(..) => Some(Action::Refresh),
        Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => None,
        Event::Key(KeyEvent { code, modifiers, .. }) => match code {
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                Some(Action::Quit)
            }
            KeyCode::Char('q') | KeyCode::Esc => Some(Action::Quit),
            KeyCode::Char('s') => Some(Action::Sort),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_actions() {
        let key = |code, modifiers| action(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('s'), KeyModifiers::NONE), Some(Action::Sort));
        assert_eq!(action(&Event::Resize(80, 24)), Some(Action::Refresh));
    }
}

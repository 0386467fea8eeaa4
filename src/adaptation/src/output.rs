//! What launched plugins write to their standard output and error: line by line to the host, under
//! the plugin's name.
//!
//! A plugin never waits for whoever reads its lines: its pipe is read in any case, a queue of
//! bounded size holds the lines, and what does not fit is dropped and counted. Lines go out on a
//! thread of their own, since a log may block.

use nri_api::PluginId;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tracing::warn;

use crate::ContainerManager;

/// Longest line, in bytes; the rest of a longer one is left out.
pub(crate) const LINE: usize = 2048;
/// How many lines may wait to be written.
const QUEUE: usize = 512;
/// What is read at most when the program has ended: more than a pipe holds by default.
const REST: usize = 128 << 10;
/// How long the shutdown waits for lines that are still to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Entry {
    Line(PluginId, String),
    Flush(oneshot::Sender<()>),
}

/// Where lines go; clones are the same.
#[derive(Clone)]
pub(crate) struct Output {
    /// None, if there is no thread: then nothing is written.
    queue: Option<SyncSender<Entry>>,
    dropped: Arc<AtomicU64>,
}

impl Output {
    pub(crate) fn new(host: Arc<dyn ContainerManager>) -> Self {
        let (queue, entries) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        let thread = std::thread::Builder::new().name("plugin-output".into());
        let started = thread.spawn(move || write(&*host, &entries, &counted));
        if let Err(e) = &started {
            warn!("what plugins write is not logged: {e}");
        }
        Self { queue: started.is_ok().then_some(queue), dropped }
    }

    /// Reads a plugin's pipe until its end, or until the program has ended and nothing more is in
    /// it.
    pub(crate) async fn read(
        self,
        plugin: PluginId,
        pipe: OwnedFd,
        mut ended: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let pipe = pipe::Receiver::from_owned_fd(pipe)?;
        let (mut lines, mut buffer) = (Lines::default(), vec![0; 8 << 10]);
        let (mut over, mut rest) = (false, REST);
        while rest > 0 {
            if over {
                rest = rest.saturating_sub(buffer.len());
            } else {
                tokio::select! {
                    biased;
                    ready = pipe.readable() => ready?,
                    // A sender that is gone tells the same. A child that holds the pipe is not
                    // waited for.
                    _ = ended.wait_for(|ended| *ended) => over = true,
                }
            }
            match pipe.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    lines.take(&buffer[..n], |line| self.add(Entry::Line(plugin.clone(), line)))
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && over => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        lines.end(|line| self.add(Entry::Line(plugin.clone(), line)));
        Ok(())
    }

    /// Waits, for a while, until what is in the queue is written.
    pub(crate) async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        self.add(Entry::Flush(done));
        let _ = tokio::time::timeout(LAST_LINES, waiting).await;
    }

    fn add(&self, entry: Entry) {
        let Some(queue) = &self.queue else { return };
        if queue.try_send(entry).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(host: &dyn ContainerManager, entries: &Receiver<Entry>, dropped: &AtomicU64) {
    for entry in entries {
        match entry {
            Entry::Line(plugin, line) => host.plugin_output(&plugin, &line),
            Entry::Flush(done) => {
                // Whoever waited may have given up.
                let _ = done.send(());
            }
        }
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            lines => {
                warn!(lines, "plugins wrote faster than the log could take it; lines were left out")
            }
        }
    }
}

/// Bytes to lines.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    cut: bool,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = LINE.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            self.cut |= room < text.len();
            if text.len() < piece.len() {
                self.end(&mut each);
            }
        }
    }

    /// Gives out what has come of a line, unless it is empty.
    fn end(&mut self, mut each: impl FnMut(String)) {
        let text = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        // One line in the log, and nothing that a terminal would act upon.
        let mut text: String = text
            .chars()
            .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
            .collect();
        if self.cut {
            text.push_str(" (cut)");
        }
        self.line.clear();
        self.cut = false;
        if !text.is_empty() {
            each(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]], expected: &[&str]) {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.take(piece, |line| found.push(line));
            assert!(lines.line.len() <= LINE);
        }
        lines.end(|line| found.push(line));
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_however_they_come() {
        check(&[b"a\nb\n\n  \nc"], &["a", "b", "c"]);
        check(&[b"a", b"b", b"c\nd", b"\n"], &["abc", "d"]);
        check(&[b"bell\x07\x1b[31m\r\n\tx\xff"], &["bell\u{fffd}\u{fffd}[31m", "\tx\u{fffd}"]);
        let long = "x".repeat(LINE);
        check(&[long.as_bytes(), b"\n"], &[&long]);
        check(&[long.as_bytes(), b"y", b"y\nz\n"], &[&format!("{long} (cut)"), "z"]);
    }
}

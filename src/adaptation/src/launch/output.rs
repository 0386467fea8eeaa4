//! Standard output and error of launched plugins, passed line by line to the
//! [`ContainerManager`](crate::ContainerManager).
//!
//! A slow log never blocks a plugin: its pipe is always read, a bounded queue holds the lines, and
//! lines for which the queue has no room are dropped and counted. A separate thread passes the
//! lines on, since writing a log may block.

use nri_api::PluginId;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::warn;

use crate::manager::{ContainerManager, warning};
use crate::plugin::kept_lines::KeptLines;

/// Limit of a line in bytes, more than log messages usually have. The rest of a longer line is
/// dropped.
const MAX_LINE: usize = 2048;
/// Limit of lines in the queue, which together take at most 1 MiB.
const MAX_QUEUED: usize = 512;
/// Time that the shutdown waits for queued lines: the longest delay that a hanging log may cause.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which the shutdown looks for room in a full queue.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);

enum Entry {
    Line(PluginId, String),
    Flush(oneshot::Sender<()>),
}

/// Destination of the plugins' lines. Clones share one queue.
#[derive(Clone)]
pub(crate) struct PluginOutput {
    /// `None` if the thread could not be started; lines are discarded then.
    queue: Option<SyncSender<Entry>>,
    dropped: Arc<AtomicU64>,
}

impl PluginOutput {
    pub(crate) fn new(manager: Arc<dyn ContainerManager>) -> Self {
        let (queue, entries) = sync_channel(MAX_QUEUED);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        let thread = std::thread::Builder::new().name("plugin-output".into());
        let started = thread.spawn(move || pass_lines(&*manager, &entries, &counted));
        if let Err(e) = &started {
            warn!("cannot start a thread, output of plugins is not logged: {e}");
        }
        Self { queue: started.is_ok().then_some(queue), dropped }
    }

    /// Reads a plugin's pipe until it is closed or the program has exited. Keeps some of the lines
    /// in `kept`: no further warnings after a request of `configured`, which is answered when the
    /// lines from before it are kept.
    pub(crate) async fn read(
        self,
        plugin: PluginId,
        pipe: OwnedFd,
        mut configured: mpsc::Receiver<oneshot::Sender<()>>,
        mut exited: watch::Receiver<bool>,
        kept: KeptLines,
    ) -> io::Result<()> {
        let each = |line: String| {
            kept.add(&line, warning(&line));
            self.add(Entry::Line(plugin.clone(), line));
        };
        let pipe = pipe::Receiver::from_owned_fd(pipe)?;
        let (mut lines, mut buffer) = (Lines::default(), vec![0; 8 << 10]);
        loop {
            tokio::select! {
                // A plugin that always writes delays neither a request nor its exit.
                biased;
                Some(done) = configured.recv() => {
                    lines.add_written(&pipe, &mut buffer, each);
                    kept.end_warnings();
                    // Whoever has asked may have ended.
                    let _ = done.send(());
                }
                // A dropped sender means an exit too. A child of the program may keep the pipe
                // open, and is not waited for.
                _ = exited.wait_for(|exited| *exited) => {
                    lines.add_written(&pipe, &mut buffer, each);
                    break;
                }
                ready = pipe.readable() => {
                    ready?;
                    match pipe.try_read(&mut buffer) {
                        Ok(0) => break,
                        Ok(n) => lines.add(&buffer[..n], each),
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        Err(e) => return Err(e),
                    }
                }
            }
        }
        lines.end(each);
        Ok(())
    }

    /// Waits until the queued lines are written, for at most [`FLUSH_TIMEOUT`].
    pub(crate) async fn flush(&self) {
        let Some(queue) = &self.queue else { return };
        let flushed = async {
            let (done, waiting) = oneshot::channel();
            let mut entry = Entry::Flush(done);
            // A full queue has lines to wait for.
            while let Err(TrySendError::Full(rejected)) = queue.try_send(entry) {
                entry = rejected;
                tokio::time::sleep(FLUSH_INTERVAL).await;
            }
            waiting.await
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
    }

    fn add(&self, entry: Entry) {
        let Some(queue) = &self.queue else { return };
        if queue.try_send(entry).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Passes the queued lines to the manager, and logs how many were dropped.
fn pass_lines(manager: &dyn ContainerManager, entries: &Receiver<Entry>, dropped: &AtomicU64) {
    for entry in entries {
        match entry {
            Entry::Line(plugin, line) => manager.plugin_output(&plugin, &line),
            Entry::Flush(done) => {
                // The receiver was dropped if the flush timed out.
                let _ = done.send(());
            }
        }
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            lines => warn!(lines, "output lines of plugins dropped, log too slow"),
        }
    }
}

/// Splitter of bytes into lines.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    is_cut: bool,
}

impl Lines {
    /// Adds what a pipe holds at this moment; it has no other reader.
    fn add_written(&mut self, pipe: impl AsFd, buffer: &mut [u8], mut each: impl FnMut(String)) {
        let mut left = rustix::io::ioctl_fionread(&pipe).unwrap_or_default();
        // Errors are those of the next read.
        while left > 0
            && let Ok(n @ 1..) = rustix::io::read(&pipe, &mut *buffer)
        {
            self.add(&buffer[..n], &mut each);
            left = left.saturating_sub(n as u64);
        }
    }

    fn add(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = MAX_LINE.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            self.is_cut |= room < text.len();
            if text.len() < piece.len() {
                self.end(&mut each);
            }
        }
    }

    /// Ends the current line, and passes it on unless it is empty.
    fn end(&mut self, mut each: impl FnMut(String)) {
        let text = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        // Control characters could break the line of the log, or act on a terminal.
        let mut text: String = text
            .chars()
            .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
            .collect();
        if self.is_cut {
            text.push_str(" (cut)");
        }
        self.line.clear();
        self.is_cut = false;
        if !text.is_empty() {
            each(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::Snapshot;
    use nri_api::proto::{ContainerEviction, ContainerUpdate};
    use std::sync::Mutex;

    fn check(pieces: &[&[u8]], expected: &[&str]) {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.add(piece, |line| found.push(line));
            assert!(lines.line.len() <= MAX_LINE);
        }
        lines.end(|line| found.push(line));
        assert_eq!(found, expected);
    }

    /// Manager whose log hangs until the sender of `end_of_hang` is dropped.
    struct HangingLog {
        end_of_hang: Mutex<Receiver<()>>,
        lines: AtomicU64,
    }

    #[async_trait::async_trait]
    impl ContainerManager for HangingLog {
        async fn snapshot(&self) -> Snapshot {
            Snapshot::default()
        }

        async fn update_containers(
            &self,
            _: &PluginId,
            _: Vec<ContainerUpdate>,
            _: Vec<ContainerEviction>,
        ) -> Vec<ContainerUpdate> {
            Vec::new()
        }

        fn plugin_output(&self, _: &PluginId, _: &str) {
            let _ = self.end_of_hang.lock().unwrap().recv();
            self.lines.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_flush_waits_for_a_full_queue() {
        let (hang, end_of_hang) = std::sync::mpsc::channel();
        let (end_of_hang, lines) = (Mutex::new(end_of_hang), AtomicU64::new(0));
        let manager = Arc::new(HangingLog { end_of_hang, lines });
        let output = PluginOutput::new(manager.clone());
        let plugin = PluginId::new("10", "a").unwrap();
        for _ in 0..2 * MAX_QUEUED {
            output.add(Entry::Line(plugin.clone(), "line".into()));
        }
        let end_hang = async {
            tokio::time::sleep(2 * FLUSH_INTERVAL).await;
            drop(hang);
        };
        tokio::join!(output.flush(), end_hang);
        let written = manager.lines.load(Ordering::Relaxed);
        assert!(written >= MAX_QUEUED as u64, "only {written} lines were written");
    }

    #[test]
    fn lines_are_split_wherever_reads_end() {
        check(&[b"a\nb\n\n  \nc"], &["a", "b", "c"]);
        check(&[b"a", b"b", b"c\nd", b"\n"], &["abc", "d"]);
        check(&[b"bell\x07\x1b[31m\r\n\tx\xff"], &["bell\u{fffd}\u{fffd}[31m", "\tx\u{fffd}"]);
        let long = "x".repeat(MAX_LINE);
        check(&[long.as_bytes(), b"\n"], &[&long]);
        check(&[long.as_bytes(), b"y", b"y\nz\n"], &[&format!("{long} (cut)"), "z"]);
    }
}

//! Standard output and error of launched plugins, passed line by line to the
//! [`ContainerManager`](crate::ContainerManager).
//!
//! A slow log never blocks a plugin: a bounded queue holds the lines, and lines for which the queue
//! has no room are dropped and counted. A separate thread passes the lines on, since writing a log
//! may block. [`crate::launch::output_limit`] limits how much of one plugin is passed on.

use nri_api::PluginId;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::warn;

use crate::launch::output_limit::{LimitedPipe, Output};
use crate::manager::{ContainerManager, warning};
use crate::plugin::kept_lines::KeptLines;

/// Size of a pipe in bytes, all of which one read takes.
const PIPE_SIZE: usize = 64 << 10;
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
        let mut pipe = LimitedPipe::new(plugin.clone(), pipe)?;
        let (mut lines, mut buffer) = (Lines::default(), vec![0; PIPE_SIZE]);
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
                ready = pipe.ready() => {
                    ready?;
                    let output;
                    (pipe, output) = pipe.read(&mut buffer)?;
                    match output {
                        Output::Logged(n) => lines.add(&buffer[..n], each),
                        Output::Dropped(n) => {
                            if let Some(last) = lines.skip(&buffer[..n], each) {
                                kept.add(&last, None);
                            }
                        }
                        Output::None => {}
                        Output::End => break,
                    }
                }
            }
        }
        lines.end(each);
        pipe.report();
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
    /// Whether the beginning of the current line was dropped, so that its rest is, too.
    is_skipped: bool,
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

    /// Ends the current line, since `dropped` has been dropped. Returns the last line of that.
    fn skip(&mut self, dropped: &[u8], each: impl FnMut(String)) -> Option<String> {
        self.is_cut |= !self.line.is_empty();
        self.end(each);
        self.is_skipped = !dropped.ends_with(b"\n");
        let line = dropped.rsplit(|b| *b == b'\n').nth(1)?;
        Some(text(&line[..line.len().min(MAX_LINE)])).filter(|text| !text.is_empty())
    }

    fn add(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            if self.is_skipped {
                self.is_skipped = !piece.ends_with(b"\n");
                continue;
            }
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
        let mut text = text(&self.line);
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

/// Returns the text of a line. Control characters could break the line of the log, or act on a
/// terminal.
fn text(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let printable = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    text.trim_end().chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::Snapshot;
    use nri_api::proto::{ContainerEviction, ContainerUpdate};
    use std::io::Write;
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

    /// Counts the lines that are passed on.
    fn counting_log() -> Arc<HangingLog> {
        let (hang, end_of_hang) = std::sync::mpsc::channel();
        drop(hang);
        Arc::new(HangingLog { end_of_hang: Mutex::new(end_of_hang), lines: AtomicU64::new(0) })
    }

    /// Returns the processor time that this thread has used.
    fn thread_time() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    #[tokio::test]
    async fn a_plugin_that_floods_its_output_is_slowed_down_and_costs_little() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (_ended, exited) = watch::channel(false);
        let (_configured, requests) = mpsc::channel(1);
        let written = Arc::new(AtomicU64::new(0));
        let counted = written.clone();
        let flood = std::thread::spawn(move || {
            let line = b"a line as plugins write them, with a time, a level and a container\n";
            while writer.write_all(line).is_ok() {
                counted.fetch_add(line.len() as u64, Ordering::Relaxed);
            }
        });
        let plugin = PluginId::new("10", "a").unwrap();
        let output = PluginOutput::new(counting_log());
        let (start, time) = (thread_time(), Duration::from_secs(3));
        let read = output.read(plugin, reader.into(), requests, exited, KeptLines::default());
        assert!(tokio::time::timeout(time, read).await.is_err(), "the flood has ended");
        let (used, written) = (thread_time() - start, written.load(Ordering::Relaxed));
        flood.join().unwrap();
        println!("read {written} bytes in {time:?}, {used:?} of processor time");
        assert!(written < 16 << 20, "{written} bytes");
    }

    #[tokio::test]
    async fn lines_after_a_flood_are_kept_up_to_the_exit() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (ended, exited) = watch::channel(false);
        let (_configured, requests) = mpsc::channel(1);
        let flood = std::thread::spawn(move || {
            writer.write_all("of the flood\n".repeat(160 << 10).as_bytes()).unwrap();
            writer.write_all(b"error: gives up\n").unwrap();
            ended.send_replace(true);
        });
        let (log, kept) = (counting_log(), KeptLines::default());
        let plugin = PluginId::new("10", "a").unwrap();
        let output = PluginOutput::new(log.clone());
        output.read(plugin, reader.into(), requests, exited, kept.clone()).await.unwrap();
        flood.join().unwrap();
        assert_eq!(kept.last().as_deref(), Some("error: gives up"));
    }

    #[test]
    fn a_line_whose_begin_or_end_is_dropped_is_cut_or_left_out() {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut each = |line: String| found.push(line);
        lines.add(b"a\nbegin", &mut each);
        assert_eq!(lines.skip(b"x", &mut each), None);
        assert_eq!(lines.skip(b"y\nlast\nz", &mut each).as_deref(), Some("last"));
        lines.add(b"of one", &mut each);
        lines.add(b" line\nb\n", &mut each);
        assert_eq!(lines.skip(b"z\nlast\x07\n", &mut each).as_deref(), Some("last\u{fffd}"));
        lines.add(b"c", &mut each);
        lines.end(&mut each);
        assert_eq!(found, ["a", "begin (cut)", "b", "c"]);
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

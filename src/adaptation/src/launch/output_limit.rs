//! Limit of the output of one plugin, so that a plugin that floods it costs little.
//!
//! Each plugin may write [`BURST`] bytes at once, and [`RATE`] bytes a second from then on. What it
//! writes beyond that is read, and dropped: a plugin that waits for room in its pipe replies to no
//! request. But it is read in intervals of [`PAUSE`], without an event for each of its writes, and
//! as much as the pipe holds, so that a plugin that writes more than 640 KiB/s does wait.

use nri_api::PluginId;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep};
use tracing::warn;

/// Bytes that a plugin may write at once: what a plugin logs that is synchronized with thousands of
/// containers.
const BURST: u64 = 1 << 20;
/// Bytes that a plugin may write in a second for long: more than a hundred lines.
const RATE: u64 = 16 << 10;
/// Bytes that a plugin must be allowed to write before its lines are logged again: several lines
/// that belong together.
const RESUME: u64 = 64 << 10;
/// Interval between two reads of output that is dropped.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval between two lines about dropped output.
const REPORT: Duration = Duration::from_secs(60);

/// The pipe of a plugin, and how much the plugin may write.
pub(crate) struct LimitedPipe {
    plugin: PluginId,
    pipe: Pipe,
    /// Bytes that the plugin may write at `counted`.
    left: u64,
    counted: Instant,
    /// Bytes that were dropped since `reported`.
    dropped: u64,
    reported: Option<Instant>,
}

enum Pipe {
    /// Its lines are logged.
    Logged(pipe::Receiver),
    /// Its lines are dropped. The kernel reports no writes, each of which would wake this process.
    Dropped(OwnedFd),
}

/// What a read has found.
pub(crate) enum Output {
    /// Bytes at the beginning of the buffer.
    Logged(usize),
    /// Bytes at the beginning of the buffer that are to be dropped.
    Dropped(usize),
    /// The pipe is empty.
    None,
    /// The pipe has been closed.
    End,
}

impl LimitedPipe {
    pub(crate) fn new(plugin: PluginId, pipe: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            plugin,
            pipe: Pipe::Logged(pipe::Receiver::from_owned_fd(pipe)?),
            left: BURST,
            counted: Instant::now(),
            dropped: 0,
            reported: None,
        })
    }

    /// Waits until the pipe is to be read.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        match &self.pipe {
            Pipe::Logged(pipe) => pipe.readable().await,
            Pipe::Dropped(_) => {
                sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    /// Reads what the pipe holds, as far as the buffer has room.
    pub(crate) fn read(mut self, buffer: &mut [u8]) -> io::Result<(Self, Output)> {
        let read = match &self.pipe {
            Pipe::Logged(pipe) => pipe.try_read(buffer),
            Pipe::Dropped(pipe) => rustix::io::read(pipe, buffer).map_err(io::Error::from),
        };
        let bytes = match read {
            Ok(0) => return Ok((self, Output::End)),
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        self.refill();
        self.pipe = match self.pipe {
            Pipe::Logged(pipe) => match self.left.checked_sub(bytes as u64) {
                Some(left) => {
                    self.left = left;
                    let output = if bytes == 0 { Output::None } else { Output::Logged(bytes) };
                    return Ok((Self { pipe: Pipe::Logged(pipe), ..self }, output));
                }
                None => Pipe::Dropped(pipe.into_nonblocking_fd()?),
            },
            Pipe::Dropped(pipe) if self.left >= RESUME => {
                Pipe::Logged(pipe::Receiver::from_owned_fd(pipe)?)
            }
            dropped => dropped,
        };
        self.dropped += bytes as u64;
        if self.reported.is_none_or(|reported| reported.elapsed() >= REPORT) {
            self.report();
        }
        Ok((self, if bytes == 0 { Output::None } else { Output::Dropped(bytes) }))
    }

    /// Logs how much output was dropped since the last such line.
    pub(crate) fn report(&mut self) {
        let bytes = std::mem::take(&mut self.dropped);
        if bytes > 0 {
            let plugin = &self.plugin;
            warn!(%plugin, bytes, "output of the plugin dropped, more than {RATE} B/s");
            self.reported = Some(Instant::now());
        }
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let millis = now.duration_since(self.counted).as_millis();
        let added = u64::try_from(millis).unwrap_or(u64::MAX).saturating_mul(RATE) / 1000;
        // Otherwise frequent reads would add nothing.
        if added > 0 {
            self.counted = now;
            self.left = self.left.saturating_add(added).min(BURST);
        }
    }
}

impl AsFd for LimitedPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.pipe {
            Pipe::Logged(pipe) => pipe.as_fd(),
            Pipe::Dropped(pipe) => pipe.as_fd(),
        }
    }
}

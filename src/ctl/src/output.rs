//! Standard output that ignores a closed pipe: `nrictl status | head` has the same exit code as
//! `nrictl status`. A command that follows something ends with its reader: [`wait_for_reader`].

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, ErrorKind, StdoutLock, Write},
    os::fd::AsFd,
    thread,
    time::Duration,
};

/// Locks standard output.
pub(crate) fn output() -> Output<StdoutLock<'static>> {
    Output(io::stdout().lock())
}

/// Waits for this time. Returns at once, and false, if no one reads standard output any more: the
/// other end of the pipe or terminal is closed.
pub(crate) fn wait_for_reader(time: Duration) -> bool {
    is_read(&io::stdout(), time)
}

fn is_read(out: &impl AsFd, time: Duration) -> bool {
    // Without a flag, only errors end the wait: those of a closed reader.
    let mut files = [PollFd::new(out, PollFlags::empty())];
    match Timespec::try_from(time).map(|limit| poll(&mut files, Some(&limit))) {
        Ok(Ok(0)) => true,
        Ok(Ok(_)) => false,
        // A signal, such as that of a resized terminal.
        Ok(Err(_)) | Err(_) => {
            thread::sleep(time);
            true
        }
    }
}

/// A writer that ignores a closed pipe.
pub(crate) struct Output<W>(W);

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, time::Instant};

    #[test]
    fn a_closed_pipe_is_ignored_and_a_full_disk_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut out = Output(io::LineWriter::new(writer));
        writeln!(out, "unread").unwrap();
        out.flush().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let e = writeln!(Output(full), "too much").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn a_wait_ends_with_the_reader() {
        let (reader, writer) = io::pipe().unwrap();
        let start = Instant::now();
        assert!(is_read(&writer, Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(is_read(&tempfile::tempfile().unwrap(), Duration::from_millis(1)));
        drop(reader);
        assert!(!is_read(&writer, Duration::from_secs(60)));
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

//! Standard output that ignores a closed pipe: `nrictl status | head` has the same exit code as
//! `nrictl status`.

use std::io::{self, ErrorKind, StdoutLock, Write};

/// Locks standard output.
pub(crate) fn output() -> Output<StdoutLock<'static>> {
    Output(io::stdout().lock())
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
    use std::fs::File;

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
}

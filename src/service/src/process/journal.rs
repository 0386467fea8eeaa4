//! Sends lines of the log to journald, with their fields, by its
//! [native protocol](https://systemd.io/JOURNAL_NATIVE_PROTOCOL/). Never waits for journald.
//! Libraries of this protocol wait while journald does not read, and do not return errors.

use nri_files::LOG_IDENTIFIER;
use nri_values::printable;
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
        SocketFlags, SocketType, sendmsg_addr, sendto, socket_with, sockopt,
    },
};
use std::{
    fmt,
    fs::File,
    io::{self, IoSlice, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
};
use tracing::{
    Event, Level,
    field::{Field, Visit},
};
use tracing_subscriber::fmt::{FormatFields, format::DefaultFields, format::Writer};

/// Where journald listens.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Variable in which systemd names the device and inode of a standard error that is the journal.
const STREAM: &str = "JOURNAL_STREAM";

/// Send buffer, the same as of systemd's own library.
const SEND_BUFFER: usize = 8 << 20;

/// A socket that sends to journald. journald may end and start again.
#[derive(Debug)]
pub(super) struct Journal {
    socket: OwnedFd,
    address: SocketAddrUnix,
}

impl Journal {
    /// Creates the socket. journald need not run.
    pub(super) fn new() -> io::Result<Self> {
        Self::at(SOCKET)
    }

    fn at(path: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        // The limit of the system may be lower.
        let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
        Ok(Self { socket, address: SocketAddrUnix::new(path)? })
    }

    /// Checks that journald receives. It ignores an entry without fields.
    pub(super) fn check(&self) -> io::Result<()> {
        self.send(&[])
    }

    /// Sends an event: its line as `MESSAGE`, and each of its fields.
    ///
    /// # Errors
    /// journald does not run, or has not read as many entries as its socket holds.
    pub(super) fn send_event(&self, event: &Event<'_>) -> io::Result<()> {
        let metadata = event.metadata();
        let mut line = String::new();
        // Writing to a string does not fail.
        let _ = DefaultFields::new().format_fields(Writer::new(&mut line), event);
        let mut entry = Entry::new(*metadata.level(), &line);
        entry.add("TARGET", metadata.target());
        event.record(&mut entry);
        self.send(&entry.0)
    }

    /// Sends a line that is no event.
    ///
    /// # Errors
    /// As [`Journal::send_event`].
    pub(super) fn send_line(&self, level: Level, line: &str) -> io::Result<()> {
        self.send(&Entry::new(level, line).0)
    }

    fn send(&self, entry: &[u8]) -> io::Result<()> {
        loop {
            return match sendto(&self.socket, entry, SendFlags::NOSIGNAL, &self.address) {
                Ok(_) => Ok(()),
                Err(Errno::INTR) => continue,
                // Larger than a datagram.
                Err(Errno::MSGSIZE | Errno::NOBUFS) => self.send_in_file(entry),
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Sends an entry as a sealed file in memory.
    fn send_in_file(&self, entry: &[u8]) -> io::Result<()> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("nrid-log", flags)?);
        file.write_all(entry)?;
        fcntl_add_seals(
            &file,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
        )?;
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let no_bytes = [IoSlice::new(&[])];
        sendmsg_addr(&self.socket, &self.address, &no_bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Whether standard error is the journal: systemd names its device and inode.
pub(super) fn is_stderr() -> bool {
    let Ok(stream) = std::env::var(STREAM) else { return false };
    let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let meta = stderr.and_then(|file| file.metadata());
    meta.is_ok_and(|meta| stream == format!("{}:{}", meta.dev(), meta.ino()))
}

/// An entry of the journal: for each field its name, its length, and its value.
struct Entry(Vec<u8>);

impl Entry {
    fn new(level: Level, line: &str) -> Self {
        let mut entry = Self(Vec::with_capacity(512));
        // As in syslog(3): err, warning, info, debug.
        let priority = match level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "6",
            Level::DEBUG | Level::TRACE => "7",
        };
        entry.add("PRIORITY", priority);
        entry.add("SYSLOG_IDENTIFIER", LOG_IDENTIFIER);
        entry.add("MESSAGE", &printable(line));
        entry
    }

    fn add(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'\n');
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }

    /// Adds a field of an event. journald ignores fields whose names have other characters than
    /// these, and those that begin with an underscore.
    fn add_field(&mut self, field: &Field, value: &str) {
        let upper = field.name().trim_start_matches('_').to_ascii_uppercase();
        let name = upper.replace(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit(), "_");
        // The line has the message.
        if name != "MESSAGE" {
            self.add(&name, value);
        }
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_field(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_field(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    use std::{
        io::{IoSliceMut, Read, Seek},
        os::unix::net::UnixDatagram,
    };

    #[test]
    fn a_large_entry_is_sent_as_a_sealed_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(path.to_str().unwrap()).unwrap();
        journal.send_line(Level::WARN, &"x".repeat(20 << 20)).unwrap();
        let mut bytes = [0; 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::empty(),
        );
        assert_eq!(received.unwrap().bytes, 0);
        let fds = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let mut file = File::from(fds.unwrap());
        assert!(rustix::fs::fcntl_get_seals(&file).unwrap().contains(SealFlags::WRITE));
        file.rewind().unwrap();
        let mut entry = Vec::new();
        file.read_to_end(&mut entry).unwrap();
        assert!(entry.starts_with(b"PRIORITY\n\x01\0\0\0\0\0\0\x004\n"), "{:?}", &entry[..64]);
        assert!(entry.len() > 20 << 20 && entry.ends_with(b"xxx\n"));
    }

    #[test]
    fn a_journald_that_does_not_read_or_does_not_run_is_an_error_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(path.to_str().unwrap()).unwrap();
        journal.check().unwrap();
        let mut sent = (0..100_000).map(|_| journal.send_line(Level::INFO, "line"));
        let error = sent.find_map(Result::err).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(socket);
        assert_eq!(journal.check().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(journal.check().unwrap_err().kind(), io::ErrorKind::NotFound);
        // journald starts again, with a new socket.
        let _socket = UnixDatagram::bind(&path).unwrap();
        journal.check().unwrap();
    }

    #[test]
    fn names_of_fields_are_those_that_journald_accepts() {
        #[derive(Default)]
        struct Entries(std::sync::Mutex<Vec<u8>>);
        impl tracing::Subscriber for Entries {
            fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
                true
            }
            fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
                tracing::span::Id::from_u64(1)
            }
            fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
            fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
            fn event(&self, event: &Event<'_>) {
                let mut entry = Entry(Vec::new());
                event.record(&mut entry);
                self.0.lock().unwrap().extend(entry.0);
            }
            fn enter(&self, _: &tracing::span::Id) {}
            fn exit(&self, _: &tracing::span::Id) {}
        }
        let entries = std::sync::Arc::new(Entries::default());
        tracing::subscriber::with_default(entries.clone(), || {
            tracing::info!(container = "c\n1", _x.y = 7, "message");
        });
        let found = entries.0.lock().unwrap().clone();
        let expected = b"CONTAINER\n\x03\0\0\0\0\0\0\0c\n1\nX_Y\n\x01\0\0\0\0\0\0\x007\n";
        assert_eq!(found, expected);
    }
}

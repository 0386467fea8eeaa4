//! The kernel's log, as far as it says that the OOM killer has killed a process.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
};

/// Maximum number of records that are read: more than the largest buffer of usual kernels holds.
const MAX_RECORDS: usize = 200_000;

/// Maximum size of a record, in bytes: `PRINTKRB_RECORD_MAX` of the kernel (8 KiB since Linux 4.9).
const MAX_RECORD: usize = 8192;

/// Returns the message about the end of a process called `name`, if the OOM killer has killed it
/// and the kernel's log still has the message.
///
/// # Errors
/// The log cannot be read: it needs `CAP_SYSLOG` on most hosts.
pub fn oom_kill(pid: u32, name: &str) -> io::Result<Option<String>> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits());
    let flags = nonblocking.map_err(io::Error::other)?;
    let log = File::options().read(true).custom_flags(flags).open("/dev/kmsg")?;
    find(log, pid, name)
}

/// Searches a log whose `read` returns one record, and [`io::ErrorKind::WouldBlock`] at the end.
fn find(mut log: impl Read, pid: u32, name: &str) -> io::Result<Option<String>> {
    let killed = format!("Killed process {pid} ({name})");
    let mut record = vec![0; MAX_RECORD];
    let mut found = None;
    for _ in 0..MAX_RECORDS {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(size) => {
                let text = String::from_utf8_lossy(&record[..size]);
                // The prefix ends with a semicolon, and further lines have properties.
                let message = text.split_once(';').map_or("", |(_, message)| message);
                let message = message.lines().next().unwrap_or_default();
                if let Some(at) = message.find(&killed) {
                    found = Some(message[..at + killed.len()].to_owned());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // The record was overwritten meanwhile; the next `read` returns the oldest one.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records, one for each `read`. `None` was overwritten.
    struct Records(Vec<Option<&'static str>>);

    impl Read for Records {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let record = self.0.remove(0).ok_or(io::ErrorKind::BrokenPipe)?;
            buffer[..record.len()].copy_from_slice(record.as_bytes());
            Ok(record.len())
        }
    }

    #[test]
    fn a_kill_is_found_among_other_records() {
        let records = || {
            Records(vec![
                None,
                Some("6,1,10,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=nrid,pid=77,uid=0\n"),
                Some(
                    "3,2,11,-;Memory cgroup out of memory: Killed process 77 (nrid) \
                     total-vm:9kB, anon-rss:8kB\n SUBSYSTEM=memory\n",
                ),
                Some("3,3,12,-;Out of memory: Killed process 78 (other) total-vm:9kB\n"),
            ])
        };
        let found = find(records(), 77, "nrid").unwrap();
        assert_eq!(found.as_deref(), Some("Memory cgroup out of memory: Killed process 77 (nrid)"));
        assert_eq!(find(records(), 78, "nrid").unwrap(), None);
        assert_eq!(find(records(), 7, "nrid").unwrap(), None);
    }
}

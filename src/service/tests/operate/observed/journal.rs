//! Tests of the log in the journal: with a socket in place of journald, and with journald itself,
//! in mount namespaces.

use crate::{
    create::{bundle_with, create},
    node::{Node, Nrid, wait_until},
};
use nri_control::{Reply, Request};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// `config.json` of a container.
const CONFIG: &str = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"cwd":"/","env":[]}}"#;

const JOURNAL: &str = "[log]\nlevel = 'debug'\ndestination = 'journal'\n";

/// Puts the directory `$JOURNAL` where journald listens, and executes a program.
const SCRIPT: &str = "mount -t tmpfs run /run && mkdir -p /run/systemd/journal /run/log/journal && \
                      mount --bind \"$JOURNAL\" /run/systemd/journal && \
                      mount --bind \"$ENTRIES\" /run/log/journal && exec \"$0\" \"$@\"";

/// Becomes a program whose standard error seems to be the journal.
const IN_UNIT: &str = "JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec \"$0\" \"$@\"";

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Directories of a journal, below that of a node.
struct JournalDirs {
    socket: PathBuf,
    entries: PathBuf,
}

impl JournalDirs {
    fn new(node: &Node) -> Self {
        let dirs = Self { socket: node.path("j"), entries: node.path("entries") };
        fs::create_dir(&dirs.socket).unwrap();
        fs::create_dir(&dirs.entries).unwrap();
        dirs
    }

    /// Returns a command in a mount namespace with these directories.
    fn command(&self, program: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT]).args(program);
        command.env("JOURNAL", &self.socket).env("ENTRIES", &self.entries);
        command
    }

    /// Listens in place of journald.
    fn listen(&self) -> UnixDatagram {
        let path = self.socket.join("socket");
        let _ = fs::remove_file(&path);
        UnixDatagram::bind(path).unwrap()
    }
}

fn start(node: &Node, dirs: &JournalDirs) -> Nrid {
    node.start_command(dirs.command(&[env!("CARGO_BIN_EXE_nrid")]))
}

/// Whether these tests can run: only root can mount.
fn can_mount() -> bool {
    rustix::process::geteuid().is_root()
}

/// Creates a container, whose lines are logged.
fn log_container(node: &Node, id: &str) {
    let (reply, client) = create(node, id, &bundle_with(node, id, CONFIG));
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    drop(client);
}

fn file(node: &Node) -> String {
    fs::read_to_string(node.state_dir().join("nrid.log")).unwrap_or_default()
}

/// Returns the fields of an entry, each of which is a name, a length and a value of this length.
fn fields(mut entry: &[u8]) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = BTreeMap::new();
    while let Some(end) = entry.iter().position(|byte| *byte == b'\n') {
        let (length, rest) = entry[end + 1..].split_first_chunk::<8>().unwrap();
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
        found.insert(text(&entry[..end]), text(&rest[..length]));
        entry = &rest[length + 1..];
    }
    found
}

/// Returns what is received. Reads at once, as journald does: the queue of a socket may be short.
fn read(socket: UnixDatagram) -> mpsc::Receiver<BTreeMap<String, String>> {
    let (sender, entries) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length) = socket.recv(&mut bytes) {
            let entry = fields(&bytes[..length]);
            // An entry without fields is a check.
            if !entry.is_empty() && sender.send(entry).is_err() {
                break;
            }
        }
    });
    entries
}

fn is_event(line: &str) -> bool {
    line.contains(" event=") && line.contains("CreateContainer")
}

/// Returns the number of lines of the event `CreateContainer` in a text, or in messages.
fn count_events<'a>(lines: impl IntoIterator<Item = &'a str>) -> usize {
    lines.into_iter().filter(|line| is_event(line)).count()
}

fn messages(entries: &[BTreeMap<String, String>]) -> Vec<&str> {
    entries.iter().map(|entry| entry["MESSAGE"].as_str()).collect()
}

#[test]
fn lines_go_to_the_journal_with_their_fields() {
    if !can_mount() {
        println!("skipped: only root can mount");
        return;
    }
    let node = Node::new(JOURNAL);
    node.plugin("10-logger");
    let dirs = JournalDirs::new(&node);
    let socket = dirs.listen();
    let entries = read(socket);
    let nrid = start(&node, &dirs);
    let status = node.status();
    assert!(status.log_is_journal && status.log.is_none(), "{status:?}");
    log_container(&node, "c1");
    let entry = wait_until("the line of the event", || {
        let is_event = |entry: &BTreeMap<String, String>| {
            entry.get("EVENT").is_some_and(|event| event == "CreateContainer")
        };
        entries.try_iter().find(is_event)
    });
    for (name, value) in [
        ("CONTAINER", "c1"),
        ("POD", "c1"),
        ("PLUGIN", "10-logger"),
        ("PRIORITY", "7"),
        ("SYSLOG_IDENTIFIER", "nrid"),
    ] {
        assert_eq!(entry.get(name).map(String::as_str), Some(value), "{name}: {entry:?}");
    }
    let message = &entry["MESSAGE"];
    assert!(message.starts_with("event ") && message.contains("container=\"c1\""), "{message}");
    assert_eq!((nrid.output(), count_events(file(&node).lines())), (String::new(), 0));
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn lines_go_to_the_file_while_journald_does_not_receive() {
    if !can_mount() {
        println!("skipped: only root can mount");
        return;
    }
    let node = Node::new(JOURNAL);
    node.plugin("10-logger");
    let dirs = JournalDirs::new(&node);
    // Without journald.
    let nrid = start(&node, &dirs);
    log_container(&node, "c0");
    let status = node.status();
    assert!(status.log.is_some() && status.log_is_journal, "{status:?}");
    assert!(status.journal_error.is_some_and(|error| error.contains("No such file")));
    assert!(file(&node).contains("WARN journald does not receive, lines go to this file"));
    assert_eq!(count_events(file(&node).lines()), 1);

    // journald starts, and then hangs: it listens, and does not read.
    let socket = dirs.listen();
    let began = Instant::now();
    let mut created = 1;
    wait_until("a full queue", || {
        log_container(&node, &format!("c{created}"));
        created += 1;
        node.status().journal_error.filter(|_| count_events(file(&node).lines()) > 1)
    });
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let error = node.status().journal_error.unwrap();
    assert!(error.contains("temporarily unavailable"), "{error}");

    // It reads again: no line is lost, and the journal says where the others are.
    let reader = read(socket);
    wait_until("the journal", || {
        log_container(&node, &format!("c{created}"));
        created += 1;
        node.status().journal_error.is_none().then_some(())
    });
    let from = format!("lines in {}: ", node.state_dir().join("nrid.log").display());
    let mut entries = Vec::new();
    wait_until("all lines, and the number of those in the file", || {
        entries.extend(reader.try_iter());
        if node.status().journal_error.is_some() {
            log_container(&node, &format!("c{created}"));
            created += 1;
            return None;
        }
        let messages = messages(&entries);
        let resumed = messages.iter().filter_map(|message| message.split_once(&from));
        let (causes, counts): (Vec<_>, Vec<_>) = resumed.unzip();
        let cause = "journald did not receive (No such file";
        assert!(causes.first().is_none_or(|first| first.starts_with(cause)), "{causes:?}");
        let counted: usize = counts.iter().map(|count| count.parse::<usize>().unwrap()).sum();
        let file = file(&node);
        let own = "journald does not receive, lines go to this file";
        let lines = file.lines().filter(|line| !line.contains(own)).count();
        let events = count_events(messages) + count_events(file.lines());
        (events == created && counts.len() >= 2 && counted == lines).then_some(())
    });
    assert_eq!(nrid.output(), "");
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn a_log_whose_standard_error_is_the_journal_goes_there_with_fields() {
    if !can_mount() {
        println!("skipped: only root can mount");
        return;
    }
    for (config, is_journal) in [("", true), ("[log]\nfile = '/dev/null'\n", false)] {
        let node = Node::new(config);
        let dirs = JournalDirs::new(&node);
        let _socket = dirs.listen();
        let nrid =
            node.start_command(dirs.command(&["sh", "-c", IN_UNIT, env!("CARGO_BIN_EXE_nrid")]));
        assert_eq!(node.status().log_is_journal, is_journal);
        // A reload without journald continues in the file, not in a stream that journald reads.
        drop(_socket);
        assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
        assert_eq!(node.status().journal_error.is_some(), is_journal);
        assert_eq!(nrid.output(), "");
        node.stop();
        nrid.wait_for_exit();
    }
}

/// A journald, killed when it is dropped.
struct Journald(Child);

impl Journald {
    fn start(dirs: &JournalDirs) -> Self {
        let mut command = dirs.command(&[JOURNALD]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Journald {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the journal has an entry of a container, as journalctl finds it.
fn wait_for_entry(dirs: &JournalDirs, container: &str) -> String {
    wait_until("the entry", || {
        let mut command = Command::new("journalctl");
        command.arg("-D").arg(&dirs.entries).args([
            "-t",
            "nrid",
            "-o",
            "cat",
            "EVENT=CreateContainer",
        ]);
        let output = command.arg(format!("CONTAINER={container}")).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        (!lines.is_empty()).then_some(lines)
    })
}

#[test]
fn journalctl_finds_lines_by_container_after_a_restart_of_journald() {
    if !can_mount() {
        println!("skipped: only root can mount");
        return;
    }
    if !Path::new(JOURNALD).exists() {
        println!("skipped: {JOURNALD} is not installed");
        return;
    }
    let node = Node::new(JOURNAL);
    node.plugin("10-logger");
    let dirs = JournalDirs::new(&node);
    let journald = Journald::start(&dirs);
    wait_until("journald", || dirs.socket.join("socket").exists().then_some(()));
    let nrid = start(&node, &dirs);
    log_container(&node, "c1");
    let lines = wait_for_entry(&dirs, "c1");
    assert!(lines.starts_with("event ") && lines.contains("plugin=10-logger"), "{lines}");

    let nrictl = Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("nrictl");
    let mut logs = dirs.command(&[nrictl.to_str().unwrap()]);
    logs.arg("logs").arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    let logs = logs.output().unwrap();
    let lines = String::from_utf8(logs.stdout).unwrap();
    let line = lines.lines().find(|line| is_event(line));
    assert!(line.is_some_and(|line| line.contains("Z DEBUG event ")), "{lines}");

    drop(journald);
    log_container(&node, "c2");
    assert_eq!(count_events(file(&node).lines()), 1);
    let _journald = Journald::start(&dirs);
    wait_until("journald", || {
        node.call(&Request::Reload);
        node.status().journal_error.is_none().then_some(())
    });
    log_container(&node, "c3");
    wait_for_entry(&dirs, "c3");
    node.stop();
    nrid.wait_for_exit();
}

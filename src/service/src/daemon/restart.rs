//! Another program in our place: the one that is installed now goes on in this process, with our
//! sockets and the lock, so that nobody who connects meanwhile is refused. It finds the containers
//! in the records, as any successor does.
//!
//! It is asked for (`nrictl restart`), or begins by itself when a caller is of another version and
//! the file that we were started from was replaced: once for each file, so that callers of two
//! versions do not make it restart for ever. Launched plugins end and are launched again; external
//! ones lose their connection, as with an engine that is restarted. If the other program cannot be
//! run, we go on as we were, with the same sockets.

use crate::{
    daemon::{
        sockets::Socket,
        systemd::{Activation, Passed},
    },
    error::{Error, OperatorError, TakeoverError},
    service::{Ending, Service},
    settings::load::Settings,
};
use nri_trust::Owners;
use serde::{Deserialize, Serialize};
use std::{
    ffi::{CString, OsString},
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStringExt, fs::MetadataExt, net::UnixListener},
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Tells the next program which descriptors are what.
pub const HANDOVER: &str = "NRI_CONTAINER_RUNTIME_HANDOVER";

/// How long a program may take to say that it can be run.
const CHECK: Duration = Duration::from_secs(10);

/// Device, inode, size, and when it was changed.
type Identity = (u64, u64, u64, i64, i64);

/// The program that we are.
#[derive(Debug)]
pub struct Program {
    /// The path that it was started from.
    pub path: PathBuf,
    identity: Identity,
    /// The file whose turn came last, and why it is not in our place.
    tried: Mutex<Tried>,
}

#[derive(Debug, Default)]
struct Tried {
    file: Option<Identity>,
    error: Option<String>,
}

impl Program {
    /// Looks who we are; none where the kernel does not tell. `failed`: why another program is not
    /// in our place.
    pub fn own(failed: Option<String>) -> Option<Self> {
        let link = Path::new("/proc/self/exe");
        let path = fs::read_link(link).ok()?.into_os_string().into_vec();
        // What the kernel adds when the file is not there any more.
        let path = path.strip_suffix(b" (deleted)").unwrap_or(&path).to_vec();
        let path = PathBuf::from(OsString::from_vec(path));
        let tried =
            Tried { file: failed.is_some().then(|| identity(&path)).flatten(), error: failed };
        Some(Self { path, identity: identity(link)?, tried: Mutex::new(tried) })
    }

    /// Whether there is another file at its path now, or none.
    pub fn is_replaced(&self) -> bool {
        identity(&self.path) != Some(self.identity)
    }

    /// Why it is not in our place, when that was tried last.
    pub fn error(&self) -> Option<String> {
        self.tried().error.clone()
    }

    /// Whether the file that is there now is another one, whose turn has not come.
    fn begin(&self) -> bool {
        let now = identity(&self.path);
        let mut tried = self.tried();
        if now.is_none() || now == Some(self.identity) || now == tried.file {
            return false;
        }
        *tried = Tried { file: now, error: None };
        true
    }

    fn fail(&self, message: String) {
        self.tried().error = Some(message);
    }

    fn tried(&self) -> std::sync::MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

impl Service {
    /// Ends cleanly, for the program of this path, or of our own.
    ///
    /// # Errors
    /// It is not there, others could replace it, or it does not run with the present configuration.
    /// Nothing has changed then.
    pub async fn restart(&self, program: Option<&Path>) -> Result<(), Error> {
        let path = match (program, &self.program) {
            (Some(path), _) => path.to_owned(),
            (None, Some(own)) => own.path.clone(),
            (None, None) => return Err(OperatorError::ProgramUnknown.into()),
        };
        if let Err(source) = check(&path, &self.settings()).await {
            let error = Error::from(OperatorError::Takeover { program: path, source });
            let message = error.line("");
            tracing::error!("{message}");
            if let Some(own) = &self.program {
                own.fail(message);
            }
            return Err(error);
        }
        tracing::info!(program = %path.display(), "restarting");
        self.end(Ending::Restart(path));
        Ok(())
    }

    /// A caller is of another version: a file that replaced ours takes over, once nothing is under
    /// way. Returns whether that is about to be.
    pub fn met_other(self: &Arc<Self>, version: &str) -> bool {
        let Some(own) = &self.program else { return false };
        if own.begin() {
            tracing::info!(
                version,
                "a caller is of another version, and {} was replaced",
                own.path.display()
            );
            let service = self.clone();
            // A failure is told, and is in the status.
            tokio::spawn(async move { service.restart(None).await.is_ok() });
            return true;
        }
        own.is_replaced() && own.error().is_none()
    }
}

/// Whether a program can take over, with this configuration.
async fn check(path: &Path, settings: &Settings) -> Result<(), TakeoverError> {
    Owners::of_this_process().check(path)?;
    let mut command = tokio::process::Command::new(path);
    command.arg("--check").arg("--state-dir").arg(&settings.state_dir);
    if let Some(config) = settings.named_file() {
        command.arg("--config").arg(config);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(CHECK, command.output()).await;
    let output = output.map_err(|_| TakeoverError::Timeout(CHECK))?.map_err(TakeoverError::Run)?;
    if output.status.success() && output.stdout.starts_with(b"nrid ") {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().strip_prefix("nrid: ").unwrap_or(said.trim());
    Err(match said {
        "" => TakeoverError::Failed(output.status),
        said => TakeoverError::Refused(said.to_owned()),
    })
}

/// What goes over to the next program.
#[derive(Debug)]
pub struct Handover {
    sockets: Vec<Socket>,
    lock: OwnedFd,
}

/// The same in a variable: numbers of descriptors.
#[derive(Debug, Serialize, Deserialize)]
struct Numbers {
    pid: u32,
    /// With the file that was made there, if it was.
    sockets: Vec<(u32, Option<(u64, u64)>)>,
    lock: u32,
}

impl Handover {
    /// Of these sockets. One whose path somebody else has taken stays behind.
    pub fn new(sockets: Vec<Socket>, lock: OwnedFd) -> Self {
        Self { sockets: sockets.into_iter().filter(Socket::is_there).collect(), lock }
    }

    /// Becomes the other program, with our arguments. Returns only if that cannot be.
    pub fn exec(&self, program: &Path, state_dir: &Path) -> io::Error {
        match self.try_exec(program, state_dir) {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    fn try_exec(&self, program: &Path, state_dir: &Path) -> io::Result<std::convert::Infallible> {
        let number = |fd: &OwnedFd| u32::try_from(fd.as_raw_fd()).map_err(io::Error::other);
        let sockets: io::Result<_> =
            self.sockets.iter().map(|s| Ok((number(&s.fd)?, s.made))).collect();
        let numbers =
            Numbers { pid: std::process::id(), sockets: sockets?, lock: number(&self.lock)? };
        let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        arguments.insert(0, program.into());
        let named = |a: &OsString| a.as_encoded_bytes().starts_with(b"--state-dir");
        if !arguments.iter().any(named) {
            arguments.extend(["--state-dir".into(), state_dir.into()]);
        }
        let mut variables: Vec<OsString> = std::env::vars_os()
            .map(|(mut name, value)| {
                name.push("=");
                name.push(value);
                name
            })
            .collect();
        variables.push(format!("{HANDOVER}={}", serde_json::to_string(&numbers)?).into());
        let strings = |all: Vec<OsString>| -> io::Result<Vec<CString>> {
            all.into_iter().map(|s| CString::new(s.into_vec()).map_err(io::Error::other)).collect()
        };
        let path = strings(vec![program.into()])?.remove(0);
        let (arguments, variables) = (strings(arguments)?, strings(variables)?);
        self.set_inherited(true)?;
        let failed = nix::unistd::execve(&path, &arguments, &variables);
        self.set_inherited(false)?;
        Ok(failed?)
    }

    fn set_inherited(&self, inherited: bool) -> io::Result<()> {
        use rustix::io::{FdFlags, fcntl_setfd};
        let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
        for fd in self.sockets.iter().map(|s| &s.fd).chain([&self.lock]) {
            fcntl_setfd(fd, flags)?;
        }
        Ok(())
    }

    /// For ourselves, since the other program could not be run.
    pub fn keep(self, failed: String) -> Activation {
        let pass = |socket: Socket| Passed {
            path: socket.path,
            listener: UnixListener::from(socket.fd),
            made: socket.made,
        };
        let sockets = self.sockets.into_iter().map(pass).collect();
        Activation { sockets, lock: Some(self.lock), failed: Some(failed), ..Activation::default() }
    }
}

/// Takes over what [`Handover::exec`] handed on. At the start of the process, as
/// [`Activation::take`].
///
/// # Errors
/// The descriptors are not what they should be.
pub(crate) fn take(value: &str) -> io::Result<Activation> {
    let numbers: Numbers = serde_json::from_str(value)?;
    if numbers.pid != std::process::id() {
        return Ok(Activation::default());
    }
    let mut sockets = Vec::new();
    for (fd, made) in numbers.sockets {
        let listener = UnixListener::from(crate::host::sys::take_descriptor(fd)?);
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        sockets.push(Passed { path, listener, made });
    }
    let lock = crate::host::sys::take_descriptor(numbers.lock)?;
    rustix::io::fcntl_getfd(lock.as_fd())?;
    Ok(Activation { sockets, lock: Some(lock), ..Activation::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_replaces_ours_has_one_turn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nrid");
        let put = |text: &str| {
            fs::write(dir.path().join("new"), text).unwrap();
            fs::rename(dir.path().join("new"), &path).unwrap();
        };
        put("one");
        let own = Program {
            path: path.clone(),
            identity: identity(&path).unwrap(),
            tried: Mutex::default(),
        };
        assert!(!own.is_replaced() && !own.begin());
        put("two");
        assert!(own.is_replaced() && own.begin() && !own.begin());
        own.fail("does not run".to_owned());
        assert!(!own.begin());
        put("three!");
        assert!(own.begin() && own.error().is_none());
        fs::remove_file(&path).unwrap();
        assert!(own.is_replaced() && !own.begin(), "there is nothing to take our place");
    }
}

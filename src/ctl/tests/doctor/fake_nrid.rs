//! [`FakeNrid`], which listens on the control socket and replies to each request with a given
//! status, or to a verification with given comparisons.

use crate::site::{Findings, Site};
use nri_control::{Reply, Request, Status, Verified, Versioned, receive, send};
use nri_files::{CONTROL_SOCKET, OsText};
use std::{
    fs,
    os::unix::net::UnixListener,
    process::{Child, Command},
};

/// The control socket of a site. It stays there until the test ends.
pub(crate) struct FakeNrid;

impl FakeNrid {
    /// Starts the thread that replies.
    pub(crate) fn start(site: &Site, status: Status) {
        Self::start_with(site, status, Vec::new());
    }

    /// Starts the thread. `verified` is the reply to a verification.
    pub(crate) fn start_with(site: &Site, status: Status, verified: Vec<Verified>) {
        let socket = site.path("s").join(CONTROL_SOCKET);
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(socket).unwrap();
        let encoded = |reply| serde_json::to_vec(&Versioned::ours(reply)).unwrap();
        let status = encoded(Reply::Status(Box::new(status)));
        let verified = encoded(Reply::Verified(verified));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                while let Ok((request, _)) = receive(&stream) {
                    let request: Versioned<Request> = serde_json::from_slice(&request).unwrap();
                    let reply = match request.message {
                        Request::Verify { .. } => &verified,
                        _ => &status,
                    };
                    if send(&stream, reply, &[]).is_err() {
                        break;
                    }
                }
            }
        });
    }
}

/// Returns the status of an `nrid` that has read the configuration of this site.
pub(crate) fn healthy(site: &Site) -> Status {
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        config: Some(OsText::from(site.path("config.toml").as_os_str())),
        plugin_dir: Some(OsText::from(site.path("plugins").as_os_str())),
        mode: "apply".to_owned(),
        ..Status::default()
    }
}

/// Returns the findings of a site whose `nrid` has this status.
pub(crate) fn doctor(site: &Site, status: Status) -> Findings {
    FakeNrid::start(site, status);
    site.doctor()
}

/// A process that does nothing, killed when it is dropped.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

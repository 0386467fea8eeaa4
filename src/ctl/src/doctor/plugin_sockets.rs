//! Checks which process listens on the sockets that plugins connect to.

use super::{
    finding::DoctorReport,
    kinds::{SOCKET_OF_OTHER, SOCKET_OURS, SOCKET_REMOVED, SOCKET_REPLACED, SOCKET_UNUSED},
};
use crate::nrid_location::NridLocation;
use nri_control::Status;
use nri_host::{NriState, RunningEngine, describe, listener_unnoticed};
use nri_locate::PLUGIN_SOCKET;
use std::path::{Path, PathBuf};

/// Our plugin sockets in the state directory.
const OWN_SOCKETS: [&str; 2] = ["plugins/nri.sock", "nri.sock"];

/// Checks our sockets, NRI's default socket, and the sockets of engines. `status` is the reply of
/// `nrid`, if it replies, and its process id, if it runs.
pub(super) fn sockets(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    status: (Option<&Status>, Option<i32>),
    engines: &[RunningEngine],
) {
    let mut paths: Vec<PathBuf> =
        OWN_SOCKETS.iter().map(|name| nrid.launcher.state_dir.join(name)).collect();
    paths.extend(nrid.config.socket_path.clone().filter(|path| !path.as_os_str().is_empty()));
    paths.push(PLUGIN_SOCKET.into());
    paths.extend(engines.iter().filter_map(|engine| match &engine.nri {
        NriState::On { socket, .. } => socket.clone(),
        NriState::Off => None,
    }));
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in paths {
        // A socket that has two paths is checked once: `/var/run` is a link to `/run`.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !seen.contains(&real) {
            seen.push(real);
            socket(report, &path, status, engines);
        }
    }
}

fn socket(
    report: &mut DoctorReport,
    path: &Path,
    (status, nrid_pid): (Option<&Status>, Option<i32>),
    engines: &[RunningEngine],
) {
    let shown = path.display();
    let is_ours = |status: &Status| {
        status.sockets.iter().any(|listed| listed.0.as_os_str() == path.as_os_str())
    };
    let is_listed = status.is_some_and(is_ours);
    // The processes that usually have the socket are looked at before all others.
    let likely: Vec<i32> = nrid_pid.into_iter().chain(engines.iter().map(|e| e.pid)).collect();
    match listener_unnoticed(path, &likely) {
        // systemd (process 1) holds a socket that it opened for nrid.
        Some(pid) if Some(pid) == nrid_pid || (pid == 1 && is_listed) => report.add(
            SOCKET_OURS,
            format!("{shown}: ours; plugins that connect there see every engine's containers"),
        ),
        Some(pid) => {
            let engine = engines.iter().find(|engine| engine.pid == pid);
            let owner =
                engine.map_or_else(|| describe(pid), |e| format!("{} (process {pid})", e.name));
            let text = format!(
                "{shown}: {owner} listens, not nrid; plugins that connect there do not see our \
                 containers"
            );
            report.add(if is_listed { SOCKET_REPLACED } else { SOCKET_OF_OTHER }, text);
            if is_listed {
                report.advise(
                    "That process replaced the socket after nrid had started: `nrictl stop`, and \
                     let plugins use plugins/nri.sock in the state directory.",
                );
            }
        }
        None if is_listed => {
            report.add(
                SOCKET_REMOVED,
                format!("{shown}: nrid's socket was removed (containerd does so when it starts)"),
            );
            report.advise(
                "`nrictl stop`, then `nrictl start`; or let plugins use plugins/nri.sock in the \
                 state directory.",
            );
        }
        None if path.exists() => report.add(SOCKET_UNUSED, format!("{shown}: has no listener")),
        None => report.add(SOCKET_UNUSED, format!("{shown}: does not exist")),
    }
}

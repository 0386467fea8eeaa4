//! Where plugins that connect by themselves reach `nrid`, and who listens on the socket that they
//! connect to by default.

use crate::{nrid_location::NridLocation, output::output};
use nri_control::Status;
use nri_host::{command_name, listener_unnoticed};
use nri_locate::PLUGIN_SOCKET;
use std::{
    io::{self, Write},
    path::Path,
};

/// Socket for plugins, in the state directory.
const OWN_SOCKET: &str = "plugins/nri.sock";

/// Describes the default socket of NRI if another process than this `nrid` listens there.
pub(crate) fn of_other(status: &Status) -> Option<String> {
    let default = Path::new(PLUGIN_SOCKET);
    let ours = i32::try_from(status.pid).ok();
    let is_listed = || status.sockets.iter().any(|socket| socket.as_path() == default);
    // systemd (process 1) holds a socket that it opened for nrid.
    listener(default).filter(|pid| Some(*pid) != ours && (*pid != 1 || !is_listed())).map(describe)
}

/// Prints where plugins connect, after an installation.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(nrid: &NridLocation) -> io::Result<()> {
    if nrid.config.disable_connections {
        return Ok(());
    }
    let own = nrid.launcher.state_dir.join(OWN_SOCKET);
    writeln!(output(), "plugins that are started by hand connect to {}", own.display())?;
    let other = listener(Path::new(PLUGIN_SOCKET))
        .filter(|pid| command_name(*pid) != nri_locate::NRID && *pid != 1);
    other.map_or(Ok(()), |pid| writeln!(output(), "  not to {}", describe(pid)))
}

fn listener(socket: &Path) -> Option<i32> {
    listener_unnoticed(socket, &[])
}

fn describe(pid: i32) -> String {
    format!(
        "{PLUGIN_SOCKET}, which is that of {} (process {pid}) and knows its own containers only",
        command_name(pid)
    )
}

//! Findings about sockets for plugins.

use crate::{
    fake_nrid::{Sleeper, doctor, healthy},
    site::Site,
};
use nri_control::Status;
use nri_files::OsText;
use std::{fs, io::ErrorKind, os::unix::net::UnixListener};

#[test]
fn the_process_at_each_socket_is_found_without_a_connection() {
    let site = Site::new("");
    let socket = site.path("plugin.sock");
    site.configure(&format!("socket_path = {socket:?}\n"));
    let shown = socket.to_string_lossy().into_owned();
    let listed = || vec![OsText::from(socket.as_os_str())];
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();

    let ours = Status { sockets: listed(), ..healthy(&site) };
    let findings = doctor(&site, ours.clone());
    findings.check("socket-ours", "ok", &format!("{shown}: ours"));
    findings.check("socket-unused", "info", "nri.sock: does not exist");

    // The process that has the socket is not nrid.
    let nrid = Sleeper::start();
    let of_other = Status { pid: nrid.pid(), ..healthy(&site) };
    let findings = doctor(&site, of_other.clone());
    let text = format!("{shown}: process {}", std::process::id());
    findings.check("socket-of-other", "info", &text);
    let findings = doctor(&site, Status { sockets: listed(), ..of_other });
    findings.check("socket-replaced", "problem", &text);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);

    fs::remove_file(&socket).unwrap();
    let findings = doctor(&site, ours);
    findings.check("socket-removed", "problem", &format!("{shown}: nrid's socket was removed"));
}

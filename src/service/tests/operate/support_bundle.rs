//! Test of `nrictl support-bundle` with a real `nrid`.

use crate::{
    create::{bundle_with, create},
    doctor::nrictl,
    node::{Node, wait_until},
    views::audit::plugin,
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// Unpacks an archive; returns the texts of all files, with their names.
fn unpack(archive: &Path, dir: &Path) -> String {
    fs::create_dir(dir).unwrap();
    let tar = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(dir).status().unwrap();
    assert!(tar.success(), "tar cannot read the archive");
    let grep = Command::new("grep").args(["-r", ""]).arg(dir).output().unwrap();
    String::from_utf8_lossy(&grep.stdout).into_owned()
}

#[test]
fn a_support_bundle_has_the_reports_and_no_secrets() {
    let node = Node::new("[audit]\nenvironment_values = true\n");
    let config = fs::read_to_string(node.config()).unwrap();
    let config = format!("# password = \"configured-secret\"\n{config}");
    fs::write(node.config(), config).unwrap();
    fs::write(node.path("conf.d/10-a.conf"), "unrecognized-secret").unwrap();
    let create_env = "[create]\nenv = { set = { PLAIN = 'secret-of-a-plugin' } }\n";
    plugin(&node, "20-b", create_env);
    let nrid = node.start();
    let bundle = bundle_with(&node, "one", r#"{"ociVersion":"1.0.2"}"#);
    create(&node, "one", &bundle);
    let log = node.state_dir().join("audit.log");
    let is_written = || fs::read_to_string(&log).unwrap_or_default().contains("secret-of-a-plugin");
    wait_until("the audit log", || is_written().then_some(()));
    let archive = node.path("bundle.tar.gz");
    let output = nrictl(&node, &["support-bundle", "--output", archive.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);

    let texts = unpack(&archive, &node.path("unpacked"));
    for part in [
        "/status.json:{",
        "/doctor.json:{",
        "/validate.json:{",
        "/containers.json:{",
        "/audit.log:{",
        "env[PLAIN]",
        "/config.toml:# password = \"***\"",
        "/plugin-files.txt:",
        "10-a.conf",
        "/host/proc/version:Linux",
        "\"running\":true",
    ] {
        assert!(texts.contains(part), "{part} is missing");
    }
    for secret in ["configured-secret", "unrecognized-secret", "secret-of-a-plugin"] {
        assert!(!texts.contains(secret), "{secret} is in the bundle");
    }

    let again = nrictl(&node, &["support-bundle", "--output", archive.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1), "an existing file was overwritten");
    assert!(String::from_utf8_lossy(&again.stderr).contains("File exists"), "{again:?}");

    node.stop();
    nrid.wait_for_exit();
    let archive = node.path("without-nrid.tar.gz");
    let output = nrictl(&node, &["support-bundle", "--output", archive.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(unpack(&archive, &node.path("without-nrid")).contains("\"running\":false"));
}

#[test]
fn a_support_bundle_has_the_lines_of_the_journal() {
    let node = Node::new("");
    let journalctl = node.path("journalctl");
    fs::write(&journalctl, "#!/bin/sh\necho \"$* token=journal-secret\"\n").unwrap();
    fs::set_permissions(&journalctl, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = node.path("bundle.tar.gz");
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("nrictl"));
    command.arg("support-bundle").arg("--output").arg(&archive);
    command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    let path = format!("{}:/usr/bin:/bin", journalctl.parent().unwrap().display());
    let output = command.env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let texts = unpack(&archive, &node.path("unpacked"));
    assert!(texts.contains("--identifier=nrid"), "{texts}");
    assert!(!texts.contains("journal-secret"), "{texts}");
}

//! Test that the earlier and the current release accept and refuse the same configuration files.

use super::releases;
use std::process::Command;

/// A configuration file with every key of the earlier release.
const ALL_KEYS: &str = r#"
disable = false
plugin_path = "/opt/nri/plugins"
plugin_config_path = "/etc/nri/conf.d"
plugin_registration_timeout = 5
plugin_request_timeout = "2s"
plugin_restart_backoff = "1s"
plugin_restart_backoff_limit = "1m"
mode = "shadow"
disable_connections = false
socket_path = "/run/nri/nri.sock"
state_dir = "/run/nri-container-runtime"
start_timeout = "20s"
idle_timeout = "10m"
unreachable = "pass"
enforce = "report"
[opt_out]
annotation = "example.org/opt-out"
[connections]
allow_uids = [0, 1000]
allow_programs = ["/usr/bin/plugin"]
max_unregistered = 64
max_plugins = 256
[engines]
containerd = "auto"
crio = "ours"
docker = "engine"
[runtime]
path = "/usr/bin/runc"
candidates = ["runc", "crun"]
[runtime.names.nri-crun]
path = "/usr/bin/crun"
[[plugin]]
match = "*"
deny = ["hooks", "mounts", "devices", "cdi_devices", "namespaces", "seccomp", "update", "evict"]
capabilities = []
no_new_privs = true
[[plugin]]
match = "10-adjust"
allow = ["env", "resources"]
on_failure = "fail"
required = true
timeout = "3s"
consecutive_timeouts = 3
restart = "always"
restart_backoff = "2s"
[blockio]
config_file = "/etc/blockio.yaml"
[rdt]
config_file = "/etc/rdt.yaml"
[cdi]
spec_dirs = ["/etc/cdi", "/var/run/cdi"]
[default_validator]
enable = true
reject_oci_hook_adjustment = true
required_plugins = ["10-adjust"]
[log]
level = "debug"
file = "/var/log/nrid.log"
"#;

#[test]
fn a_configuration_with_every_key_is_accepted_by_both_releases() {
    let Some(releases) = releases("configuration of both releases") else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    for (text, is_valid) in [(ALL_KEYS, true), ("unknown_key = 1\n", false)] {
        std::fs::write(&file, text).unwrap();
        for release in &releases {
            let mut check = Command::new(release.dir.join("nrid"));
            let output = check.args(["--check", "--config"]).arg(&file).output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), is_valid, "{} release: {err}", release.name);
        }
    }
}

//! An NRI plugin with rules in a TOML file: adjusts containers at their creation, overrides
//! resources of container updates, and logs every event.
//!
//! ```text
//! adjust [--config FILE] [--idx NN] [--name NAME] [--socket PATH] [--log FILE]
//!        [--reconnect] [--updates]
//! ```
//! `--reconnect`: connects again after the end of a session. `--updates`: requests updates of
//! containers, a JSON line on stdin each, with keys as in `create.resources` below:
//! `{"container": "ID", "resources": {"memory": 67108864}}`.
//!
//! A runtime can also launch the plugin, as `NN-name` in its plugin directory. The TOML is then in
//! the plugin's configuration file, `NN-name.conf`. The defaults are `--idx 50` and
//! `--name adjust`. All keys are optional; an unknown key is an error.
//!
//! ```toml
//! log = "/run/adjust.log"          # a JSON line per event; `--log` overrides it
//!
//! [filter]                         # only containers that match all of these
//! name = "web"
//! annotations = { "example.org/adjust" = "yes" }   # of the container, or else of its pod
//!
//! [create]
//! refuse = "not on this host"      # refuse the containers, with this message
//! args = ["sleep", "100"]          # the command line
//! replace_args = true              # even if an earlier plugin set args
//! oom_score_adj = 100
//! cdi_devices = ["vendor.example/class=name"]
//! env = { set = { A = "b" }, remove = ["C"] }
//! annotations = { set = { "example.org/seen" = "yes" }, remove = ["example.org/old"] }
//! sysctl = { set = { "net.ipv4.ip_forward" = "1" }, remove = ["net.ipv4.ip_default_ttl"] }
//! remove_mounts = ["/var/cache"]
//! remove_devices = ["/dev/fuse"]
//!
//! [[create.mounts]]
//! destination = "/data"
//! source = "/srv/data"
//! type = "bind"
//! options = ["rbind", "ro"]
//!
//! [[create.devices]]
//! path = "/dev/null2"
//! type = "c"
//! major = 1
//! minor = 3
//! mode = 0o666
//! uid = 0
//! gid = 0
//!
//! [[create.rlimits]]
//! type = "RLIMIT_NOFILE"
//! hard = 1024
//! soft = 512
//!
//! [[create.hooks]]
//! stage = "poststop"               # or prestart, create_runtime, create_container,
//!                                  # start_container, poststart
//! path = "/bin/true"
//! args = ["true"]
//! env = ["A=b"]
//! timeout = 5
//!
//! [create.resources]
//! cpus = "0-1"
//! mems = "0"
//! shares = 512
//! quota = 50000
//! period = 100000
//! memory = 67108864
//! reservation = 33554432
//! swap = 134217728
//! pids = 100
//! hugepages = { "2MB" = 4194304 }
//! unified = { "memory.high" = "50000000" }
//! blockio_class = "slow"
//! rdt_class = "shared"
//!
//! [update]                         # resources to set when a matching container is updated;
//!                                  # keys as in create.resources
//! shares = 256
//! ```

mod config;
mod plugin;
mod rules;
mod updates;

use nri_plugin::{Builder, Configured, Failure, Stub};
use plugin::Adjust;
use std::{io::Write, path::PathBuf, process::ExitCode};

const USAGE: &str = "\
An NRI plugin that adjusts containers by the rules of a TOML file.
Usage: adjust [--config FILE] [--idx NN] [--name NAME] [--socket PATH] [--log FILE]
              [--reconnect] [--updates]
If a runtime launches the plugin as NN-name, the TOML is NN-name.conf in the plugin configuration
directory.
src/plugin/examples/adjust/main.rs documents the keys.";

fn main() -> ExitCode {
    match builder() {
        Ok(Some(plugin)) => plugin.main(),
        Ok(None) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("adjust: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the plugin as the command line wants it; `None` after `--help`.
fn builder() -> Result<Option<Builder<Adjust>>, Failure> {
    let (config, mut log, mut index, mut name, mut socket) =
        (Configured::default(), None, None, None, None);
    let (mut is_once, mut updates) = (true, false);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        match option.as_str() {
            "-h" | "--help" => {
                writeln!(std::io::stdout(), "{USAGE}")?;
                return Ok(None);
            }
            "--reconnect" => {
                is_once = false;
                continue;
            }
            "--updates" => {
                updates = true;
                continue;
            }
            _ => {}
        }
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--config" => {
                let text = std::fs::read_to_string(&value).map_err(|e| format!("{value}: {e}"))?;
                config.read_toml(&text).map_err(|e| format!("{value}: {e}"))?;
            }
            "--log" => log = Some(PathBuf::from(value)),
            "--idx" => index = Some(value),
            "--name" => name = Some(value),
            "--socket" => socket = Some(value),
            _ => return Err(format!("unknown option {option}").into()),
        }
    }
    let mut plugin = Stub::builder(Adjust::new(config, log, updates))
        .name(name.unwrap_or_else(|| "adjust".into()))
        .index(index.unwrap_or_else(|| "50".into()));
    if let Some(socket) = socket {
        plugin = plugin.socket_path(socket);
    }
    Ok(Some(if is_once { plugin.once() } else { plugin }))
}

//! The breakages: how each is made and repaired, and the expected outcome of verbs that need
//! `nrid`.

use super::{
    expected::Needing,
    fakes::{Fake, Manner},
    installation::Installation,
};
use rustix::process::Signal;
use std::{
    any::Any,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// A defect of an installation.
pub(super) struct Breakage {
    pub(super) name: &'static str,
    /// Configuration that is added before the breakage.
    pub(super) config: &'static str,
    /// Calls run into timeouts: the breakage is tested with one runtime only, to save time.
    pub(super) waits: bool,
    /// The state directory is a separate file system.
    pub(super) mounts: bool,
    /// Makes the breakage. The returned value is dropped before the repair.
    pub(super) make: fn(&Installation) -> Box<dyn Any>,
    /// Repairs the installation.
    pub(super) mend: fn(&Installation),
    /// Expected outcome of verbs that need `nrid`.
    pub(super) needing: Needing,
}

/// Text of each refusal that is caused by the host: how to run containers without NRI.
const BREAK_GLASS: &str = "to run containers without NRI set NRI_CONTAINER_RUNTIME_BYPASS=1 or \
    create /etc/nri-container-runtime/bypass";

impl Breakage {
    fn new(
        name: &'static str,
        needing: Needing,
        make: fn(&Installation) -> Box<dyn Any>,
        mend: fn(&Installation),
    ) -> Self {
        Self { name, config: "", waits: false, mounts: false, make, mend, needing }
    }

    fn config(self, config: &'static str) -> Self {
        Self { config, ..self }
    }

    fn waits(self) -> Self {
        Self { waits: true, ..self }
    }

    fn on_a_mount(self) -> Self {
        Self { mounts: true, ..self }
    }
}

/// Value of a breakage that has nothing to drop.
fn done() -> Box<dyn Any> {
    Box::new(())
}

/// Kills `nrid` and replaces its program by a script, or removes it.
fn replace_nrid(installation: &Installation, script: Option<&str>) -> Box<dyn Any> {
    installation.kill_nrid();
    let nrid = installation.bin.join("nrid");
    fs::rename(&nrid, installation.bin.join("nrid.real")).unwrap();
    if let Some(script) = script {
        nri_integration::write_program(&nrid, script);
    }
    done()
}

fn restore_nrid(installation: &Installation) {
    fs::rename(installation.bin.join("nrid.real"), installation.bin.join("nrid")).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

pub(super) fn nrid_is_missing() -> Breakage {
    let words = &["nrid", "beside this program", "/usr/libexec/nri-container-runtime", BREAK_GLASS];
    Breakage::new(
        "nrid missing",
        Needing::Refused(words),
        |installation| replace_nrid(installation, None),
        restore_nrid,
    )
}

pub(super) fn nrid_is_not_executable() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\n"));
        mode(&installation.bin.join("nrid"), 0o644);
        done()
    };
    let words = &["no executable nrid", "beside this program", BREAK_GLASS];
    Breakage::new("nrid not executable", Needing::Refused(words), make, restore_nrid)
}

pub(super) fn nrid_exits_without_a_message() -> Breakage {
    let make =
        |installation: &Installation| replace_nrid(installation, Some("#!/bin/sh\nexit 1\n"));
    let words = &["nrid did not start", "exited without a message", BREAK_GLASS];
    Breakage::new("nrid exits without a message", Needing::Refused(words), make, restore_nrid)
}

pub(super) fn nrid_exits_with_a_message() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\necho no libc here\nexit 127\n"))
    };
    let words = &["nrid did not start: no libc here", BREAK_GLASS];
    Breakage::new("nrid exits with a message", Needing::Refused(words), make, restore_nrid)
}

pub(super) fn nrid_never_starts() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\nexec sleep 1000\n"))
    };
    let words = &["nrid was not ready within 1s", BREAK_GLASS];
    Breakage::new("nrid never starts", Needing::Refused(words), make, restore_nrid).waits()
}

pub(super) fn nrid_is_stopped() -> Breakage {
    let make = |installation: &Installation| {
        installation.node.nrid().unwrap().signal(Signal::STOP);
        done()
    };
    let mend = |installation: &Installation| {
        installation.node.nrids().into_iter().for_each(|nrid| nrid.signal(Signal::CONT))
    };
    let words = &["nrid hangs", "no sign of life within 1s", "STATE/control.sock", BREAK_GLASS];
    Breakage::new("nrid stopped", Needing::Refused(words), make, mend).waits()
}

fn control(installation: &Installation) -> std::path::PathBuf {
    installation.node.state_dir().join("control.sock")
}

pub(super) fn nrid_never_answers() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::accepting(&control(installation), Manner::Silent))
    };
    let words = &["nrid hangs", "no sign of life within 1s", "STATE/control.sock", BREAK_GLASS];
    Breakage::new("nrid never answers", Needing::Refused(words), make, |_| {}).waits()
}

pub(super) fn nrid_accepts_no_connection() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::full(&control(installation)))
    };
    let words = &[
        "cannot connect to nrid",
        "STATE/control.sock",
        "no connection was accepted",
        BREAK_GLASS,
    ];
    Breakage::new("nrid accepts no connection", Needing::Refused(words), make, |_| {}).waits()
}

pub(super) fn nrid_closes_connections() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::accepting(&control(installation), Manner::Closes))
    };
    let words = &["connection to nrid", "closed the connection", BREAK_GLASS];
    Breakage::new("nrid closes connections", Needing::Refused(words), make, |_| {})
}

pub(super) fn the_socket_is_a_stale_file() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::remove_file(control(installation)).unwrap();
        fs::write(control(installation), "").unwrap();
        done()
    };
    Breakage::new("socket a file", Needing::Works, make, |_| {})
}

pub(super) fn the_socket_is_a_directory() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::remove_file(control(installation)).unwrap();
        fs::create_dir(control(installation)).unwrap();
        done()
    };
    let words = &["nrid did not start", "STATE/control.sock", BREAK_GLASS];
    let mend = |installation: &Installation| fs::remove_dir(control(installation)).unwrap();
    Breakage::new("socket a directory", Needing::Refused(words), make, mend)
}

pub(super) fn the_socket_belongs_to_another_user() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::of_another_user(&control(installation)))
    };
    let words = &["STATE/control.sock", "user 47114 listens there", BREAK_GLASS];
    Breakage::new("socket of another user", Needing::Refused(words), make, |_| {})
}

pub(super) fn the_state_directory_is_a_file() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.state_dir(), installation.node.path("away")).unwrap();
        fs::write(installation.node.state_dir(), "").unwrap();
        done()
    };
    let mend = |installation: &Installation| {
        fs::remove_file(installation.node.state_dir()).unwrap();
        fs::rename(installation.node.path("away"), installation.node.state_dir()).unwrap();
    };
    Breakage::new("state directory a file", Needing::Refused(&["STATE", BREAK_GLASS]), make, mend)
}

pub(super) fn the_state_directory_is_world_writable() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        mode(&installation.node.state_dir(), 0o777);
        done()
    };
    let words = &["state directory STATE", "no other user can write to", BREAK_GLASS];
    let mend = |installation: &Installation| mode(&installation.node.state_dir(), 0o700);
    Breakage::new("state directory world-writable", Needing::Refused(words), make, mend)
}

pub(super) fn the_state_directory_is_read_only() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        installation.shell("mount -o remount,ro \"$STATE\"");
        done()
    };
    let mend = |installation: &Installation| installation.shell("mount -o remount,rw \"$STATE\"");
    let words = &["state directory STATE", "Read-only", BREAK_GLASS];
    Breakage::new("state directory read-only", Needing::Refused(words), make, mend).on_a_mount()
}

pub(super) fn the_state_directory_is_full() -> Breakage {
    let make = |installation: &Installation| {
        installation.shell("{ dd if=/dev/zero of=\"$STATE/full\" bs=4k 2>/dev/null || :; }");
        done()
    };
    let mend = |installation: &Installation| installation.shell("rm \"$STATE/full\"");
    // nrid runs, and cannot write records.
    let words = &["No space left on device", "STATE"];
    Breakage::new("state directory full", Needing::Recorded(words), make, mend).on_a_mount()
}

pub(super) fn records_are_garbage() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        for records in ["containers", "pods", "exec"] {
            for record in installation.node.records(records) {
                fs::write(record, "\u{0}{garbage").unwrap();
            }
        }
        done()
    };
    Breakage::new("records garbage", Needing::Works, make, |_| {})
}

pub(super) fn the_log_cannot_be_written() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        let log = installation.node.state_dir().join("nrid.log");
        fs::remove_file(&log).unwrap();
        fs::create_dir(&log).unwrap();
        done()
    };
    Breakage::new("log a directory", Needing::Works, make, |_| {})
}

/// Moves the configuration away; a running `nrid` keeps the one that it has read.
fn move_configuration_away(installation: &Installation) {
    fs::rename(installation.node.config(), installation.node.path("config.away")).unwrap();
}

fn restore_configuration(installation: &Installation) {
    let config = installation.node.config();
    let _ = fs::remove_dir(&config);
    let _ = fs::remove_file(&config);
    fs::rename(installation.node.path("config.away"), &config).unwrap();
}

pub(super) fn the_configuration_has_an_error() -> Breakage {
    let make = |installation: &Installation| {
        let text = fs::read_to_string(installation.node.config()).unwrap();
        move_configuration_away(installation);
        fs::write(installation.node.config(), format!("{text}\nnonsense = \n")).unwrap();
        done()
    };
    let words = &["configuration CONFIG: line", BREAK_GLASS];
    Breakage::new(
        "configuration with an error",
        Needing::Always(words),
        make,
        restore_configuration,
    )
}

pub(super) fn the_configuration_is_a_directory() -> Breakage {
    let make = |installation: &Installation| {
        move_configuration_away(installation);
        fs::create_dir(installation.node.config()).unwrap();
        done()
    };
    let words = &["configuration CONFIG", BREAK_GLASS];
    Breakage::new("configuration a directory", Needing::Always(words), make, restore_configuration)
}

pub(super) fn the_configuration_is_a_pipe() -> Breakage {
    let make = |installation: &Installation| {
        move_configuration_away(installation);
        rustix::fs::mkfifoat(rustix::fs::CWD, installation.node.config(), 0o600.into()).unwrap();
        done()
    };
    let words = &["configuration CONFIG", BREAK_GLASS];
    Breakage::new("configuration a pipe", Needing::Always(words), make, restore_configuration)
}

pub(super) fn the_configuration_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        move_configuration_away(installation);
        done()
    };
    let words = &["configuration CONFIG", "No such file", BREAK_GLASS];
    Breakage::new("configuration missing", Needing::Always(words), make, restore_configuration)
}

pub(super) fn the_configuration_is_world_writable() -> Breakage {
    let make = |installation: &Installation| {
        mode(&installation.node.config(), 0o666);
        done()
    };
    let words = &["configuration CONFIG is not trusted", "chmod go-w", BREAK_GLASS];
    let mend = |installation: &Installation| mode(&installation.node.config(), 0o644);
    Breakage::new("configuration world-writable", Needing::Always(words), make, mend)
}

pub(super) fn the_plugin_directory_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("plugins"), installation.node.path("away")).unwrap();
        done()
    };
    Breakage::new("plugin directory missing", Needing::Works, make, restore_plugins)
}

fn restore_plugins(installation: &Installation) {
    installation.kill_nrid();
    let plugins = installation.node.path("plugins");
    let _ = fs::remove_file(&plugins);
    fs::rename(installation.node.path("away"), plugins).unwrap();
}

pub(super) fn the_plugin_directory_is_unreadable() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("plugins"), installation.node.path("away")).unwrap();
        // Permissions do not stop root from reading a directory; a link to itself does.
        symlink("plugins", installation.node.path("plugins")).unwrap();
        done()
    };
    Breakage::new("plugin directory unreadable", Needing::Works, make, restore_plugins)
}

pub(super) fn the_plugin_directory_is_world_writable() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        mode(&installation.node.path("plugins"), 0o777);
        done()
    };
    let mend = |installation: &Installation| {
        installation.kill_nrid();
        mode(&installation.node.path("plugins"), 0o755);
    };
    Breakage::new("plugin directory world-writable", Needing::Works, make, mend)
}

const REQUIRED: &str = "plugin = [{ match = '10-adjust', required = true }]\n";

pub(super) fn a_required_plugin_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("plugins/10-adjust"), installation.node.path("away"))
            .unwrap();
        done()
    };
    let mend = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("away"), installation.node.path("plugins/10-adjust"))
            .unwrap();
    };
    let words = &["10-adjust", "required"];
    Breakage::new("required plugin missing", Needing::Creations(words), make, mend).config(REQUIRED)
}

pub(super) fn a_required_plugin_does_not_start() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        let plugin = installation.node.path("plugins/10-adjust");
        fs::rename(&plugin, installation.node.path("away")).unwrap();
        fs::write(&plugin, "#!/bin/sh\nexit 7\n").unwrap();
        mode(&plugin, 0o755);
        done()
    };
    let mend = |installation: &Installation| {
        fs::rename(installation.node.path("away"), installation.node.path("plugins/10-adjust"))
            .unwrap();
    };
    let words = &["nrid did not start", "10-adjust", BREAK_GLASS];
    Breakage::new("required plugin does not start", Needing::Refused(words), make, mend)
        .config(REQUIRED)
}

pub(super) fn the_hook_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        fs::rename(installation.bin.join("nri-oci-hook"), installation.bin.join("away")).unwrap();
        done()
    };
    let mend = |installation: &Installation| {
        fs::rename(installation.bin.join("away"), installation.bin.join("nri-oci-hook")).unwrap()
    };
    Breakage::new("hook missing", Needing::Works, make, mend)
}

pub(super) fn the_runtime_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        fs::rename(&installation.runtime.path, installation.node.path("away")).unwrap();
        done()
    };
    let mend = |installation: &Installation| {
        fs::rename(installation.node.path("away"), &installation.runtime.path).unwrap()
    };
    Breakage::new("runtime missing", Needing::NoRuntime, make, mend)
}

//! Breakages of an installation: how each is made and repaired, and the expected outcome of the
//! verbs with an event.

use super::{
    expected::Outcome,
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
    /// Lines that are added to the configuration before the breakage.
    pub(super) config: &'static str,
    /// Whether calls run into timeouts. To save time, such a breakage is tested with one runtime.
    pub(super) times_out: bool,
    /// Whether the state directory is a separate file system.
    pub(super) has_mounted_state_dir: bool,
    /// Makes the breakage. The returned value is dropped before the repair.
    pub(super) make: fn(&Installation) -> Box<dyn Any>,
    /// Repairs the installation.
    pub(super) repair: fn(&Installation),
    /// Expected outcome of verbs with an event.
    pub(super) expected: Outcome,
}

/// Instruction in every refusal that a defect of the host causes: how to run containers without
/// NRI.
const BREAK_GLASS: &str = "to run containers without NRI write the word bypass into \
    /etc/nri-container-runtime/bypass, or set NRI_CONTAINER_RUNTIME_BYPASS=1 in the environment of \
    the engine";

impl Breakage {
    fn new(
        name: &'static str,
        expected: Outcome,
        make: fn(&Installation) -> Box<dyn Any>,
        repair: fn(&Installation),
    ) -> Self {
        Self {
            name,
            config: "",
            times_out: false,
            has_mounted_state_dir: false,
            make,
            repair,
            expected,
        }
    }

    fn config(self, config: &'static str) -> Self {
        Self { config, ..self }
    }

    fn times_out(self) -> Self {
        Self { times_out: true, ..self }
    }

    fn with_mounted_state_dir(self) -> Self {
        Self { has_mounted_state_dir: true, ..self }
    }
}

/// Returns the value of [`Breakage::make`] for a breakage that leaves nothing to drop.
fn nothing_to_drop() -> Box<dyn Any> {
    Box::new(())
}

/// Kills `nrid` and replaces its program by a script. Without a script, the program is missing.
fn replace_nrid(installation: &Installation, script: Option<&str>) -> Box<dyn Any> {
    installation.kill_nrid();
    let nrid = installation.bin.join("nrid");
    fs::rename(&nrid, installation.bin.join("nrid.real")).unwrap();
    if let Some(script) = script {
        nri_integration::write_program(&nrid, script);
    }
    nothing_to_drop()
}

fn restore_nrid(installation: &Installation) {
    fs::rename(installation.bin.join("nrid.real"), installation.bin.join("nrid")).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

pub(super) fn nrid_is_missing() -> Breakage {
    let words = &["nrid", "beside this program", "/usr/libexec/nri-container-runtime", BREAK_GLASS];
    Breakage::new(
        "nrid missing",
        Outcome::Refused(words),
        |installation| replace_nrid(installation, None),
        restore_nrid,
    )
}

pub(super) fn nrid_is_not_executable() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\n"));
        set_mode(&installation.bin.join("nrid"), 0o644);
        nothing_to_drop()
    };
    let words = &["no executable nrid", "beside this program", BREAK_GLASS];
    Breakage::new("nrid not executable", Outcome::Refused(words), make, restore_nrid)
}

pub(super) fn nrid_exits_without_a_message() -> Breakage {
    let make =
        |installation: &Installation| replace_nrid(installation, Some("#!/bin/sh\nexit 1\n"));
    let words = &["nrid did not start", "exited without a message", BREAK_GLASS];
    Breakage::new("nrid exits without a message", Outcome::Refused(words), make, restore_nrid)
}

pub(super) fn nrid_exits_with_a_message() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\necho no libc here\nexit 127\n"))
    };
    let words = &["nrid did not start: no libc here", BREAK_GLASS];
    Breakage::new("nrid exits with a message", Outcome::Refused(words), make, restore_nrid)
}

pub(super) fn nrid_never_starts() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\nexec sleep 1000\n"))
    };
    let words = &["nrid was not ready within 1s", BREAK_GLASS];
    Breakage::new("nrid never starts", Outcome::Refused(words), make, restore_nrid).times_out()
}

pub(super) fn nrid_is_stopped() -> Breakage {
    let make = |installation: &Installation| {
        installation.node.nrid().unwrap().signal(Signal::STOP);
        nothing_to_drop()
    };
    let repair = |installation: &Installation| {
        installation.node.nrids().into_iter().for_each(|nrid| nrid.signal(Signal::CONT))
    };
    let words = &["nrid hangs", "no sign of life within 1s", "STATE/control.sock", BREAK_GLASS];
    Breakage::new("nrid stopped", Outcome::Refused(words), make, repair).times_out()
}

fn control_socket(installation: &Installation) -> std::path::PathBuf {
    installation.node.state_dir().join("control.sock")
}

pub(super) fn nrid_never_replies() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::accepting(&control_socket(installation), Manner::Silent))
    };
    let words = &["nrid hangs", "no sign of life within 1s", "STATE/control.sock", BREAK_GLASS];
    Breakage::new("nrid never replies", Outcome::Refused(words), make, |_| {}).times_out()
}

pub(super) fn nrid_accepts_no_connection() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::full(&control_socket(installation)))
    };
    let words = &[
        "cannot connect to nrid",
        "STATE/control.sock",
        "no connection was accepted",
        BREAK_GLASS,
    ];
    Breakage::new("nrid accepts no connection", Outcome::Refused(words), make, |_| {}).times_out()
}

pub(super) fn nrid_closes_connections() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::accepting(&control_socket(installation), Manner::Closes))
    };
    let words = &["connection to nrid", "closed the connection", BREAK_GLASS];
    Breakage::new("nrid closes connections", Outcome::Refused(words), make, |_| {})
}

pub(super) fn the_socket_is_a_stale_file() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::remove_file(control_socket(installation)).unwrap();
        fs::write(control_socket(installation), "").unwrap();
        nothing_to_drop()
    };
    Breakage::new("socket is a file", Outcome::Works, make, |_| {})
}

pub(super) fn the_socket_is_a_directory() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::remove_file(control_socket(installation)).unwrap();
        fs::create_dir(control_socket(installation)).unwrap();
        nothing_to_drop()
    };
    let words = &["nrid did not start", "STATE/control.sock", BREAK_GLASS];
    let repair =
        |installation: &Installation| fs::remove_dir(control_socket(installation)).unwrap();
    Breakage::new("socket is a directory", Outcome::Refused(words), make, repair)
}

pub(super) fn the_socket_belongs_to_another_user() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::of_another_user(&control_socket(installation)))
    };
    let words = &["STATE/control.sock", "user 47114 listens there", BREAK_GLASS];
    Breakage::new("socket of another user", Outcome::Refused(words), make, |_| {})
}

pub(super) fn the_state_directory_is_a_file() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.state_dir(), installation.node.path("away")).unwrap();
        fs::write(installation.node.state_dir(), "").unwrap();
        nothing_to_drop()
    };
    let repair = |installation: &Installation| {
        fs::remove_file(installation.node.state_dir()).unwrap();
        fs::rename(installation.node.path("away"), installation.node.state_dir()).unwrap();
    };
    let words = &["STATE", BREAK_GLASS];
    Breakage::new("state directory is a file", Outcome::Refused(words), make, repair)
}

pub(super) fn the_state_directory_is_world_writable() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        set_mode(&installation.node.state_dir(), 0o777);
        nothing_to_drop()
    };
    let words = &["state directory STATE", "no other user can write to", BREAK_GLASS];
    let repair = |installation: &Installation| set_mode(&installation.node.state_dir(), 0o700);
    Breakage::new("state directory world-writable", Outcome::Refused(words), make, repair)
}

pub(super) fn the_state_directory_is_read_only() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        installation.shell("mount -o remount,ro \"$STATE\"");
        nothing_to_drop()
    };
    let repair = |installation: &Installation| installation.shell("mount -o remount,rw \"$STATE\"");
    let words = &["state directory STATE", "Read-only", BREAK_GLASS];
    Breakage::new("state directory read-only", Outcome::Refused(words), make, repair)
        .with_mounted_state_dir()
}

pub(super) fn the_state_directory_is_full() -> Breakage {
    let make = |installation: &Installation| {
        installation.shell("{ dd if=/dev/zero of=\"$STATE/full\" bs=4k 2>/dev/null || :; }");
        nothing_to_drop()
    };
    let repair = |installation: &Installation| installation.shell("rm \"$STATE/full\"");
    // nrid still runs, but cannot write records.
    let words = &["No space left on device", "STATE"];
    Breakage::new("state directory full", Outcome::RefusedWithoutRecord(words), make, repair)
        .with_mounted_state_dir()
}

pub(super) fn records_are_garbage() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        for records in ["containers", "pods", "exec"] {
            for record in installation.node.records(records) {
                fs::write(record, "\u{0}{garbage").unwrap();
            }
        }
        nothing_to_drop()
    };
    Breakage::new("records are garbage", Outcome::Works, make, |_| {})
}

pub(super) fn the_log_cannot_be_written() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        let log = installation.node.state_dir().join("nrid.log");
        fs::remove_file(&log).unwrap();
        fs::create_dir(&log).unwrap();
        nothing_to_drop()
    };
    Breakage::new("log is a directory", Outcome::Works, make, |_| {})
}

/// Kills `nrid`, so that the next one finds the broken configuration, and moves the file to
/// `config.away`. Wrappers follow what was published, and `nrid` uses the last configuration.
fn move_configuration_away(installation: &Installation) {
    installation.kill_nrid();
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
        nothing_to_drop()
    };
    Breakage::new("configuration with an error", Outcome::Works, make, restore_configuration)
}

pub(super) fn the_configuration_is_a_directory() -> Breakage {
    let make = |installation: &Installation| {
        move_configuration_away(installation);
        fs::create_dir(installation.node.config()).unwrap();
        nothing_to_drop()
    };
    Breakage::new("configuration is a directory", Outcome::Works, make, restore_configuration)
}

pub(super) fn the_configuration_is_a_pipe() -> Breakage {
    let make = |installation: &Installation| {
        move_configuration_away(installation);
        rustix::fs::mkfifoat(rustix::fs::CWD, installation.node.config(), 0o600.into()).unwrap();
        nothing_to_drop()
    };
    Breakage::new("configuration is a pipe", Outcome::Works, make, restore_configuration)
}

pub(super) fn the_configuration_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        move_configuration_away(installation);
        nothing_to_drop()
    };
    Breakage::new("configuration missing", Outcome::Works, make, restore_configuration)
}

pub(super) fn the_configuration_is_world_writable() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        set_mode(&installation.node.config(), 0o666);
        nothing_to_drop()
    };
    let repair = |installation: &Installation| set_mode(&installation.node.config(), 0o644);
    Breakage::new("configuration world-writable", Outcome::Works, make, repair)
}

pub(super) fn the_plugin_directory_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("plugins"), installation.node.path("away")).unwrap();
        nothing_to_drop()
    };
    Breakage::new("plugin directory missing", Outcome::Works, make, restore_plugins)
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
        // Root can read a directory whatever its mode, but cannot open a link to itself.
        symlink("plugins", installation.node.path("plugins")).unwrap();
        nothing_to_drop()
    };
    Breakage::new("plugin directory unreadable", Outcome::Works, make, restore_plugins)
}

pub(super) fn the_plugin_directory_is_world_writable() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        set_mode(&installation.node.path("plugins"), 0o777);
        nothing_to_drop()
    };
    let repair = |installation: &Installation| {
        installation.kill_nrid();
        set_mode(&installation.node.path("plugins"), 0o755);
    };
    Breakage::new("plugin directory world-writable", Outcome::Works, make, repair)
}

const REQUIRED: &str = "plugin = [{ match = '10-adjust', required = true }]\n";

pub(super) fn a_required_plugin_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("plugins/10-adjust"), installation.node.path("away"))
            .unwrap();
        nothing_to_drop()
    };
    let repair = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("away"), installation.node.path("plugins/10-adjust"))
            .unwrap();
    };
    let words = &["10-adjust", "required"];
    Breakage::new("required plugin missing", Outcome::CreationsRefused(words), make, repair)
        .config(REQUIRED)
}

pub(super) fn a_required_plugin_does_not_start() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        let plugin = installation.node.path("plugins/10-adjust");
        fs::rename(&plugin, installation.node.path("away")).unwrap();
        fs::write(&plugin, "#!/bin/sh\nexit 7\n").unwrap();
        set_mode(&plugin, 0o755);
        nothing_to_drop()
    };
    let repair = |installation: &Installation| {
        fs::rename(installation.node.path("away"), installation.node.path("plugins/10-adjust"))
            .unwrap();
    };
    let words = &["nrid did not start", "10-adjust", BREAK_GLASS];
    Breakage::new("required plugin does not start", Outcome::Refused(words), make, repair)
        .config(REQUIRED)
}

pub(super) fn the_hook_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        fs::rename(installation.bin.join("nri-oci-hook"), installation.bin.join("away")).unwrap();
        nothing_to_drop()
    };
    let repair = |installation: &Installation| {
        fs::rename(installation.bin.join("away"), installation.bin.join("nri-oci-hook")).unwrap()
    };
    Breakage::new("hook missing", Outcome::Works, make, repair)
}

pub(super) fn the_runtime_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        fs::rename(&installation.runtime.path, installation.node.path("away")).unwrap();
        nothing_to_drop()
    };
    let repair = |installation: &Installation| {
        fs::rename(installation.node.path("away"), &installation.runtime.path).unwrap()
    };
    Breakage::new("runtime missing", Outcome::NoRuntime, make, repair)
}

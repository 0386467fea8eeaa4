//! The breakages: how each is made and mended, and what it means for verbs that need `nrid`.

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

/// Something that is wrong.
pub(super) struct Breakage {
    pub(super) name: &'static str,
    /// More configuration, from the beginning.
    pub(super) config: &'static str,
    /// It has to be waited for: with one runtime, which it is not about.
    pub(super) waits: bool,
    /// The state directory is a file system of its own.
    pub(super) mounts: bool,
    /// Breaks it; what is returned lives as long as it is broken.
    pub(super) make: fn(&Installation) -> Box<dyn Any>,
    pub(super) mend: fn(&Installation),
    pub(super) needing: Needing,
}

/// What each line says that is the host's fault: how to go on without us.
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

fn done() -> Box<dyn Any> {
    Box::new(())
}

/// Kills `nrid` and replaces its program.
fn replace_nrid(installation: &Installation, script: Option<&str>) -> Box<dyn Any> {
    installation.kill_nrid();
    let nrid = installation.bin.join("nrid");
    fs::rename(&nrid, installation.bin.join("nrid.real")).unwrap();
    if let Some(script) = script {
        nri_integration::write_program(&nrid, script);
    }
    done()
}

fn bring_nrid_back(installation: &Installation) {
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
        bring_nrid_back,
    )
}

pub(super) fn nrid_is_not_executable() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\n"));
        mode(&installation.bin.join("nrid"), 0o644);
        done()
    };
    let words = &["no executable nrid", "beside this program", BREAK_GLASS];
    Breakage::new("nrid not executable", Needing::Refused(words), make, bring_nrid_back)
}

pub(super) fn nrid_ends_at_once() -> Breakage {
    let make =
        |installation: &Installation| replace_nrid(installation, Some("#!/bin/sh\nexit 1\n"));
    let words = &["nrid did not start", "exited without a message", BREAK_GLASS];
    Breakage::new("nrid ends at once", Needing::Refused(words), make, bring_nrid_back)
}

pub(super) fn nrid_says_why_it_ends() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\necho no libc here\nexit 127\n"))
    };
    let words = &["nrid did not start: no libc here", BREAK_GLASS];
    Breakage::new("nrid ends with a word", Needing::Refused(words), make, bring_nrid_back)
}

pub(super) fn nrid_never_starts() -> Breakage {
    let make = |installation: &Installation| {
        replace_nrid(installation, Some("#!/bin/sh\nexec sleep 1000\n"))
    };
    let words = &["nrid was not ready within 1s", BREAK_GLASS];
    Breakage::new("nrid never starts", Needing::Refused(words), make, bring_nrid_back).waits()
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

pub(super) fn nrid_takes_no_connection() -> Breakage {
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
    Breakage::new("nrid takes no connection", Needing::Refused(words), make, |_| {}).waits()
}

pub(super) fn nrid_hangs_up() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::accepting(&control(installation), Manner::HangsUp))
    };
    let words = &["connection to nrid", "closed the connection", BREAK_GLASS];
    Breakage::new("nrid hangs up", Needing::Refused(words), make, |_| {})
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

pub(super) fn the_socket_is_another_users() -> Breakage {
    let make = |installation: &Installation| -> Box<dyn Any> {
        installation.kill_nrid();
        Box::new(Fake::of_a_stranger(&control(installation)))
    };
    let words = &["STATE/control.sock", "user 47114 listens there", BREAK_GLASS];
    Breakage::new("socket another user's", Needing::Refused(words), make, |_| {})
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

pub(super) fn the_state_directory_is_everybodys() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        mode(&installation.node.state_dir(), 0o777);
        done()
    };
    let words = &["state directory STATE", "nobody else can write to", BREAK_GLASS];
    let mend = |installation: &Installation| mode(&installation.node.state_dir(), 0o700);
    Breakage::new("state directory everybody's", Needing::Refused(words), make, mend)
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
    // nrid runs, and can keep nothing.
    let words = &["No space left on device", "STATE"];
    Breakage::new("state directory full", Needing::Kept(words), make, mend).on_a_mount()
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

/// Replaces the configuration after a stop: `nrid` has read its own.
fn take_configuration(installation: &Installation) {
    fs::rename(installation.node.config(), installation.node.path("config.away")).unwrap();
}

fn bring_configuration_back(installation: &Installation) {
    let config = installation.node.config();
    let _ = fs::remove_dir(&config);
    let _ = fs::remove_file(&config);
    fs::rename(installation.node.path("config.away"), &config).unwrap();
}

pub(super) fn the_configuration_has_an_error() -> Breakage {
    let make = |installation: &Installation| {
        let text = fs::read_to_string(installation.node.config()).unwrap();
        take_configuration(installation);
        fs::write(installation.node.config(), format!("{text}\nnonsense = \n")).unwrap();
        done()
    };
    let words = &["configuration CONFIG: line", BREAK_GLASS];
    Breakage::new(
        "configuration with an error",
        Needing::Always(words),
        make,
        bring_configuration_back,
    )
}

pub(super) fn the_configuration_is_a_directory() -> Breakage {
    let make = |installation: &Installation| {
        take_configuration(installation);
        fs::create_dir(installation.node.config()).unwrap();
        done()
    };
    let words = &["configuration CONFIG", BREAK_GLASS];
    Breakage::new(
        "configuration a directory",
        Needing::Always(words),
        make,
        bring_configuration_back,
    )
}

pub(super) fn the_configuration_is_a_pipe() -> Breakage {
    let make = |installation: &Installation| {
        take_configuration(installation);
        rustix::fs::mkfifoat(rustix::fs::CWD, installation.node.config(), 0o600.into()).unwrap();
        done()
    };
    let words = &["configuration CONFIG", BREAK_GLASS];
    Breakage::new("configuration a pipe", Needing::Always(words), make, bring_configuration_back)
}

pub(super) fn the_configuration_is_missing() -> Breakage {
    let make = |installation: &Installation| {
        take_configuration(installation);
        done()
    };
    let words = &["configuration CONFIG", "No such file", BREAK_GLASS];
    Breakage::new("configuration missing", Needing::Always(words), make, bring_configuration_back)
}

pub(super) fn the_configuration_is_everybodys() -> Breakage {
    let make = |installation: &Installation| {
        mode(&installation.node.config(), 0o666);
        done()
    };
    let words = &["configuration CONFIG is not trusted", "chmod go-w", BREAK_GLASS];
    let mend = |installation: &Installation| mode(&installation.node.config(), 0o644);
    Breakage::new("configuration everybody's", Needing::Always(words), make, mend)
}

pub(super) fn plugins_are_missing() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("plugins"), installation.node.path("away")).unwrap();
        done()
    };
    Breakage::new("plugin directory missing", Needing::Works, make, bring_plugins_back)
}

fn bring_plugins_back(installation: &Installation) {
    installation.kill_nrid();
    let plugins = installation.node.path("plugins");
    let _ = fs::remove_file(&plugins);
    fs::rename(installation.node.path("away"), plugins).unwrap();
}

pub(super) fn plugins_are_in_no_directory() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        fs::rename(installation.node.path("plugins"), installation.node.path("away")).unwrap();
        // Also what nobody can read is so: root reads everything else.
        symlink("plugins", installation.node.path("plugins")).unwrap();
        done()
    };
    Breakage::new("plugin directory unreadable", Needing::Works, make, bring_plugins_back)
}

pub(super) fn plugins_are_everybodys() -> Breakage {
    let make = |installation: &Installation| {
        installation.kill_nrid();
        mode(&installation.node.path("plugins"), 0o777);
        done()
    };
    let mend = |installation: &Installation| {
        installation.kill_nrid();
        mode(&installation.node.path("plugins"), 0o755);
    };
    Breakage::new("plugin directory everybody's", Needing::Works, make, mend)
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

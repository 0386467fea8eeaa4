//! The breakages: how each is made and mended, and what it means for verbs that need `nrid`.

use super::{
    fakes::{Fake, Manner},
    site::Site,
};
use rustix::process::Signal;
use std::{
    any::Any,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// What becomes of `create`, `run` and `start`. `STATE` and `CONFIG` in words stand for paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needing {
    /// As if nothing was broken.
    Works,
    /// They pass, with a warning.
    Passes,
    /// `nrid` cannot be reached: refused with these words, or passed where that is configured.
    Refused(&'static [&'static str]),
    /// Refused with these words, whatever `unreachable` says.
    Always(&'static [&'static str]),
    /// The same, and `start` works.
    Creations(&'static [&'static str]),
    /// Refused with these words is what has to be kept: creations, and updates too.
    Kept(&'static [&'static str]),
    /// There is nothing that could run anything.
    NoRuntime,
}

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
    pub(super) make: fn(&Site) -> Box<dyn Any>,
    pub(super) mend: fn(&Site),
    pub(super) needing: Needing,
}

/// What each line says that is the host's fault: how to go on without us.
const BREAK_GLASS: &str = "to run containers without NRI set NRI_CONTAINER_RUNTIME_BYPASS=1 or create /etc/nri-container-runtime/bypass";

impl Breakage {
    fn new(
        name: &'static str,
        needing: Needing,
        make: fn(&Site) -> Box<dyn Any>,
        mend: fn(&Site),
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

/// Kills `nrid`, and puts a program in its place.
fn replace_nrid(site: &Site, script: Option<&str>) -> Box<dyn Any> {
    site.kill_nrid();
    let nrid = site.bin.join("nrid");
    fs::rename(&nrid, site.bin.join("nrid.real")).unwrap();
    if let Some(script) = script {
        nri_integration::write_program(&nrid, script);
    }
    done()
}

fn bring_nrid_back(site: &Site) {
    fs::rename(site.bin.join("nrid.real"), site.bin.join("nrid")).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

pub(super) fn nrid_is_missing() -> Breakage {
    let words = &["nrid", "beside this program", "/usr/libexec/nri-container-runtime", BREAK_GLASS];
    Breakage::new(
        "nrid missing",
        Needing::Refused(words),
        |site| replace_nrid(site, None),
        bring_nrid_back,
    )
}

pub(super) fn nrid_is_not_executable() -> Breakage {
    let make = |site: &Site| {
        replace_nrid(site, Some("#!/bin/sh\n"));
        mode(&site.bin.join("nrid"), 0o644);
        done()
    };
    let words = &["no executable nrid", "beside this program", BREAK_GLASS];
    Breakage::new("nrid not executable", Needing::Refused(words), make, bring_nrid_back)
}

pub(super) fn nrid_ends_at_once() -> Breakage {
    let make = |site: &Site| replace_nrid(site, Some("#!/bin/sh\nexit 1\n"));
    let words = &["nrid did not start", "without a word", BREAK_GLASS];
    Breakage::new("nrid ends at once", Needing::Refused(words), make, bring_nrid_back)
}

pub(super) fn nrid_says_why_it_ends() -> Breakage {
    let make = |site: &Site| replace_nrid(site, Some("#!/bin/sh\necho no libc here\nexit 127\n"));
    let words = &["nrid did not start: no libc here", BREAK_GLASS];
    Breakage::new("nrid ends with a word", Needing::Refused(words), make, bring_nrid_back)
}

pub(super) fn nrid_never_starts() -> Breakage {
    let make = |site: &Site| replace_nrid(site, Some("#!/bin/sh\nexec sleep 1000\n"));
    let words = &["nrid was not ready within 1s", BREAK_GLASS];
    Breakage::new("nrid never starts", Needing::Refused(words), make, bring_nrid_back).waits()
}

pub(super) fn nrid_is_stopped() -> Breakage {
    let make = |site: &Site| {
        site.node.nrid().unwrap().signal(Signal::STOP);
        done()
    };
    let mend =
        |site: &Site| site.node.nrids().into_iter().for_each(|nrid| nrid.signal(Signal::CONT));
    let words = &["nrid hangs", "no sign of life within 1s", "STATE/control.sock", BREAK_GLASS];
    Breakage::new("nrid stopped", Needing::Refused(words), make, mend).waits()
}

fn control(site: &Site) -> std::path::PathBuf {
    site.node.state_dir().join("control.sock")
}

pub(super) fn nrid_never_answers() -> Breakage {
    let make = |site: &Site| -> Box<dyn Any> {
        site.kill_nrid();
        Box::new(Fake::accepting(&control(site), Manner::Silent))
    };
    let words = &["nrid hangs", "no sign of life within 1s", "STATE/control.sock", BREAK_GLASS];
    Breakage::new("nrid never answers", Needing::Refused(words), make, |_| {}).waits()
}

pub(super) fn nrid_takes_no_connection() -> Breakage {
    let make = |site: &Site| -> Box<dyn Any> {
        site.kill_nrid();
        Box::new(Fake::full(&control(site)))
    };
    let words =
        &["cannot connect to nrid", "STATE/control.sock", "no connection was taken", BREAK_GLASS];
    Breakage::new("nrid takes no connection", Needing::Refused(words), make, |_| {}).waits()
}

pub(super) fn nrid_hangs_up() -> Breakage {
    let make = |site: &Site| -> Box<dyn Any> {
        site.kill_nrid();
        Box::new(Fake::accepting(&control(site), Manner::HangsUp))
    };
    let words = &["connection to nrid", "closed the connection", BREAK_GLASS];
    Breakage::new("nrid hangs up", Needing::Refused(words), make, |_| {})
}

pub(super) fn the_socket_is_a_stale_file() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        fs::remove_file(control(site)).unwrap();
        fs::write(control(site), "").unwrap();
        done()
    };
    Breakage::new("socket a file", Needing::Works, make, |_| {})
}

pub(super) fn the_socket_is_a_directory() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        fs::remove_file(control(site)).unwrap();
        fs::create_dir(control(site)).unwrap();
        done()
    };
    let words = &["nrid did not start", "STATE/control.sock", BREAK_GLASS];
    let mend = |site: &Site| fs::remove_dir(control(site)).unwrap();
    Breakage::new("socket a directory", Needing::Refused(words), make, mend)
}

pub(super) fn the_socket_is_another_users() -> Breakage {
    let make = |site: &Site| -> Box<dyn Any> {
        site.kill_nrid();
        Box::new(Fake::of_a_stranger(&control(site)))
    };
    let words = &["STATE/control.sock", "user 47114 listens there", BREAK_GLASS];
    Breakage::new("socket another user's", Needing::Refused(words), make, |_| {})
}

pub(super) fn the_state_directory_is_a_file() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        fs::rename(site.node.state_dir(), site.node.path("away")).unwrap();
        fs::write(site.node.state_dir(), "").unwrap();
        done()
    };
    let mend = |site: &Site| {
        fs::remove_file(site.node.state_dir()).unwrap();
        fs::rename(site.node.path("away"), site.node.state_dir()).unwrap();
    };
    Breakage::new("state directory a file", Needing::Refused(&["STATE", BREAK_GLASS]), make, mend)
}

pub(super) fn the_state_directory_is_everybodys() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        mode(&site.node.state_dir(), 0o777);
        done()
    };
    let words = &["state directory STATE", "nobody else can write to", BREAK_GLASS];
    let mend = |site: &Site| mode(&site.node.state_dir(), 0o700);
    Breakage::new("state directory everybody's", Needing::Refused(words), make, mend)
}

pub(super) fn the_state_directory_is_read_only() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        site.shell("mount -o remount,ro \"$STATE\"");
        done()
    };
    let mend = |site: &Site| site.shell("mount -o remount,rw \"$STATE\"");
    let words = &["state directory STATE", "Read-only", BREAK_GLASS];
    Breakage::new("state directory read-only", Needing::Refused(words), make, mend).on_a_mount()
}

pub(super) fn the_state_directory_is_full() -> Breakage {
    let make = |site: &Site| {
        site.shell("{ dd if=/dev/zero of=\"$STATE/full\" bs=4k 2>/dev/null || :; }");
        done()
    };
    let mend = |site: &Site| site.shell("rm \"$STATE/full\"");
    // nrid runs, and can keep nothing.
    let words = &["No space left on device", "STATE"];
    Breakage::new("state directory full", Needing::Kept(words), make, mend).on_a_mount()
}

pub(super) fn records_are_garbage() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        for records in ["containers", "pods", "exec"] {
            for record in site.node.records(records) {
                fs::write(record, "\u{0}{garbage").unwrap();
            }
        }
        done()
    };
    Breakage::new("records garbage", Needing::Works, make, |_| {})
}

pub(super) fn the_log_cannot_be_written() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        let log = site.node.state_dir().join("nrid.log");
        fs::remove_file(&log).unwrap();
        fs::create_dir(&log).unwrap();
        done()
    };
    Breakage::new("log a directory", Needing::Works, make, |_| {})
}

/// Puts something else in the configuration's place, after a stop: `nrid` has read its own.
fn take_configuration(site: &Site) {
    fs::rename(site.node.config(), site.node.path("config.away")).unwrap();
}

fn bring_configuration_back(site: &Site) {
    let config = site.node.config();
    let _ = fs::remove_dir(&config);
    let _ = fs::remove_file(&config);
    fs::rename(site.node.path("config.away"), &config).unwrap();
}

pub(super) fn the_configuration_has_an_error() -> Breakage {
    let make = |site: &Site| {
        let text = fs::read_to_string(site.node.config()).unwrap();
        take_configuration(site);
        fs::write(site.node.config(), format!("{text}\nnonsense = \n")).unwrap();
        done()
    };
    let words = &["configuration CONFIG, line", BREAK_GLASS];
    Breakage::new(
        "configuration with an error",
        Needing::Always(words),
        make,
        bring_configuration_back,
    )
}

pub(super) fn the_configuration_is_a_directory() -> Breakage {
    let make = |site: &Site| {
        take_configuration(site);
        fs::create_dir(site.node.config()).unwrap();
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
    let make = |site: &Site| {
        take_configuration(site);
        rustix::fs::mkfifoat(rustix::fs::CWD, site.node.config(), 0o600.into()).unwrap();
        done()
    };
    let words = &["configuration CONFIG", BREAK_GLASS];
    Breakage::new("configuration a pipe", Needing::Always(words), make, bring_configuration_back)
}

pub(super) fn the_configuration_is_missing() -> Breakage {
    let make = |site: &Site| {
        take_configuration(site);
        done()
    };
    let words = &["configuration CONFIG", "No such file", BREAK_GLASS];
    Breakage::new("configuration missing", Needing::Always(words), make, bring_configuration_back)
}

pub(super) fn the_configuration_is_everybodys() -> Breakage {
    let make = |site: &Site| {
        mode(&site.node.config(), 0o666);
        done()
    };
    let words = &["configuration CONFIG is not trusted", "chmod go-w", BREAK_GLASS];
    let mend = |site: &Site| mode(&site.node.config(), 0o644);
    Breakage::new("configuration everybody's", Needing::Always(words), make, mend)
}

pub(super) fn plugins_are_missing() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        fs::rename(site.node.path("plugins"), site.node.path("away")).unwrap();
        done()
    };
    Breakage::new("plugin directory missing", Needing::Works, make, bring_plugins_back)
}

fn bring_plugins_back(site: &Site) {
    site.kill_nrid();
    let plugins = site.node.path("plugins");
    let _ = fs::remove_file(&plugins);
    fs::rename(site.node.path("away"), plugins).unwrap();
}

pub(super) fn plugins_are_in_no_directory() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        fs::rename(site.node.path("plugins"), site.node.path("away")).unwrap();
        // Also what nobody can read is so: root reads everything else.
        symlink("plugins", site.node.path("plugins")).unwrap();
        done()
    };
    Breakage::new("plugin directory unreadable", Needing::Works, make, bring_plugins_back)
}

pub(super) fn plugins_are_everybodys() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        mode(&site.node.path("plugins"), 0o777);
        done()
    };
    let mend = |site: &Site| {
        site.kill_nrid();
        mode(&site.node.path("plugins"), 0o755);
    };
    Breakage::new("plugin directory everybody's", Needing::Works, make, mend)
}

const REQUIRED: &str = "plugin = [{ match = '10-adjust', required = true }]\n";

pub(super) fn a_required_plugin_is_missing() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        fs::rename(site.node.path("plugins/10-adjust"), site.node.path("away")).unwrap();
        done()
    };
    let mend = |site: &Site| {
        site.kill_nrid();
        fs::rename(site.node.path("away"), site.node.path("plugins/10-adjust")).unwrap();
    };
    let words = &["10-adjust", "required"];
    Breakage::new("required plugin missing", Needing::Creations(words), make, mend).config(REQUIRED)
}

pub(super) fn a_required_plugin_does_not_start() -> Breakage {
    let make = |site: &Site| {
        site.kill_nrid();
        let plugin = site.node.path("plugins/10-adjust");
        fs::rename(&plugin, site.node.path("away")).unwrap();
        fs::write(&plugin, "#!/bin/sh\nexit 7\n").unwrap();
        mode(&plugin, 0o755);
        done()
    };
    let mend = |site: &Site| {
        fs::rename(site.node.path("away"), site.node.path("plugins/10-adjust")).unwrap();
    };
    let words = &["nrid did not start", "10-adjust", BREAK_GLASS];
    Breakage::new("required plugin does not start", Needing::Refused(words), make, mend)
        .config(REQUIRED)
}

pub(super) fn the_hook_is_missing() -> Breakage {
    let make = |site: &Site| {
        fs::rename(site.bin.join("nri-oci-hook"), site.bin.join("away")).unwrap();
        done()
    };
    let mend =
        |site: &Site| fs::rename(site.bin.join("away"), site.bin.join("nri-oci-hook")).unwrap();
    Breakage::new("hook missing", Needing::Works, make, mend)
}

pub(super) fn the_runtime_is_missing() -> Breakage {
    let make = |site: &Site| {
        fs::rename(&site.runtime.path, site.node.path("away")).unwrap();
        done()
    };
    let mend = |site: &Site| fs::rename(site.node.path("away"), &site.runtime.path).unwrap();
    Breakage::new("runtime missing", Needing::NoRuntime, make, mend)
}

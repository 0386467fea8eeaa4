//! Whether a container that looks like the infra container of a Podman pod is one: by the program
//! that it runs.
//!
//! Nothing is asked about a pod's sandbox, so nobody is to become one by saying so; and all that
//! tells an infra container in its document (cgroup, name, annotations) may be chosen for any
//! other, by `--cgroup-parent` and `--name`. What it runs may not: an infra container runs Podman's
//! own program that waits, `catatonit -P`, byte by byte the host's, or the image that `infra_image`
//! in `containers.conf` names.
//!
//! Until 5.5 Podman copies the program into an image that it builds, `localhost/podman-pause`;
//! since then it mounts the host's over an empty root file system. That one mount counts as the
//! program; any other over it, or one that links could lead there, makes it neither (`mounts`).
//!
//! Nothing else is known to be safe: libpod knows infra containers by a flag in its database only,
//! a file of SQLite (of bbolt, before 5.0) that is not parsed. conmon's command line, the bundle
//! and the lists of containers/storage have nothing that a name, a cgroup and an image do not bring
//! about. So an infra container with another command, or another image, is not known as one.
//!
//! Blocks; the files may be a container's. Sources: podman, `libpod/runtime_pod_linux.go`,
//! `libpod/container_internal_common.go`, `pkg/specgen/generate/pause_image.go`; containers/common,
//! `pkg/config/config_local.go`.

mod config;
mod files;
mod mounts;

pub use config::PodmanEnvironment;
pub use mounts::CandidateMount;

use config::ContainersConf;
use files::{content, read, within};
use mounts::Program;
use nri_trust::Owners;
use rustix::fs::{Mode, OFlags, ResolveFlags, open};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Where distributions put it.
const CATATONIT: &[&str] = &[
    "/usr/libexec/podman/catatonit",
    "/usr/lib/podman/catatonit",
    "/usr/libexec/catatonit/catatonit",
    "/usr/local/libexec/podman/catatonit",
    "/usr/local/lib/podman/catatonit",
    "/usr/bin/catatonit",
    "/usr/local/bin/catatonit",
];
/// It has less than one megabyte.
const MAX_PROGRAM: u64 = 16 << 20;

/// What a container is to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InfraCandidate {
    /// The process that calls the runtime: paths are as it sees them. None: as we do.
    pub caller: Option<i32>,
    /// The root file system, absolute.
    pub root: PathBuf,
    /// Where the engine keeps the layers of images. A root file system elsewhere (`--rootfs`) may
    /// be in anybody's hands.
    pub layers: Option<PathBuf>,
    /// Program and arguments.
    pub args: Vec<String>,
    /// What is mounted, in its order.
    pub mounts: Vec<CandidateMount>,
    /// Name of its image, where known.
    pub image: String,
    /// What the engine's environment says of its configuration.
    pub environment: PodmanEnvironment,
}

/// Whether that is what infra containers run. Whatever cannot be found out counts as no.
pub fn runs_infra(asked: &InfraCandidate) -> bool {
    let Ok(Some(program)) = program(asked) else { return false };
    let config = ContainersConf::read(&asked.environment);
    let waits = asked.args.get(1..).is_some_and(|rest| rest == ["-P"]);
    let places = CATATONIT.iter().map(PathBuf::from).chain(config.programs);
    match program {
        Program::Own(_)
            if !asked.layers.as_ref().is_some_and(|layers| asked.root.starts_with(layers)) =>
        {
            false
        }
        Program::Own(file) => {
            waits && is_catatonit(file, places)
                || config.infra_image.is_some_and(|image| same_image(&asked.image, &image))
        }
        Program::Mounted(file) => waits && is_catatonit(file, places),
    }
}

/// The program that would be run; none where that cannot be told.
fn program(asked: &InfraCandidate) -> io::Result<Option<Program>> {
    let Some(name) = asked.args.first().filter(|name| name.starts_with('/')) else {
        return Ok(None);
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let all = match asked.caller {
        Some(pid) => open(format!("/proc/{pid}/root"), directory, Mode::empty())?,
        None => open("/", directory, Mode::empty())?,
    };
    let root = within(&all, &asked.root, directory, ResolveFlags::empty())?;
    mounts::program(&all, &root, Path::new(name), &asked.mounts)
}

/// Whether the file has the same bytes as the host's program.
fn is_catatonit(file: File, places: impl IntoIterator<Item = PathBuf>) -> bool {
    let Ok(Some(bytes)) = content(file, MAX_PROGRAM) else { return false };
    let owners = Owners::of_this_process();
    let same = |path: PathBuf| {
        owners.check(&path).is_ok() && read(&path, MAX_PROGRAM).is_some_and(|own| own == bytes)
    };
    !bytes.is_empty() && places.into_iter().any(same)
}

/// Whether both name one image; the tag may be left out.
fn same_image(name: &str, configured: &str) -> bool {
    let tagged = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
    };
    !name.is_empty() && tagged(name) == tagged(configured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    /// A root file system with a program, an empty one, and a host's program.
    struct Lab(tempfile::TempDir);

    impl Lab {
        fn new() -> Self {
            let lab = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(lab.path("rootfs/bin")).unwrap();
            fs::create_dir(lab.path("rootfs/data")).unwrap();
            fs::create_dir(lab.path("empty")).unwrap();
            fs::create_dir(lab.path("helpers")).unwrap();
            for file in ["rootfs/catatonit", "rootfs/bin/pause", "helpers/catatonit", "copy"] {
                fs::write(lab.path(file), "waits").unwrap();
                fs::set_permissions(lab.path(file), fs::Permissions::from_mode(0o755)).unwrap();
            }
            fs::write(lab.path("other"), "does other things").unwrap();
            let config = format!("[engine]\nhelper_binaries_dir = [{:?}]\n", lab.path("helpers"));
            fs::write(lab.path("containers.conf"), config).unwrap();
            lab
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn asked(&self, args: &[&str], mounts: &[CandidateMount]) -> InfraCandidate {
            InfraCandidate {
                caller: None,
                root: self.path("rootfs"),
                layers: Some(self.path("rootfs")),
                args: args.iter().map(|a| (*a).to_owned()).collect(),
                mounts: mounts.to_vec(),
                image: String::new(),
                environment: PodmanEnvironment {
                    config: Some(self.path("containers.conf")),
                    ..PodmanEnvironment::default()
                },
            }
        }

        fn bind(&self, source: &str, destination: &str) -> CandidateMount {
            CandidateMount {
                source: self.path(source),
                destination: destination.into(),
                kind: "bind".into(),
            }
        }

        /// With these directories and files of the host mounted.
        fn runs(&self, args: &[&str], mounts: &[&str]) -> bool {
            let mounts: Vec<_> = mounts.iter().map(|m| self.bind("other", m)).collect();
            runs_infra(&self.asked(args, &mounts))
        }
    }

    fn kernels(kind: &str, destination: &str) -> CandidateMount {
        CandidateMount { source: kind.into(), destination: destination.into(), kind: kind.into() }
    }

    const WAITS: [&str; 2] = ["/catatonit", "-P"];

    #[test]
    fn the_hosts_own_program_and_no_other() {
        let lab = Lab::new();
        let usual = ["/etc/hosts", "/run/.containerenv", "/data"];
        assert!(lab.runs(&WAITS, &usual));
        assert!(!lab.runs(&["/catatonit", "--", "/bin/sh"], &usual), "it runs others, too");
        assert!(!lab.runs(&["catatonit", "-P"], &usual), "it is looked for in PATH");
        assert!(!lab.runs(&["/gone", "-P"], &usual));
        for layers in [None, Some(lab.path("helpers"))] {
            assert!(
                !runs_infra(&InfraCandidate { layers, ..lab.asked(&WAITS, &[]) }),
                "the file may be another one until it runs"
            );
        }
        fs::write(lab.path("rootfs/catatonit"), "does other things").unwrap();
        assert!(!lab.runs(&WAITS, &usual), "another program of that name");
        fs::write(lab.path("rootfs/catatonit"), "waits").unwrap();
        fs::set_permissions(lab.path("helpers/catatonit"), fs::Permissions::from_mode(0o777))
            .unwrap();
        assert!(!lab.runs(&WAITS, &usual), "anybody could have written the host's");
    }

    #[test]
    fn what_is_mounted_over_the_program_counts_by_whatever_way() {
        let lab = Lab::new();
        symlink("/catatonit", lab.path("rootfs/data/link")).unwrap();
        symlink("/bin", lab.path("rootfs/sbin")).unwrap();
        fs::copy(lab.path("copy"), lab.path("rootfs/bin/pause")).unwrap();
        let pause = ["/bin/pause", "-P"];
        assert!(lab.runs(&["/sbin/pause", "-P"], &["/data", "/bi", "/binary"]));
        for mount in [
            "//catatonit/",
            "/data/../catatonit",
            "/data/link",
            "/",
            "../../catatonit",
            "/bin/../gone",
        ] {
            assert!(!lab.runs(&WAITS, &[mount]), "{mount}");
        }
        for mount in ["/bin", "/sbin", "/sbin/pause", "/bin/pause/x"] {
            assert!(!lab.runs(&["/sbin/pause", "-P"], &[mount]), "{mount}");
        }
        assert!(!lab.runs(&pause, &["/bin"]));
        // Out of the root file system, by links, leads nowhere.
        symlink(lab.path("copy"), lab.path("rootfs/out")).unwrap();
        symlink("/proc/self/exe", lab.path("rootfs/self")).unwrap();
        assert!(!lab.runs(&["/out", "-P"], &[]));
        assert!(!lab.runs(&["/self", "-P"], &[]));
    }

    /// A link that is in what is mounted cannot be seen yet.
    #[test]
    fn nothing_is_mounted_below_what_somebody_else_fills() {
        let lab = Lab::new();
        let runs = |mounts: &[CandidateMount]| runs_infra(&lab.asked(&WAITS, mounts));
        let own = [
            kernels("tmpfs", "/dev"),
            lab.bind("empty", "/dev/shm"),
            kernels("sysfs", "/sys"),
            kernels("cgroup", "/sys/fs/cgroup"),
        ];
        assert!(runs(&own));
        assert!(!runs(&[lab.bind("data", "/data"), lab.bind("copy", "/data/link")]));
        assert!(!runs(&[lab.bind("data", "/data/"), lab.bind("copy", "/data/more/link")]));
        assert!(!runs(&[kernels("proc", "/proc"), lab.bind("copy", "/proc/self/exe")]));
        assert!(runs(&[lab.bind("data", "/data"), lab.bind("copy", "/data2")]));
    }

    #[test]
    fn the_program_as_the_host_has_it_may_be_mounted() {
        let lab = Lab::new();
        let asked = |mounts: &[CandidateMount]| InfraCandidate {
            root: lab.path("empty"),
            ..lab.asked(&WAITS, mounts)
        };
        let runs = |mounts: &[CandidateMount]| runs_infra(&asked(mounts));
        let own = lab.bind("helpers/catatonit", "/catatonit");
        let more = [kernels("tmpfs", "/dev"), lab.bind("copy", "/etc/hosts")];
        assert!(runs(&[&more[..], std::slice::from_ref(&own), &more[..]].concat()));
        assert!(!runs(&[]), "nothing to run");
        let bare =
            InfraCandidate { args: vec!["/catatonit".into()], ..asked(std::slice::from_ref(&own)) };
        assert!(!runs_infra(&bare));
        // A file to be mounted over is left from the last time.
        assert!(runs_infra(&lab.asked(&WAITS, std::slice::from_ref(&own))));

        for (why, mount) in [
            ("a directory above it", lab.bind("helpers", "/")),
            ("once more", own.clone()),
            ("another", lab.bind("copy", "/catatonit")),
        ] {
            assert!(!runs(&[own.clone(), mount.clone()]), "{why}, after it");
            assert!(!runs(&[mount, own.clone()]), "{why}, before it");
        }
        assert!(!runs(&[lab.bind("helpers/catatonit", "/x/../catatonit")]));
        assert!(!runs(&[lab.bind("other", "/catatonit")]));
        assert!(!runs(&[kernels("tmpfs", "/catatonit")]));
        // The same bytes, until they change.
        fs::set_permissions(lab.path("copy"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!runs(&[lab.bind("copy", "/catatonit")]), "others may write to it");
        // A link that the image has leads the mount elsewhere.
        symlink("/elsewhere", lab.path("empty/catatonit")).unwrap();
        assert!(!runs(&[own]));
    }

    #[test]
    fn nothing_that_is_no_file_is_waited_for() {
        let lab = Lab::new();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            lab.path("rootfs/fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(!lab.runs(&["/fifo", "-P"], &[]));
        assert!(!lab.runs(&["/data", "-P"], &[]));
        assert!(!runs_infra(&lab.asked(&WAITS, &[lab.bind("rootfs/fifo", "/catatonit")])));
    }

    #[test]
    fn the_image_that_the_administrator_names() {
        let lab = Lab::new();
        let runs = |image: &str, mounts: &[&str]| {
            let mounts: Vec<_> = mounts.iter().map(|m| lab.bind("helpers/catatonit", m)).collect();
            runs_infra(&InfraCandidate {
                image: image.into(),
                ..lab.asked(&["/bin/pause"], &mounts)
            })
        };
        assert!(!runs("localhost/pause:local", &[]), "nobody names one");
        fs::write(
            lab.path("containers.conf"),
            "[engine]\ninfra_image = \"localhost/pause:local\"\n",
        )
        .unwrap();
        assert!(runs("localhost/pause:local", &["/data"]));
        assert!(!runs("localhost/pause:local", &["/bin"]), "with another program in it");
        assert!(!runs("localhost/pause:local", &["/bin/pause"]));
        assert!(!runs("localhost/busybox:local", &[]) && !runs("", &[]));
        fs::set_permissions(lab.path("containers.conf"), fs::Permissions::from_mode(0o666))
            .unwrap();
        assert!(!runs("localhost/pause:local", &[]), "anybody may have named it");
        for (name, configured, same) in [
            ("r.io/pause:latest", "r.io/pause", true),
            ("r.io:5000/pause:latest", "r.io:5000/pause", true),
            ("r.io/pause:3", "r.io/pause", false),
        ] {
            assert_eq!(same_image(name, configured), same, "{name}");
        }
    }
}

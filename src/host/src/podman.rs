//! Proof that a container is the infra container of a Podman pod, by the program that it runs.
//!
//! Plugins do not adjust sandboxes, so a user must not be able to make a container pass for one.
//! All traces of an infra container in the OCI config (cgroup, name, annotations) can be set for
//! any container by `--cgroup-parent` and `--name`. The program cannot: an infra container runs
//! `catatonit -P`, byte by byte the host's, or the image of `infra_image` in `containers.conf`.
//!
//! Until 5.5 Podman copies the program into an image that it builds, `localhost/podman-pause`;
//! since then it mounts the host's over an empty root file system. That mount counts as the
//! program; with another mount over it, or one that links could lead there, the container is no
//! infra container (`mounts`).
//!
//! There is no other safe proof: libpod has a flag in its database only, an SQLite file (bbolt
//! before 5.0) that is not parsed. conmon's command line, the bundle and the lists of
//! containers/storage follow from name, cgroup and image. So an infra container with another
//! command or image is not recognized.
//!
//! Blocks: the files may be those of a container. Sources: podman, `libpod/runtime_pod_linux.go`,
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

/// Paths of catatonit in distributions.
const CATATONIT: &[&str] = &[
    "/usr/libexec/podman/catatonit",
    "/usr/lib/podman/catatonit",
    "/usr/libexec/catatonit/catatonit",
    "/usr/local/libexec/podman/catatonit",
    "/usr/local/lib/podman/catatonit",
    "/usr/bin/catatonit",
    "/usr/local/bin/catatonit",
];
/// Largest size of catatonit in bytes; that of distributions is below one megabyte.
const MAX_PROGRAM: u64 = 16 << 20;

/// A container that may be an infra container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InfraCandidate {
    /// The process that called the runtime, whose mounts paths refer to; `None` for our own.
    pub caller: Option<i32>,
    /// Absolute path of the root file system.
    pub root: PathBuf,
    /// Directory of the engine's image layers. Any user may own a root file system elsewhere
    /// (`--rootfs`).
    pub layers: Option<PathBuf>,
    /// Program and arguments.
    pub args: Vec<String>,
    /// Mounts, in the order of the OCI config.
    pub mounts: Vec<CandidateMount>,
    /// Name of the image, if known.
    pub image: String,
    /// Variables of the engine that select its configuration.
    pub environment: PodmanEnvironment,
}

/// Whether a container runs the program of an infra container. Errors count as no.
pub fn runs_infra(candidate: &InfraCandidate) -> bool {
    let Ok(Some(program)) = program(candidate) else { return false };
    let config = ContainersConf::read(&candidate.environment);
    let waits = candidate.args.get(1..).is_some_and(|rest| rest == ["-P"]);
    let paths = CATATONIT.iter().map(PathBuf::from).chain(config.programs);
    match program {
        Program::Own(_)
            if !candidate
                .layers
                .as_ref()
                .is_some_and(|layers| candidate.root.starts_with(layers)) =>
        {
            false
        }
        Program::Own(file) => {
            waits && is_catatonit(file, paths)
                || config.infra_image.is_some_and(|image| same_image(&candidate.image, &image))
        }
        Program::Mounted(file) => waits && is_catatonit(file, paths),
    }
}

/// The program that the runtime would run; `None` if it cannot be determined.
fn program(candidate: &InfraCandidate) -> io::Result<Option<Program>> {
    let Some(name) = candidate.args.first().filter(|name| name.starts_with('/')) else {
        return Ok(None);
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let all = match candidate.caller {
        Some(pid) => open(format!("/proc/{pid}/root"), directory, Mode::empty())?,
        None => open("/", directory, Mode::empty())?,
    };
    let root = within(&all, &candidate.root, directory, ResolveFlags::empty())?;
    mounts::program(&all, &root, Path::new(name), &candidate.mounts)
}

/// Whether the file has the same bytes as the host's program.
fn is_catatonit(file: File, paths: impl IntoIterator<Item = PathBuf>) -> bool {
    let Ok(Some(bytes)) = content(file, MAX_PROGRAM) else { return false };
    let owners = Owners::of_this_process();
    let same = |path: PathBuf| {
        owners.check(&path).is_ok() && read(&path, MAX_PROGRAM).is_some_and(|own| own == bytes)
    };
    !bytes.is_empty() && paths.into_iter().any(same)
}

/// Whether both names are of one image, with `latest` as the default tag.
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

    /// A root file system with a program, an empty one, and a program of the host.
    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(fixture.path("rootfs/bin")).unwrap();
            fs::create_dir(fixture.path("rootfs/data")).unwrap();
            fs::create_dir(fixture.path("empty")).unwrap();
            fs::create_dir(fixture.path("helpers")).unwrap();
            for file in ["rootfs/catatonit", "rootfs/bin/pause", "helpers/catatonit", "copy"] {
                fs::write(fixture.path(file), "waits").unwrap();
                fs::set_permissions(fixture.path(file), fs::Permissions::from_mode(0o755)).unwrap();
            }
            fs::write(fixture.path("other"), "does other things").unwrap();
            let config =
                format!("[engine]\nhelper_binaries_dir = [{:?}]\n", fixture.path("helpers"));
            fs::write(fixture.path("containers.conf"), config).unwrap();
            fixture
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn candidate(&self, args: &[&str], mounts: &[CandidateMount]) -> InfraCandidate {
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
            runs_infra(&self.candidate(args, &mounts))
        }
    }

    fn kernels(kind: &str, destination: &str) -> CandidateMount {
        CandidateMount { source: kind.into(), destination: destination.into(), kind: kind.into() }
    }

    const WAITS: [&str; 2] = ["/catatonit", "-P"];

    #[test]
    fn only_the_program_of_the_host_proves_an_infra_container() {
        let fixture = Fixture::new();
        let usual = ["/etc/hosts", "/run/.containerenv", "/data"];
        assert!(fixture.runs(&WAITS, &usual));
        assert!(!fixture.runs(&["/catatonit", "--", "/bin/sh"], &usual), "it runs others, too");
        assert!(!fixture.runs(&["catatonit", "-P"], &usual), "it is looked for in PATH");
        assert!(!fixture.runs(&["/gone", "-P"], &usual));
        for layers in [None, Some(fixture.path("helpers"))] {
            assert!(
                !runs_infra(&InfraCandidate { layers, ..fixture.candidate(&WAITS, &[]) }),
                "the file may be another one until it runs"
            );
        }
        fs::write(fixture.path("rootfs/catatonit"), "does other things").unwrap();
        assert!(!fixture.runs(&WAITS, &usual), "another program of that name");
        fs::write(fixture.path("rootfs/catatonit"), "waits").unwrap();
        fs::set_permissions(fixture.path("helpers/catatonit"), fs::Permissions::from_mode(0o777))
            .unwrap();
        assert!(!fixture.runs(&WAITS, &usual), "anybody could have written the host's");
    }

    #[test]
    fn a_mount_over_the_program_counts_through_links_too() {
        let fixture = Fixture::new();
        symlink("/catatonit", fixture.path("rootfs/data/link")).unwrap();
        symlink("/bin", fixture.path("rootfs/sbin")).unwrap();
        fs::copy(fixture.path("copy"), fixture.path("rootfs/bin/pause")).unwrap();
        let pause = ["/bin/pause", "-P"];
        assert!(fixture.runs(&["/sbin/pause", "-P"], &["/data", "/bi", "/binary"]));
        for mount in [
            "//catatonit/",
            "/data/../catatonit",
            "/data/link",
            "/",
            "../../catatonit",
            "/bin/../gone",
        ] {
            assert!(!fixture.runs(&WAITS, &[mount]), "{mount}");
        }
        for mount in ["/bin", "/sbin", "/sbin/pause", "/bin/pause/x"] {
            assert!(!fixture.runs(&["/sbin/pause", "-P"], &[mount]), "{mount}");
        }
        assert!(!fixture.runs(&pause, &["/bin"]));
        // Links out of the root file system are not followed.
        symlink(fixture.path("copy"), fixture.path("rootfs/out")).unwrap();
        symlink("/proc/self/exe", fixture.path("rootfs/self")).unwrap();
        assert!(!fixture.runs(&["/out", "-P"], &[]));
        assert!(!fixture.runs(&["/self", "-P"], &[]));
    }

    /// A link inside a mount is not visible before the mount exists.
    #[test]
    fn mounts_below_a_directory_of_others_are_not_trusted() {
        let fixture = Fixture::new();
        let runs = |mounts: &[CandidateMount]| runs_infra(&fixture.candidate(&WAITS, mounts));
        let own = [
            kernels("tmpfs", "/dev"),
            fixture.bind("empty", "/dev/shm"),
            kernels("sysfs", "/sys"),
            kernels("cgroup", "/sys/fs/cgroup"),
        ];
        assert!(runs(&own));
        assert!(!runs(&[fixture.bind("data", "/data"), fixture.bind("copy", "/data/link")]));
        assert!(!runs(&[fixture.bind("data", "/data/"), fixture.bind("copy", "/data/more/link")]));
        assert!(!runs(&[kernels("proc", "/proc"), fixture.bind("copy", "/proc/self/exe")]));
        assert!(runs(&[fixture.bind("data", "/data"), fixture.bind("copy", "/data2")]));
    }

    #[test]
    fn the_program_of_the_host_may_be_mounted() {
        let fixture = Fixture::new();
        let candidate = |mounts: &[CandidateMount]| InfraCandidate {
            root: fixture.path("empty"),
            ..fixture.candidate(&WAITS, mounts)
        };
        let runs = |mounts: &[CandidateMount]| runs_infra(&candidate(mounts));
        let own = fixture.bind("helpers/catatonit", "/catatonit");
        let more = [kernels("tmpfs", "/dev"), fixture.bind("copy", "/etc/hosts")];
        assert!(runs(&[&more[..], std::slice::from_ref(&own), &more[..]].concat()));
        assert!(!runs(&[]), "nothing to run");
        let bare = InfraCandidate {
            args: vec!["/catatonit".into()],
            ..candidate(std::slice::from_ref(&own))
        };
        assert!(!runs_infra(&bare));
        // The root file system may have a file at the mount point.
        assert!(runs_infra(&fixture.candidate(&WAITS, std::slice::from_ref(&own))));

        for (why, mount) in [
            ("a directory above it", fixture.bind("helpers", "/")),
            ("once more", own.clone()),
            ("another", fixture.bind("copy", "/catatonit")),
        ] {
            assert!(!runs(&[own.clone(), mount.clone()]), "{why}, after it");
            assert!(!runs(&[mount, own.clone()]), "{why}, before it");
        }
        assert!(!runs(&[fixture.bind("helpers/catatonit", "/x/../catatonit")]));
        assert!(!runs(&[fixture.bind("other", "/catatonit")]));
        assert!(!runs(&[kernels("tmpfs", "/catatonit")]));
        // The same bytes, until they change.
        fs::set_permissions(fixture.path("copy"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!runs(&[fixture.bind("copy", "/catatonit")]), "others may write to it");
        // A link in the image redirects the mount.
        symlink("/elsewhere", fixture.path("empty/catatonit")).unwrap();
        assert!(!runs(&[own]));
    }

    #[test]
    fn a_pipe_or_directory_as_program_does_not_block() {
        let fixture = Fixture::new();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            fixture.path("rootfs/fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(!fixture.runs(&["/fifo", "-P"], &[]));
        assert!(!fixture.runs(&["/data", "-P"], &[]));
        assert!(!runs_infra(
            &fixture.candidate(&WAITS, &[fixture.bind("rootfs/fifo", "/catatonit")])
        ));
    }

    #[test]
    fn the_configured_infra_image_proves_an_infra_container() {
        let fixture = Fixture::new();
        let runs = |image: &str, mounts: &[&str]| {
            let mounts: Vec<_> =
                mounts.iter().map(|m| fixture.bind("helpers/catatonit", m)).collect();
            runs_infra(&InfraCandidate {
                image: image.into(),
                ..fixture.candidate(&["/bin/pause"], &mounts)
            })
        };
        assert!(!runs("localhost/pause:local", &[]), "nobody names one");
        fs::write(
            fixture.path("containers.conf"),
            "[engine]\ninfra_image = \"localhost/pause:local\"\n",
        )
        .unwrap();
        assert!(runs("localhost/pause:local", &["/data"]));
        assert!(!runs("localhost/pause:local", &["/bin"]), "with another program in it");
        assert!(!runs("localhost/pause:local", &["/bin/pause"]));
        assert!(!runs("localhost/busybox:local", &[]) && !runs("", &[]));
        fs::set_permissions(fixture.path("containers.conf"), fs::Permissions::from_mode(0o666))
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

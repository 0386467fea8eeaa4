//! Proof that a container is the infra container of a Podman pod, by the program that it runs.
//!
//! Plugins do not adjust sandboxes, so a user must not be able to make another container look like
//! a sandbox. `--cgroup-parent`, `--name` and annotations can give any container the OCI config of
//! an infra container. The program is proof: an infra container runs either `catatonit -P`, with
//! the same bytes as the host's catatonit, or a program of the image that `infra_image` in
//! `containers.conf` names.
//!
//! Podman up to 5.5 copies the program into an image that it builds, `localhost/podman-pause`;
//! newer versions mount the host's program into an empty root file system. That mount counts as the
//! program. If another mount covers the program, or may cover it through links, the container does
//! not count as an infra container (`mounts`).
//!
//! The proof is of the program that runs first, and `exec` runs others. So what the user of the pod
//! gives to the container counts, too, which the caller knows: with more than Podman itself gives
//! to it, it is a container like any other.
//!
//! There is no other proof: libpod has a flag only in its database, an SQLite file (bbolt before
//! 5.0) that is not parsed. conmon's command line, the bundle and the lists of containers/storage
//! depend only on name, cgroup and image, which a user can choose. So an infra container with
//! another command or image is not recognized.
//!
//! Calls may block, since they read files of containers. Sources: podman,
//! `libpod/runtime_pod_linux.go`, `libpod/container_internal_common.go`,
//! `pkg/specgen/generate/pause_image.go`; containers/common, `pkg/config/config_local.go`.

mod config;
mod files;
mod mounts;

pub use config::PodmanEnvironment;
pub use mounts::CandidateMount;

use config::ContainersConf;
use files::{content, open_in_root};
use mounts::Program;
use nri_trust::{Owners, read_regular};
use rustix::fs::{Mode, OFlags, ResolveFlags, open};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Paths of catatonit in Linux distributions.
const CATATONIT: &[&str] = &[
    "/usr/libexec/podman/catatonit",
    "/usr/lib/podman/catatonit",
    "/usr/libexec/catatonit/catatonit",
    "/usr/local/libexec/podman/catatonit",
    "/usr/local/lib/podman/catatonit",
    "/usr/bin/catatonit",
    "/usr/local/bin/catatonit",
];
/// Largest size of catatonit in bytes, which bounds the memory for reading a file of a container.
/// catatonit of distributions is below one megabyte.
const MAX_PROGRAM: u64 = 16 << 20;

/// A container that may be an infra container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InfraCandidate {
    /// Process that called the runtime; paths refer to its mount namespace. `None` means the mount
    /// namespace of this process.
    pub caller: Option<i32>,
    /// Absolute path of the root file system.
    pub root: PathBuf,
    /// Directory of the engine's image layers. A root file system elsewhere (`--rootfs`) may belong
    /// to any user.
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

/// Whether a container runs the program of an infra container. `false` if an error occurs.
pub fn runs_infra(candidate: &InfraCandidate) -> bool {
    let Ok(Some(program)) = program(candidate) else { return false };
    let config = ContainersConf::read(&candidate.environment);
    let has_pause_flag = candidate.args.get(1..).is_some_and(|rest| rest == ["-P"]);
    let paths = CATATONIT.iter().map(PathBuf::from).chain(config.programs);
    match program {
        Program::RootFs(_)
            if !candidate
                .layers
                .as_ref()
                .is_some_and(|layers| candidate.root.starts_with(layers)) =>
        {
            false
        }
        Program::RootFs(file) => {
            has_pause_flag && is_catatonit(file, paths)
                || config.infra_image.is_some_and(|image| same_image(&candidate.image, &image))
        }
        Program::Mounted(file) => has_pause_flag && is_catatonit(file, paths),
    }
}

/// Returns the program that the runtime would run; `None` if it cannot be determined.
fn program(candidate: &InfraCandidate) -> io::Result<Option<Program>> {
    let Some(name) = candidate.args.first().filter(|name| name.starts_with('/')) else {
        return Ok(None);
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let host_root = match candidate.caller {
        Some(pid) => open(format!("/proc/{pid}/root"), directory, Mode::empty())?,
        None => open("/", directory, Mode::empty())?,
    };
    let root = open_in_root(&host_root, &candidate.root, directory, ResolveFlags::empty())?;
    mounts::program(&host_root, &root, Path::new(name), &candidate.mounts)
}

/// Whether a file has the same bytes as catatonit at one of `paths` on the host.
fn is_catatonit(file: File, paths: impl IntoIterator<Item = PathBuf>) -> bool {
    let Ok(Some(bytes)) = content(file, MAX_PROGRAM) else { return false };
    let owners = Owners::of_this_process();
    let same = |path: PathBuf| {
        owners.check(&path).is_ok()
            && read_regular(&path, MAX_PROGRAM).is_ok_and(|own| own == bytes)
    };
    !bytes.is_empty() && paths.into_iter().any(same)
}

/// Whether both names mean the same image; a name without a tag means the tag `latest`.
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

    /// A root file system with a program, an empty root file system, and a program of the host.
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

        /// Whether a container with these arguments and mount points is an infra container.
        fn is_infra(&self, args: &[&str], mounts: &[&str]) -> bool {
            let mounts: Vec<_> = mounts.iter().map(|m| self.bind("other", m)).collect();
            runs_infra(&self.candidate(args, &mounts))
        }
    }

    /// Returns a mount of a file system that the kernel provides, such as tmpfs or proc.
    fn kernel_mount(kind: &str, destination: &str) -> CandidateMount {
        CandidateMount { source: kind.into(), destination: destination.into(), kind: kind.into() }
    }

    const PAUSE: [&str; 2] = ["/catatonit", "-P"];

    #[test]
    fn only_the_program_of_the_host_proves_an_infra_container() {
        let fixture = Fixture::new();
        let usual = ["/etc/hosts", "/run/.containerenv", "/data"];
        assert!(fixture.is_infra(&PAUSE, &usual));
        assert!(
            !fixture.is_infra(&["/catatonit", "--", "/bin/sh"], &usual),
            "accepted catatonit with a command"
        );
        assert!(
            !fixture.is_infra(&["catatonit", "-P"], &usual),
            "accepted a program that is searched in PATH"
        );
        assert!(!fixture.is_infra(&["/missing", "-P"], &usual));
        for layers in [None, Some(fixture.path("helpers"))] {
            assert!(
                !runs_infra(&InfraCandidate { layers, ..fixture.candidate(&PAUSE, &[]) }),
                "accepted a root file system outside of the image layers"
            );
        }
        fs::write(fixture.path("rootfs/catatonit"), "does other things").unwrap();
        assert!(!fixture.is_infra(&PAUSE, &usual), "accepted another program of that name");
        fs::write(fixture.path("rootfs/catatonit"), "waits").unwrap();
        fs::set_permissions(fixture.path("helpers/catatonit"), fs::Permissions::from_mode(0o777))
            .unwrap();
        assert!(
            !fixture.is_infra(&PAUSE, &usual),
            "accepted a host program that every user can write"
        );
    }

    #[test]
    fn a_program_that_a_mount_covers_directly_or_through_links_is_no_proof() {
        let fixture = Fixture::new();
        symlink("/catatonit", fixture.path("rootfs/data/link")).unwrap();
        symlink("/bin", fixture.path("rootfs/sbin")).unwrap();
        fs::copy(fixture.path("copy"), fixture.path("rootfs/bin/pause")).unwrap();
        let pause = ["/bin/pause", "-P"];
        // `/bi` and `/binary` do not cover `/bin`.
        assert!(fixture.is_infra(&["/sbin/pause", "-P"], &["/data", "/bi", "/binary"]));
        for mount in [
            "//catatonit/",
            "/data/../catatonit",
            "/data/link",
            "/",
            "../../catatonit",
            "/bin/../missing",
        ] {
            assert!(!fixture.is_infra(&PAUSE, &[mount]), "{mount}");
        }
        for mount in ["/bin", "/sbin", "/sbin/pause", "/bin/pause/x"] {
            assert!(!fixture.is_infra(&["/sbin/pause", "-P"], &[mount]), "{mount}");
        }
        assert!(!fixture.is_infra(&pause, &["/bin"]));
        // Links out of the root file system are not followed.
        symlink(fixture.path("copy"), fixture.path("rootfs/out")).unwrap();
        symlink("/proc/self/exe", fixture.path("rootfs/self")).unwrap();
        assert!(!fixture.is_infra(&["/out", "-P"], &[]));
        assert!(!fixture.is_infra(&["/self", "-P"], &[]));
    }

    /// A bind-mounted directory may have a link, which is not visible before the mount exists.
    #[test]
    fn mounts_below_another_bind_mount_are_not_trusted() {
        let fixture = Fixture::new();
        let runs = |mounts: &[CandidateMount]| runs_infra(&fixture.candidate(&PAUSE, mounts));
        let own = [
            kernel_mount("tmpfs", "/dev"),
            fixture.bind("empty", "/dev/shm"),
            kernel_mount("sysfs", "/sys"),
            kernel_mount("cgroup", "/sys/fs/cgroup"),
        ];
        assert!(runs(&own));
        assert!(!runs(&[fixture.bind("data", "/data"), fixture.bind("copy", "/data/link")]));
        assert!(!runs(&[fixture.bind("data", "/data/"), fixture.bind("copy", "/data/more/link")]));
        assert!(!runs(&[kernel_mount("proc", "/proc"), fixture.bind("copy", "/proc/self/exe")]));
        assert!(runs(&[fixture.bind("data", "/data"), fixture.bind("copy", "/data2")]));
    }

    #[test]
    fn the_program_of_the_host_may_be_mounted() {
        let fixture = Fixture::new();
        let candidate = |mounts: &[CandidateMount]| InfraCandidate {
            root: fixture.path("empty"),
            ..fixture.candidate(&PAUSE, mounts)
        };
        let runs = |mounts: &[CandidateMount]| runs_infra(&candidate(mounts));
        let own = fixture.bind("helpers/catatonit", "/catatonit");
        let more = [kernel_mount("tmpfs", "/dev"), fixture.bind("copy", "/etc/hosts")];
        assert!(runs(&[&more[..], std::slice::from_ref(&own), &more[..]].concat()));
        assert!(!runs(&[]), "accepted a container without a program");
        let without_flag = InfraCandidate {
            args: vec!["/catatonit".into()],
            ..candidate(std::slice::from_ref(&own))
        };
        assert!(!runs_infra(&without_flag), "accepted catatonit without -P");
        // The root file system may have a file at the mount point.
        assert!(runs_infra(&fixture.candidate(&PAUSE, std::slice::from_ref(&own))));

        for (other, mount) in [
            ("the parent directory", fixture.bind("helpers", "/")),
            ("the same mount", own.clone()),
            ("another file", fixture.bind("copy", "/catatonit")),
        ] {
            assert!(
                !runs(&[own.clone(), mount.clone()]),
                "accepted {other} mounted after the program"
            );
            assert!(!runs(&[mount, own.clone()]), "accepted {other} mounted before the program");
        }
        assert!(!runs(&[fixture.bind("helpers/catatonit", "/x/../catatonit")]));
        assert!(!runs(&[fixture.bind("other", "/catatonit")]));
        assert!(!runs(&[kernel_mount("tmpfs", "/catatonit")]));
        // The file has the same bytes, but every user can change them.
        fs::set_permissions(fixture.path("copy"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(
            !runs(&[fixture.bind("copy", "/catatonit")]),
            "accepted a mounted file that every user can write"
        );
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
        assert!(!fixture.is_infra(&["/fifo", "-P"], &[]));
        assert!(!fixture.is_infra(&["/data", "-P"], &[]));
        assert!(!runs_infra(
            &fixture.candidate(&PAUSE, &[fixture.bind("rootfs/fifo", "/catatonit")])
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
        assert!(!runs("localhost/pause:local", &[]), "accepted an image that is not configured");
        fs::write(
            fixture.path("containers.conf"),
            "[engine]\ninfra_image = \"localhost/pause:local\"\n",
        )
        .unwrap();
        assert!(runs("localhost/pause:local", &["/data"]));
        assert!(
            !runs("localhost/pause:local", &["/bin"]),
            "accepted a mount over the directory of the program"
        );
        assert!(!runs("localhost/pause:local", &["/bin/pause"]));
        assert!(!runs("localhost/busybox:local", &[]) && !runs("", &[]));
        fs::set_permissions(fixture.path("containers.conf"), fs::Permissions::from_mode(0o666))
            .unwrap();
        assert!(
            !runs("localhost/pause:local", &[]),
            "accepted a configuration that every user can write"
        );
        for (name, configured, same) in [
            ("r.io/pause:latest", "r.io/pause", true),
            ("r.io:5000/pause:latest", "r.io:5000/pause", true),
            ("r.io/pause:3", "r.io/pause", false),
        ] {
            assert_eq!(same_image(name, configured), same, "{name}");
        }
    }
}

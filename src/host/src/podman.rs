//! Whether a container that looks like the infra container of a Podman pod is one: by the program that it runs.
//!
//! Nothing is asked about a pod's sandbox, so nobody is to become one by saying so; and all that tells an infra container in its document (cgroup, name, annotations)
//! may be chosen for any other, by `--cgroup-parent` and `--name`. What it runs may not: an infra container runs Podman's own program that waits,
//! `catatonit -P`, from the host, or the image that `infra_image` in `containers.conf` names. A program over which something is mounted is neither.
//!
//! Blocks; the files may be a container's. Sources: podman, `libpod/runtime_pod_linux.go`, `pkg/specgen/generate/pause_image.go`; containers/common,
//! `pkg/config/config_local.go`.

use nri_trust::Owners;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};
use toml::{Table, Value};

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
/// A configuration has some kilobytes.
const MAX_CONFIG: u64 = 1 << 20;

/// What a container is to run.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The process that calls the runtime: paths are as it sees them. None: as we do.
    pub caller: Option<i32>,
    /// The root file system, absolute.
    pub root: PathBuf,
    /// Program and arguments.
    pub args: Vec<String>,
    /// Where something is mounted.
    pub mounts: Vec<PathBuf>,
    /// Name of its image, where known.
    pub image: String,
    /// `CONTAINERS_CONF` of the engine, if it is set.
    pub config: Option<PathBuf>,
    /// `CONTAINERS_CONF_OVERRIDE`
    pub override_config: Option<PathBuf>,
}

/// Whether that is what infra containers run. Whatever cannot be found out counts as no.
pub fn runs_infra(asked: &Asked) -> bool {
    let Ok(Some(program)) = program(asked) else { return false };
    if asked.args.get(1..).is_some_and(|rest| rest == ["-P"]) && is_catatonit(program, CATATONIT) {
        return true;
    }
    infra_image(asked).is_some_and(|image| same_image(&asked.image, &image))
}

/// The program in the root file system; none where something hides it.
fn program(asked: &Asked) -> io::Result<Option<File>> {
    let Some(name) = asked.args.first().filter(|name| name.starts_with('/')) else { return Ok(None) };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let all = match asked.caller {
        Some(pid) => open(format!("/proc/{pid}/root"), directory, Mode::empty())?,
        None => open("/", directory, Mode::empty())?,
    };
    let root = within(&all, &asked.root, directory)?;
    let file = within(&root, Path::new(name), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let place = place(&file)?;
    for mount in &asked.mounts {
        // Links in the image lead a mount elsewhere. What is not there yet is not the program.
        match within(&root, mount, OFlags::PATH) {
            Ok(mounted) if place.starts_with(self::place(&mounted)?) => return Ok(None),
            Ok(_) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Some(File::from(file)))
}

/// Opens as if the directory were the root; links to places of processes are not followed.
fn within(root: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn place(fd: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Whether the file has the same bytes as the host's program.
fn is_catatonit(file: File, places: &[&str]) -> bool {
    let Ok(Some(bytes)) = content(file, MAX_PROGRAM) else { return false };
    let owners = Owners::of_this_process();
    let same = |path: &str| {
        owners.check(Path::new(path)).is_ok()
            && read(Path::new(path), MAX_PROGRAM).is_some_and(|own| own == bytes)
    };
    !bytes.is_empty() && places.iter().copied().any(same)
}

fn read(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let file = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    content(file.into(), limit).ok()?
}

/// None of what is no regular file, or too large.
fn content(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// `infra_image` in the section `[engine]`: the last file that has it counts.
fn infra_image(asked: &Asked) -> Option<String> {
    let mut files = match &asked.config {
        Some(file) => vec![file.clone()],
        None => {
            let mut files: Vec<PathBuf> = ["/usr/share/containers", "/etc/containers"]
                .map(|d| Path::new(d).join("containers.conf"))
                .into();
            for dir in ["/usr/share/containers", "/etc/containers"] {
                let entries = fs::read_dir(Path::new(dir).join("containers.conf.d"));
                let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
                let mut more: Vec<_> = paths.filter(|p| p.extension().is_some_and(|e| e == "conf")).collect();
                more.sort();
                files.extend(more);
            }
            files
        }
    };
    files.extend(asked.override_config.clone());
    let image = |file: PathBuf| {
        Owners::of_this_process().check(&file).ok()?;
        let table: Table = String::from_utf8(read(&file, MAX_CONFIG)?).ok()?.parse().ok()?;
        table.get("engine")?.get("infra_image").and_then(Value::as_str).map(str::to_owned)
    };
    files.into_iter().filter_map(image).next_back().filter(|image| !image.is_empty())
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A root file system with a program, and a host's one.
    struct Lab(tempfile::TempDir);

    impl Lab {
        fn new() -> Self {
            let lab = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(lab.path("rootfs/bin")).unwrap();
            fs::create_dir(lab.path("rootfs/data")).unwrap();
            for file in ["rootfs/catatonit", "rootfs/bin/pause", "catatonit"] {
                fs::write(lab.path(file), "waits").unwrap();
                fs::set_permissions(lab.path(file), fs::Permissions::from_mode(0o755)).unwrap();
            }
            lab
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn asked(&self, args: &[&str], mounts: &[&str]) -> Asked {
            Asked {
                caller: None,
                root: self.path("rootfs"),
                args: args.iter().map(|a| (*a).to_owned()).collect(),
                mounts: mounts.iter().map(PathBuf::from).collect(),
                image: String::new(),
                config: Some(self.path("containers.conf")),
                override_config: None,
            }
        }

        /// Whether the program is there and is the host's.
        fn is_catatonit(&self, args: &[&str], mounts: &[&str]) -> bool {
            let host = self.path("catatonit");
            let Ok(Some(program)) = program(&self.asked(args, mounts)) else { return false };
            is_catatonit(program, &[host.to_str().unwrap()])
        }
    }

    #[test]
    fn the_hosts_own_program_and_no_other() {
        let lab = Lab::new();
        let usual = ["/proc", "/dev", "/dev/shm", "/etc/hosts", "/run/.containerenv", "/data"];
        assert!(lab.is_catatonit(&["/catatonit", "-P"], &usual));
        assert!(!lab.is_catatonit(&["catatonit", "-P"], &usual), "it is looked for in PATH");
        assert!(!lab.is_catatonit(&["/gone"], &usual));
        fs::write(lab.path("rootfs/catatonit"), "does other things").unwrap();
        assert!(!lab.is_catatonit(&["/catatonit", "-P"], &usual), "another program of that name");
        fs::write(lab.path("rootfs/catatonit"), "waits").unwrap();
        fs::set_permissions(lab.path("catatonit"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!lab.is_catatonit(&["/catatonit", "-P"], &usual), "anybody could have written the host's");
    }

    #[test]
    fn what_is_mounted_over_the_program_counts_by_whatever_way() {
        let lab = Lab::new();
        symlink("/catatonit", lab.path("rootfs/data/link")).unwrap();
        symlink("/bin", lab.path("rootfs/sbin")).unwrap();
        for mount in ["/catatonit", "//catatonit", "/data/../catatonit", "/data/link", "/", "../../catatonit"]
        {
            assert!(!lab.is_catatonit(&["/catatonit", "-P"], &[mount]), "{mount}");
        }
        for mount in ["/bin", "/sbin", "/sbin/pause"] {
            assert!(!lab.is_catatonit(&["/bin/pause"], &[mount]), "{mount}");
            assert!(!lab.is_catatonit(&["/sbin/pause"], &[mount]), "{mount}");
        }
        assert!(lab.is_catatonit(&["/sbin/pause"], &["/data", "/bi", "/binary"]));
        // Out of the root file system, by links, leads nowhere.
        symlink(lab.path("catatonit"), lab.path("rootfs/out")).unwrap();
        symlink("/proc/self/exe", lab.path("rootfs/self")).unwrap();
        assert!(!lab.is_catatonit(&["/out"], &[]));
        assert!(!lab.is_catatonit(&["/self"], &[]));
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
        assert!(!lab.is_catatonit(&["/fifo", "-P"], &[]));
        assert!(!lab.is_catatonit(&["/data", "-P"], &[]));
    }

    #[test]
    fn the_image_that_the_administrator_names() {
        let lab = Lab::new();
        let runs = |image: &str, mounts: &[&str]| {
            runs_infra(&Asked { image: image.into(), ..lab.asked(&["/bin/pause"], mounts) })
        };
        assert!(!runs("localhost/pause:local", &[]), "nobody names one");
        fs::write(lab.path("containers.conf"), "[engine]\ninfra_image = \"localhost/pause:local\"\n")
            .unwrap();
        assert!(runs("localhost/pause:local", &["/data"]));
        assert!(!runs("localhost/pause:local", &["/bin"]), "with another program in it");
        assert!(!runs("localhost/busybox:local", &[]) && !runs("", &[]));
        fs::set_permissions(lab.path("containers.conf"), fs::Permissions::from_mode(0o666)).unwrap();
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

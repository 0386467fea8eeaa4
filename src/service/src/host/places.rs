//! What applying an adjustment asks of the host.

use crate::host::path_probe::{LookError, Looks, Node, Question};
use nri_spec::{HostDevice, HostDeviceKind, Propagation};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// The paths that an adjustment names, as they are on this host.
#[derive(Debug, Default)]
pub struct Places {
    mounts: HashMap<PathBuf, Propagation>,
    real: HashMap<String, Option<String>>,
    nodes: HashMap<String, Option<Node>>,
}

/// Paths that cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Unseen {
    /// The paths.
    what: String,
    /// What is wrong with one of them.
    #[source]
    why: LookError,
}

impl Places {
    /// Looks at sources of mounts, and at nodes of devices.
    ///
    /// # Errors
    /// A path that hangs.
    pub async fn see(
        looks: &Looks,
        sources: Vec<String>,
        nodes: Vec<String>,
    ) -> Result<Self, Unseen> {
        if sources.is_empty() && nodes.is_empty() {
            return Ok(Self::default());
        }
        let question = Question { real: sources, nodes, infra: None };
        let answer = looks.look(&question).await.map_err(|why| {
            let all: Vec<_> =
                question.real.iter().chain(&question.nodes).map(|p| format!("{p:?}")).collect();
            Unseen { what: all.join(", "), why }
        })?;
        let mounts = match question.real.as_slice() {
            [] => HashMap::new(),
            _ => mounts_in(&crate::host::proc::text("/proc/self/mountinfo")),
        };
        Ok(Self {
            mounts,
            real: question.real.into_iter().zip(answer.real).collect(),
            nodes: question.nodes.into_iter().zip(answer.nodes).collect(),
        })
    }

    /// The propagation of the mount that a path lies on.
    pub fn propagation(&self, path: &str) -> Option<Propagation> {
        let real = self.real.get(path)?.as_deref().unwrap_or(path);
        propagation_at(&self.mounts, Path::new(real))
    }

    /// The device node at a path.
    pub fn device(&self, path: &str) -> Option<HostDevice> {
        device(*self.nodes.get(path)?.as_ref()?)
    }
}

/// The mounts of `/proc/self/mountinfo`, by their points. Of mounts on the same point the last one
/// is on top.
fn mounts_in(mountinfo: &str) -> HashMap<PathBuf, Propagation> {
    let parse = |line: &str| {
        let (left, _) = line.split_once(" - ")?;
        let fields: Vec<&str> = left.split(' ').collect();
        let point = PathBuf::from(unescape(fields.get(4)?));
        let optional = fields.get(6..).unwrap_or_default();
        let kind = if optional.iter().any(|o| o.starts_with("shared:")) {
            Propagation::Shared
        } else if optional.iter().any(|o| o.starts_with("master:")) {
            Propagation::Slave
        } else {
            Propagation::Private
        };
        Some((point, kind))
    };
    mountinfo.lines().filter_map(parse).collect()
}

/// The propagation of the mount that a path lies on: the deepest one above it.
fn propagation_at(mounts: &HashMap<PathBuf, Propagation>, path: &Path) -> Option<Propagation> {
    path.ancestors().find_map(|point| mounts.get(point)).copied()
}

/// The kernel writes blanks, tabs, newlines and backslashes as octal escapes.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn device(node: Node) -> Option<HostDevice> {
    use rustix::fs::FileType;
    let kind = match FileType::from_raw_mode(node.mode) {
        FileType::BlockDevice => HostDeviceKind::Block,
        FileType::CharacterDevice => HostDeviceKind::Char,
        FileType::Fifo => HostDeviceKind::Fifo,
        _ => return None,
    };
    Some(HostDevice {
        kind,
        major: i64::from(rustix::fs::major(node.rdev)),
        minor: i64::from(rustix::fs::minor(node.rdev)),
        mode: node.mode & 0o7777,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_deepest_and_last_mount_counts() {
        let table = "\
1 0 0:1 / / rw shared:1 - ext4 /dev/a rw
2 1 0:2 / /a rw master:1 - ext4 /dev/b rw
3 2 0:3 / /a/b\\040c rw - ext4 /dev/c rw
4 2 0:4 / /a rw shared:9 master:1 - tmpfs t rw
";
        let mounts = mounts_in(table);
        let of = |p: &str| propagation_at(&mounts, Path::new(p));
        assert_eq!(of("/x"), Some(Propagation::Shared));
        assert_eq!(of("/a/x"), Some(Propagation::Shared));
        assert_eq!(of("/a/b c/d"), Some(Propagation::Private));
        assert_eq!(of("/ab"), Some(Propagation::Shared));
        assert_eq!(of("/a/"), Some(Propagation::Shared));
        assert_eq!(of("a"), None);
        assert_eq!(propagation_at(&HashMap::new(), Path::new("/a")), None);
    }

    #[test]
    fn each_of_thousands_of_mounts_has_its_own() {
        use std::fmt::Write;
        let kinds = [Propagation::Shared, Propagation::Slave, Propagation::Private];
        let mut table = String::from("1 0 0:1 / / rw - ext4 /dev/a rw\n");
        // Every seventh point is mounted over, with the next kind.
        for layer in 0..2 {
            for n in (0..5000).filter(|n| layer == 0 || n % 7 == 0) {
                let tag = ["shared:1 ", "master:1 ", ""][(n + layer) % 3];
                writeln!(table, "2 1 0:2 / /m/{n}/inner rw {tag}- ext4 /dev/b rw").unwrap();
            }
        }
        let mounts = mounts_in(&table);
        for n in 0..5000 {
            let expected = kinds[(n + usize::from(n % 7 == 0)) % 3];
            let of = |below: &str| propagation_at(&mounts, Path::new(&format!("/m/{n}{below}")));
            assert_eq!(of("/inner"), Some(expected), "{n}");
            assert_eq!(of("/inner/deep/down"), Some(expected), "{n}");
            assert_eq!(of("/innermost"), Some(Propagation::Private), "{n}");
        }
    }

    #[test]
    fn null_is_a_device() {
        let at = |path: &str| {
            let meta = std::fs::symlink_metadata(path).unwrap();
            device(Node { mode: meta.mode(), rdev: meta.rdev() })
        };
        let null = at("/dev/null").unwrap();
        assert_eq!((null.kind, null.major, null.minor), (HostDeviceKind::Char, 1, 3));
        assert_eq!(at("/proc/self/stat"), None);
    }

    #[tokio::test]
    async fn without_a_question_nobody_looks() {
        let places = Places::see(&Looks::default(), Vec::new(), Vec::new()).await.unwrap();
        assert_eq!((places.propagation("/"), places.device("/dev/null")), (None, None));
    }
}

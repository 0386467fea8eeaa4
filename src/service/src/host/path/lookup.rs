//! The child of `probe.rs`: does lookups, in a mount namespace that it enters first. Says what
//! it is about to wait for, see `walk.rs`, and waits for permission. Start from [`run`].

use crate::host::{
    mount_namespace::{self, NamespaceDescriptors},
    path::probe::{
        DESCRIPTORS, IN_NAMESPACE, IN_USER_NAMESPACE, Node, ProbeReply, ProbeRequest, Said,
    },
    path::walk::walk,
    proc::mounts,
    sys,
};
use nri_facts::NamespaceId;
use nri_host::podman::{InfraCandidate, runs_infra};
use nri_mountinfo::{MountInfo, MountPropagation};
use std::{
    collections::{BTreeSet, HashMap},
    io::{self, BufRead, Read, Write},
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    process::{ExitCode, exit},
};

/// Runs the child: reads a request from stdin, and writes the reply to stdout.
pub fn run() -> ExitCode {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let request = read.and_then(|_| Ok(serde_json::from_str::<ProbeRequest>(&line)?));
    let Ok(request) = request else {
        return ExitCode::FAILURE;
    };
    let second = std::env::args_os().nth(2);
    let entered = match second.as_ref().and_then(|second| second.to_str()) {
        Some(IN_NAMESPACE) => enter_namespace(false),
        Some(IN_USER_NAMESPACE) => enter_namespace(true),
        _ => Ok(()),
    };
    let mut last: Vec<String> = Vec::new();
    let reply = match entered {
        Ok(()) => look_up(&request, &mut |places| {
            if places == last {
                return;
            }
            last.clone_from(&places);
            // Without permission, this process must not go on: it could not be killed.
            if say(&Said::Enters(places)).and_then(|()| permission()).is_err() {
                exit(1);
            }
        }),
        Err(error) => ProbeReply { error: Some(error.to_string()), ..ProbeReply::default() },
    };
    match say(&Said::Replies(reply)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes a line to stdout.
fn say(said: &Said) -> io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// Reads an empty line from stdin.
fn permission() -> io::Result<()> {
    io::stdin().lock().read_exact(&mut [0])
}

/// Enters the mount namespace whose descriptors this process got. The child enters it itself, and
/// not before it is executed, because the program and its libraries are in `nrid`'s namespace.
fn enter_namespace(has_user_namespace: bool) -> io::Result<()> {
    let [mount, root, user] = DESCRIPTORS.map(i32::cast_unsigned);
    let (mount, root) = (sys::take_descriptor(mount)?, sys::take_descriptor(root)?);
    let user = has_user_namespace.then(|| sys::take_descriptor(user)).transpose()?;
    let user = user.as_ref().map(AsFd::as_fd);
    let (mount, root) = (mount.as_fd(), root.as_fd());
    mount_namespace::enter(NamespaceDescriptors { user, mount, root })
}

/// Does the lookups. Calls `enter` before it waits for other file systems than before.
fn look_up(request: &ProbeRequest, enter: &mut dyn FnMut(Vec<String>)) -> ProbeReply {
    let table = mounts();
    let mut before = |path: &Path| announce(path, &table, enter);
    let mount_sources = nri_facts::resolve(&request.mount_sources, &table, &mut before);
    let mounts = by_point(&table);
    let propagation = |path: &String| {
        before(path.as_ref());
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        propagation_at(&mounts, &real)
    };
    let propagation = request.sources.iter().map(propagation).collect();
    let node = |path: &String| {
        before(path.as_ref());
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some(Node { mode: meta.mode(), rdev: meta.rdev() })
    };
    let nodes = request.nodes.iter().map(node).collect();
    let namespace = |path: &String| {
        before(path.as_ref());
        NamespaceId::at(path.as_ref()).map_err(|error| format!("{path:?}: {error}"))
    };
    let namespaces = request.namespaces.iter().map(namespace).collect();
    let infra = |candidate: &InfraCandidate| {
        before(&candidate.root);
        runs_infra(candidate)
    };
    let infra = request.infra.as_ref().is_some_and(infra);
    ProbeReply { error: None, propagation, nodes, infra, mount_sources, namespaces }
}

/// Calls `enter` for each file system on the way along a path, and then for all of them together:
/// the lookup itself, which follows, may wait for any.
fn announce(path: &Path, mounts: &[MountInfo], enter: &mut dyn FnMut(Vec<String>)) {
    let mut places = BTreeSet::new();
    walk(path, mounts, &mut |place| {
        places.insert(place.to_owned());
        enter(vec![place.to_owned()]);
    });
    enter(places.into_iter().collect());
}

/// Maps mount points to propagations. The last of several mounts on one point is the visible one.
fn by_point(mounts: &[MountInfo]) -> HashMap<PathBuf, MountPropagation> {
    mounts.iter().map(|mount| (mount.point.clone(), mount.propagation)).collect()
}

/// Returns the propagation of the deepest mount that contains a path.
fn propagation_at(
    mounts: &HashMap<PathBuf, MountPropagation>,
    path: &Path,
) -> Option<MountPropagation> {
    path.ancestors().find_map(|point| mounts.get(point)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_mountinfo::parse;

    #[test]
    fn links_are_followed_for_sources_and_not_for_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let paths =
            [link.to_str().unwrap().to_owned(), "/nowhere".to_owned(), "/dev/null".to_owned()];
        let sources = paths.to_vec();
        let request = ProbeRequest { sources, nodes: paths.to_vec(), ..ProbeRequest::default() };
        let mut entered = Vec::new();
        let found = look_up(&request, &mut |places| entered.push(places));
        // Each file system alone before all on the way: the root directory and that of /dev/null.
        assert!(entered.iter().any(|places| places.len() == 1), "{entered:?}");
        // The link has the propagation of its target.
        assert_eq!(found.propagation[0], found.propagation[2]);
        assert!(found.propagation[0].is_some());
        let kinds: Vec<_> = found.nodes.iter().map(|n| n.map(|n| n.mode & 0o170_000)).collect();
        assert_eq!(kinds, [Some(0o120_000), None, Some(0o020_000)]);
    }

    #[test]
    fn the_last_mount_on_the_deepest_mount_point_has_the_propagation() {
        let table = "\
1 0 0:1 / / rw shared:1 - ext4 /dev/a rw
2 1 0:2 / /a rw master:1 - ext4 /dev/b rw
3 2 0:3 / /a/b\\040c rw - ext4 /dev/c rw
4 2 0:4 / /a rw shared:9 master:1 - tmpfs t rw
";
        let mounts = by_point(&parse(table.as_bytes()));
        let of = |p: &str| propagation_at(&mounts, Path::new(p));
        assert_eq!(of("/x"), Some(MountPropagation::Shared));
        assert_eq!(of("/a/x"), Some(MountPropagation::Shared));
        assert_eq!(of("/a/b c/d"), Some(MountPropagation::Private));
        assert_eq!(of("/ab"), Some(MountPropagation::Shared));
        assert_eq!(of("/a/"), Some(MountPropagation::Shared));
        assert_eq!(of("a"), None);
        assert_eq!(propagation_at(&HashMap::new(), Path::new("/a")), None);
    }

    #[test]
    fn each_of_thousands_of_mounts_has_its_own_propagation() {
        use std::fmt::Write;
        let kinds = [MountPropagation::Shared, MountPropagation::Slave, MountPropagation::Private];
        let mut table = String::from("1 0 0:1 / / rw - ext4 /dev/a rw\n");
        // Every seventh mount point has a second mount, with the next propagation.
        for layer in 0..2 {
            for n in (0..5000).filter(|n| layer == 0 || n % 7 == 0) {
                let tag = ["shared:1 ", "master:1 ", ""][(n + layer) % 3];
                writeln!(table, "2 1 0:2 / /m/{n}/inner rw {tag}- ext4 /dev/b rw").unwrap();
            }
        }
        let mounts = by_point(&parse(table.as_bytes()));
        for n in 0..5000 {
            let expected = kinds[(n + usize::from(n % 7 == 0)) % 3];
            let of = |below: &str| propagation_at(&mounts, Path::new(&format!("/m/{n}{below}")));
            assert_eq!(of("/inner"), Some(expected), "{n}");
            assert_eq!(of("/inner/deep/down"), Some(expected), "{n}");
            assert_eq!(of("/innermost"), Some(MountPropagation::Private), "{n}");
        }
    }
}

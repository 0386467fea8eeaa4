//! Tests of paths without mounts of their own; those with mounts are in
//! `src/service/tests/operate/mount_sources.rs`.

use super::*;
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::PathBuf,
};

fn found(way: Way, access: Access, path: &str) -> Result<Vec<HostFiles>, String> {
    let sources = [MountSource { path: path.to_owned(), way, access }];
    resolve_here(&sources).remove(0)
}

/// Returns real path and type of a bind source.
fn bind(path: &str) -> (String, String) {
    let files = found(Way::Bind, Access::Write, path).unwrap();
    let [files] = files.try_into().unwrap_or_else(|files| panic!("{path}: {files:?}"));
    assert!(files.writable);
    (files.real, files.file_type)
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

/// Whoever waits for a file system that hangs is counted at it: nothing is looked at unannounced.
#[test]
fn a_path_is_announced_before_it_is_looked_at() {
    let (_dir, dir) = directory();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let missing = dir.join("missing");
    let sources = [&dir, &missing].map(|p| MountSource {
        path: path(p),
        way: Way::Bind,
        access: Access::Read,
    });
    let mounts = parse(&fs::read("/proc/self/mountinfo").unwrap());
    let mut seen = Vec::new();
    let found = resolve(&sources, &mounts, &mut |path| seen.push(path.to_owned()));
    assert!(found[0].is_ok() && found[1].is_err());
    assert!(seen.contains(&dir) && seen.contains(&missing), "{seen:?}");
}

#[test]
fn a_source_has_one_real_path_however_it_is_written() {
    let (_dir, dir) = directory();
    let of = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(of("home/user")).unwrap();
    fs::create_dir(of("etc")).unwrap();
    symlink(of("etc"), of("home/link")).unwrap();
    symlink("../link", of("home/user/link")).unwrap();
    let real = of("etc");
    let expected = (real.clone(), "directory".to_owned());
    for path in [
        real.clone(),
        format!("/{real}"),
        of("home/../etc/."),
        of("home/link"),
        of("home/user/link"),
        format!("/proc/self/root{real}"),
        format!("/proc//self/./root/{real}"),
        format!("/proc/thread-self/root{real}"),
        format!("/proc/self/root/proc/self/root{real}"),
        format!("/proc/{}/root{real}", std::process::id()),
        format!("/proc/{}/root{}", std::process::id(), of("home/user/link")),
    ] {
        assert_eq!(bind(&path), expected, "{path}");
    }
}

#[test]
fn the_type_is_that_of_the_real_file() {
    let (_dir, dir) = directory();
    let of = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let _socket = UnixListener::bind(of("socket")).unwrap();
    symlink(of("socket"), of("file")).unwrap();
    fs::write(of("plain"), "").unwrap();
    assert_eq!(bind(&of("file")), (of("socket"), "socket".to_owned()));
    assert_eq!(bind(&of("plain")), (of("plain"), "file".to_owned()));
    assert_eq!(bind("/dev/null").1, "character");
}

#[test]
fn what_the_runtime_would_resolve_otherwise_is_unknown() {
    let (_dir, dir) = directory();
    let link = dir.join("link");
    symlink("/proc/self/cwd", &link).unwrap();
    for path in [
        "/proc/self/cwd/etc",
        "/proc/self/fd/0",
        "/dev/fd/0",
        "/proc/self/root/proc/self/cwd",
        link.to_str().unwrap(),
    ] {
        let error = found(Way::Bind, Access::Write, path).unwrap_err();
        assert!(error.contains("depends on the process"), "{path}: {error}");
    }
    let error = found(Way::RecursiveBind, Access::Write, "/nowhere").unwrap_err();
    assert!(error.contains("\"/nowhere\"") && error.contains("No such file"), "{error}");
}

#[test]
fn a_device_is_named_even_if_it_has_no_path() {
    let of = |path: &str| found(Way::Device, Access::Read, path).unwrap().remove(0);
    let null = of("/dev/../dev/null");
    assert_eq!((&*null.real, &*null.file_type), ("/dev/null", "character"));
    let server = of("server:/export");
    assert_eq!((&*server.real, &*server.file_type), ("server:/export", ""));
    assert_eq!((server.kind, server.writable), (HostFilesKind::Device, false));
}

#[test]
fn mounts_below_the_source_may_be_writable_although_it_is_not() {
    // /dev and /proc are mounts below the root directory, which are writable.
    let of = |way, access| found(way, access, "/").unwrap()[0].writable;
    assert!(of(Way::RecursiveBind, Access::Read));
    assert!(!of(Way::RecursiveBind, Access::ReadBelow));
    assert!(!of(Way::Bind, Access::Read));
    // All of them are below the root directory anyway.
    let files = found(Way::RecursiveBind, Access::Write, "/").unwrap();
    assert!(files.iter().all(|files| files.real != "/proc"), "{files:?}");
}

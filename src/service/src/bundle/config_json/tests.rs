//! Tests of `config_json.rs`, also with other processes that write to the bundle.

use super::*;
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

fn bundle(dir: &Path) -> Bundle {
    Bundle::open(dir, "config.json").unwrap()
}

#[test]
fn replacing_keeps_the_mode_and_leaves_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let bundle = bundle(dir.path());
    let found = bundle.read().unwrap();
    bundle.replace(b"new", &found).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"new");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn the_temporary_file_of_a_killed_nrid_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), "old").unwrap();
    fs::write(dir.path().join(".config.json.nri"), "half").unwrap();
    bundle(dir.path()).remove_temporary();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_missing_file_and_a_directory_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = bundle(dir.path()).read().unwrap_err();
    assert!(matches!(missing, BundleError::Read(_, e) if e.kind() == io::ErrorKind::NotFound));
    fs::create_dir(dir.path().join("config.json")).unwrap();
    assert!(matches!(bundle(dir.path()).read(), Err(BundleError::NotAFile(_))));
}

#[test]
fn a_symbolic_link_is_replaced_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (other, file) = (dir.path().join("other"), dir.path().join("config.json"));
    fs::write(&other, "{}").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o4640)).unwrap();
    std::os::unix::fs::symlink("other", &file).unwrap();
    let bundle = bundle(dir.path());
    let found = bundle.read().unwrap();
    assert_eq!(found.bytes, b"{}");
    bundle.replace(b"new", &found).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"new");
    let meta = fs::symlink_metadata(&file).unwrap();
    assert!(meta.is_file(), "expected a regular file in place of the link");
    let mode = meta.permissions().mode() & 0o7777;
    assert_eq!(mode, 0o640, "expected the mode of the link's target, without setuid");
    assert_eq!(fs::read(&other).unwrap(), b"{}");
    assert_eq!(bundle.read().unwrap().link, None);
    bundle.restore_link(&found.link.unwrap(), &bundle.read().unwrap()).unwrap();
    assert_eq!(fs::read_link(&file).unwrap(), Path::new("other"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_directory_in_place_of_the_config_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json");
    fs::write(&file, "{}").unwrap();
    let bundle = bundle(dir.path());
    let found = bundle.read().unwrap();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let error = bundle.replace(b"new", &found).unwrap_err().to_string();
    assert!(error.ends_with("not a regular file"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Another process replaces `config.json` by links to a file outside of the bundle as fast as
/// possible: the file outside may be read, but is never written.
#[test]
fn a_file_outside_of_the_bundle_is_never_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("bundle"), dir.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::write(&outside, "outside").unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o604)).unwrap();
    let before = fs::metadata(&outside).unwrap();
    let bundle = bundle(&inside);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let replaced = std::thread::scope(|scope| {
        scope.spawn(|| {
            let names = ["config.json", ".config.json.nri"].map(|name| inside.join(name));
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for name in &names {
                    let _ = fs::remove_file(name);
                    let _ = std::os::unix::fs::symlink(&outside, name);
                    let _ = fs::remove_file(name);
                    let _ = fs::hard_link(&outside, name);
                    let _ = fs::remove_file(name);
                    let _ = fs::File::create_new(name).and_then(|mut file| file.write_all(b"{}"));
                }
            }
        });
        let (mut replaced, start) = (0, std::time::Instant::now());
        while replaced < 1000 && start.elapsed() < Duration::from_secs(10) {
            let Ok(found) = bundle.read() else { continue };
            replaced += u32::from(bundle.replace(b"ours", &found).is_ok());
            if let Some(link) = &found.link {
                let _ = bundle.restore_link(link, &found);
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        replaced
    });
    assert!(replaced > 0, "expected at least one replacement between two changes");
    assert_eq!(fs::read(&outside).unwrap(), b"outside");
    let after = fs::metadata(&outside).unwrap();
    assert_eq!(
        (after.ino(), after.mode(), after.uid()),
        (before.ino(), before.mode(), before.uid())
    );
}

/// If the engine writes the config after our last read, neither `restore` nor `replace` overwrites
/// it.
#[test]
fn a_config_that_the_engine_writes_meanwhile_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("config.json"), dir.path().join("other"));
    let bundle = bundle(dir.path());
    let restored = |meanwhile: &dyn Fn()| {
        fs::write(&file, "ours").unwrap();
        let found = bundle.read().unwrap();
        meanwhile();
        bundle.restore(b"original", None, &found, &digest(b"ours")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::read_to_string(&file).unwrap()
    };
    assert_eq!(restored(&|| ()), "original");
    assert_eq!(restored(&|| fs::write(&file, "the engine's").unwrap()), "the engine's");
    let rename = || {
        fs::write(&other, "the engine's").unwrap();
        fs::rename(&other, &file).unwrap();
    };
    assert_eq!(restored(&rename), "the engine's");
    // `replace` fails if the engine has written a new file.
    fs::write(&file, "request").unwrap();
    let found = bundle.read().unwrap();
    rename();
    let refused = bundle.replace(b"ours", &found).unwrap_err().to_string();
    assert!(refused.contains("was changed during the request to plugins"), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), b"the engine's");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // The engine has written a part of the file.
    fs::write(&file, "ours").unwrap();
    let found = bundle.read().unwrap();
    let mut writer = fs::File::create(&file).unwrap();
    writer.write_all(b"the ").unwrap();
    bundle.restore(b"original", None, &found, &digest(b"ours")).unwrap();
    writer.write_all(b"engine's").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "the engine's");
    // The engine renames its new file to the config at a random moment of the restoration; 300
    // rounds cover most of its steps.
    for n in 0..300 {
        fs::write(&file, "ours").unwrap();
        let found = bundle.read().unwrap();
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                rename();
            });
            start.wait();
            bundle.restore(b"original", None, &found, &digest(b"ours")).unwrap();
        });
        assert_eq!(fs::read_to_string(&file).unwrap(), "the engine's", "{n}");
    }
}

#[test]
fn the_config_may_have_another_name_and_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/other.json"), "{}").unwrap();
    let fd = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    let bundle = Bundle::new(fd, dir.path(), Some(Path::new("sub/other.json"))).unwrap();
    assert_eq!(bundle.read().unwrap().bytes, b"{}");
    assert_eq!(bundle.file(), dir.path().join("sub/other.json"));
}

//! Tests of `config_json.rs`.

use super::*;
use std::fs;

fn bundle(dir: &Path) -> Bundle {
    Bundle::open(dir, "config.json").unwrap()
}

#[test]
fn a_missing_file_and_a_directory_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = bundle(dir.path()).read().unwrap_err();
    assert!(matches!(missing, BundleError::Read(_, e) if e.kind() == io::ErrorKind::NotFound));
    fs::create_dir(dir.path().join("config.json")).unwrap();
    let error = bundle(dir.path()).read().unwrap_err().to_string();
    assert!(error.ends_with("config.json is not a regular file"), "{error}");
}

#[test]
fn the_config_may_have_another_name_and_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/other.json"), "{}").unwrap();
    let fd = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    let bundle = Bundle::new(fd, dir.path(), Some(Path::new("sub/other.json"))).unwrap();
    assert_eq!(bundle.read().unwrap(), b"{}");
    assert_eq!(bundle.file(), dir.path().join("sub/other.json"));
}

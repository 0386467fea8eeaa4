//! Engines that are not installed on this machine.

use std::process::{Command, Stdio};

/// Installs for CRI-O with an empty `/etc`, in a mount namespace. Returns the exit code, the error,
/// and the names in `/etc` afterwards; `None` if mount namespaces cannot be created.
fn install(options: &str) -> Option<(Option<i32>, String, String)> {
    let can = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        println!("skipped: mount namespaces cannot be created");
        return None;
    }
    let script = format!(
        "mount -t tmpfs none /etc && \"$0\" install crio --wrapper /bin/true {options} >&2; \
         code=$?; ls /etc; exit $code"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_nrictl")]);
    let output = command.env_remove("NRI_CONTAINER_RUNTIME_CONFIG").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Some((output.status.code(), text(output.stderr), text(output.stdout)))
}

#[test]
fn an_engine_that_is_not_installed_gets_no_files_unless_its_version_is_named() {
    if nri_locate::standard_dirs().any(|dir| dir.join("crio").exists()) {
        return println!("skipped: CRI-O is installed");
    }
    let Some((code, error, files)) = install("") else { return };
    assert_eq!(code, Some(4), "{error}");
    let why = "crio is not installed: there is neither a program crio, nor /etc/crio; ";
    assert!(error.contains(why), "{error}");
    assert_eq!(files, "");
    let (code, error, files) = install("--engine-version 1.30").unwrap();
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(files, "crio\nnri-container-runtime\n");
}

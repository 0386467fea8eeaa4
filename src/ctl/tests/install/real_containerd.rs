//! Tests of the configuration that real containerd programs read after an installation.
//! `NRI_TEST_CONTAINERD` is a list of such programs, separated by colons.

use crate::{
    containerd::{FILE, FILES, V2, V3},
    image::{CRUN, Image, WRAPPER, skipped},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the programs of `NRI_TEST_CONTAINERD`, or else the installed containerd.
pub(crate) fn containerds() -> Vec<PathBuf> {
    let named = std::env::var_os("NRI_TEST_CONTAINERD");
    let installed = || {
        std::env::split_paths("/usr/bin:/usr/local/bin").map(|dir| dir.join("containerd")).collect()
    };
    let all: Vec<PathBuf> =
        named.map_or_else(installed, |named| std::env::split_paths(&named).collect());
    all.into_iter().filter(|path| path.exists()).collect()
}

/// Returns the configuration that a containerd reads from a file and its imports, or the error that
/// containerd prints.
pub(crate) fn dump(containerd: &Path, file: &Path) -> Result<String, String> {
    let mut command = Command::new(containerd);
    // Older versions resolve patterns of imports in the working directory.
    command.current_dir(file.parent().unwrap()).arg("-c").arg(file).args(["config", "dump"]);
    let output = command.output().unwrap();
    // The order of imports in the dump varies.
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).replace('\'', "\"");
        text.lines()
            .filter(|line| !line.starts_with("imports"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn a_real_containerd_reads_our_handler_and_keeps_its_settings() {
    let containerds = containerds();
    if containerds.is_empty() {
        skipped("a_real_containerd_reads_our_handler_and_keeps_its_settings", "no containerd");
    }
    for containerd in containerds {
        let version = Command::new(&containerd).arg("--version").output().unwrap().stdout;
        let version = String::from_utf8_lossy(&version).split(' ').nth(2).unwrap().to_owned();
        let mut checked = 0;
        for (what, plugin, _, text) in FILES {
            let image = Image::with(FILE, text);
            // An error means that this containerd does not know the file's version.
            let Ok(before) = dump(&containerd, &image.at(FILE)) else { continue };
            // Skip files without an effective CRI table: containerd 2 ignores the table in files of
            // version 1, containerd 1 does not know the plugin's name in files of version 3, and
            // some files disable the plugin.
            if version.trim_start_matches('v').starts_with('2') && !text.contains("version = ")
                || version.starts_with('1') && *plugin == V3
                || text.contains("disabled_plugins")
            {
                continue;
            }
            checked += 1;
            image.run_ok(&format!(
                "install containerd --default --nri ours --runtime nri-crun={CRUN}"
            ));
            let after =
                dump(&containerd, &image.at(FILE)).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(after.contains("default_runtime_name = \"nri\"\n"), "{what}: {after}");
            assert!(after.contains(&format!("BinaryName = {WRAPPER:?}\n")), "{what}: {after}");
            assert!(
                after.contains("BinaryName = \"/usr/local/bin/nri-crun\"\n"),
                "{what}: {after}"
            );
            // Two handlers have two lists of annotations each.
            assert_eq!(
                after.matches("annotations = [\"*\", \"*/*\"]\n").count(),
                4,
                "{what}: {after}"
            );
            assert!(
                !after.contains("\"io.containerd.nri.v1.nri\"]\n    disable = false"),
                "{what}: {after}"
            );
            // No other setting changes. Default values of handlers, which are indented by ten
            // blanks, may disappear: containerd 1 shows them only if the file has no handler.
            let zeros = ["= \"\"", "= 0", "= false", "sandbox_mode = \"podsandbox\""];
            let is_zero = |line: &str| zeros.iter().any(|end| line.ends_with(end));
            let lost: Vec<&str> = before
                .lines()
                .filter(|line| !after.contains(line))
                .filter(|line| !line.starts_with("          ") || !is_zero(line))
                .filter(|line| {
                    !line.contains("default_runtime_name") && !line.contains("disable =")
                })
                .collect();
            assert!(lost.is_empty(), "{what}: {lost:#?}");
            image.run_ok("uninstall containerd");
            assert_eq!(dump(&containerd, &image.at(FILE)), Ok(before), "{what}");
        }
        // Every supported containerd reads more than five of the files.
        assert!(checked > 5, "{version}: only {checked} files were checked");
        // With imports: version 2 is edited in the file with the CRI table, version 3 gets a
        // drop-in.
        for (file_version, plugin, edited) in
            [(2, V2, "50-cri.toml"), (3, V3, "zz-nri-container-runtime.toml")]
        {
            let image = Image::with(
                FILE,
                &format!("version = {file_version}\nimports = [\"conf.d/*.toml\"]\n"),
            );
            let part = format!(
                "version = {file_version}\n[plugins.{plugin:?}.cni]\n  conf_dir = \"/x\"\n"
            );
            image.write("/etc/containerd/conf.d/50-cri.toml", part.as_bytes());
            let Ok(before) = dump(&containerd, &image.at(FILE)) else { continue };
            if version.starts_with('1') && file_version == 3 {
                continue;
            }
            image.run_ok("install containerd --default");
            assert!(image.read(&format!("/etc/containerd/conf.d/{edited}")).contains(WRAPPER));
            let after = dump(&containerd, &image.at(FILE)).unwrap();
            for line in [
                "conf_dir = \"/x\"\n",
                "default_runtime_name = \"nri\"\n",
                &format!("BinaryName = {WRAPPER:?}\n"),
            ] {
                assert!(after.contains(line), "{version} {file_version}: {after}");
            }
            assert!(
                after.contains(".containerd.runtimes.runc]"),
                "{version} {file_version}: {after}"
            );
            image.run_ok("uninstall containerd");
            assert_eq!(dump(&containerd, &image.at(FILE)), Ok(before));
        }
    }
}

//! Files after `uninstall`, for several engines.

use crate::image::{CRUN, Image};
use std::fs;

const DOCKER: &str = "/etc/docker/daemon.json";
const CONTAINERD: &str = "/etc/containerd/config.toml";

/// Tables that several of our values share are removed with the last of them.
#[test]
fn several_runtimes_are_removed_completely_after_an_edit() {
    let check = |engine: &str, file: &str, text: &str| {
        let image = Image::with(file, text);
        image.run_ok(&format!("install {engine} --default --runtime nri-crun={CRUN}"));
        image.edit(file, "999", "998");
        image.run_ok(&format!("uninstall {engine}"));
        assert_eq!(image.read(file), text.replace("999", "998"));
    };
    check("docker", DOCKER, "{\n  \"mtu\": 999\n}\n");
    check("docker", DOCKER, "{\"mtu\":999}");
    check("docker", DOCKER, "{\n  \"mtu\": 999,\n  \"runtimes\": {}\n}\n");
    for (version, plugin) in [(2, "io.containerd.grpc.v1.cri"), (3, "io.containerd.cri.v1.runtime")]
    {
        let head = format!("version = {version}\noom_score = -999\n");
        check("containerd", CONTAINERD, &head);
        check(
            "containerd",
            CONTAINERD,
            &format!("{head}\n[plugins.\"{plugin}\"]\n  x = 1 # one\n"),
        );
        check("containerd", CONTAINERD, &format!("{head}plugins.\"{plugin}\".x = 1\n"));
    }
}

/// Only the manifest records that nrictl switched an engine's NRI off.
#[test]
fn notes_name_values_that_are_kept_without_a_manifest() {
    let kept = "kept, nrictl has no record of setting it";
    for (engine, file, text, at) in [
        (
            "containerd",
            CONTAINERD,
            "version = 3\n",
            "plugins.io.containerd.nri.v1.nri.disable is true",
        ),
        (
            "crio",
            "/etc/crio/crio.conf.d/zz-nri-container-runtime.conf",
            "",
            "crio.nri.enable_nri is false",
        ),
        ("docker", DOCKER, "{\"nri-opts\": {\"enable\": true}}", "nri-opts.enable is false"),
    ] {
        let image = Image::new();
        if !text.is_empty() {
            image.write(file, text.as_bytes());
        }
        let before = image.snapshot();
        image.run_ok(&format!("install {engine} --nri ours --engine-version 30.0"));
        let installed = image.snapshot();
        assert!(!image.run_ok(&format!("uninstall {engine}")).contains(kept));
        assert_eq!(image.snapshot(), before);
        image.run_ok(&format!("install {engine} --nri ours --engine-version 30.0"));
        assert_eq!(image.snapshot(), installed);
        fs::remove_file(image.at(crate::image::MANIFEST)).unwrap();
        let output = image.run_ok(&format!("uninstall {engine}"));
        assert!(output.contains(&format!("note: {file}: {at}: {kept}\n")), "{output}");
        let own = format!("note: {}: engines.{engine} is \"ours\": {kept}\n", crate::image::CONFIG);
        assert!(output.contains(&own), "{output}");
    }
}

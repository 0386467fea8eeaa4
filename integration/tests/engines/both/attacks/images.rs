//! What an image, its name, or a container says of itself: names that `privileged.yaml` lists,
//! annotations and labels of other engines, variables that `gpus.yaml` reads.

use super::*;

test_both! {
    only_listed_names_of_images_have_more_rights,
    gpus_are_all_that_a_variable_gives,
}

/// Rights beyond the recipe, which each machine with the tests can give.
const MORE: &str = "--cap-add=SYS_ADMIN";

fn only_listed_names_of_images_have_more_rights<E: Engine>() {
    with_recipe::<E>("privileged", |engine, name| {
        let mut tried = Tried::new(name, "privileged");
        for other in [
            "registry.example.com/node-agent-2:1",
            "registry.example.com/node-agent/other:1",
            "registry.example.com/other/node-agent:1",
            "registry.example.com/node-agen:1",
            "localhost/registry.example.com/node-agent:1",
            "localhost:5000/registry.example.com/node-agent",
        ] {
            engine.out(&["tag", IMAGE, other]);
            tried.refused(engine, other, "50-rules", |runtime| {
                engine.run_with(runtime, &[MORE, other, "true"])
            });
        }
        // What the engine writes itself, or what another one would.
        let listed = "registry.example.com/node-agent:1";
        for (what, texts) in [
            ("a container of CRI", ["io.kubernetes.cri.container-type=container", CRI]),
            ("a sandbox of CRI", ["io.kubernetes.cri.container-type=sandbox", CRI]),
            ("a container of CRI-O", ["io.kubernetes.cri-o.ContainerType=container", CRIO]),
            ("a container of nerdctl", ["nerdctl/name=web", "nerdctl/image-name=NAME"]),
            ("a fact", ["facts.nri-container-runtime/capabilities=", FACT]),
        ] {
            for flag in ["annotation", "label"] {
                let option = |text: &str| format!("--{flag}={}", text.replace("NAME", listed));
                let options = texts.map(option);
                tried.refused(engine, &format!("{what}, by {flag}"), "50-rules", |runtime| {
                    engine.run_with(runtime, &[&options[0], &options[1], MORE, IMAGE, "true"])
                });
            }
        }
        engine.call_client(&["create", "--name=base", "--network=none", IMAGE, "true"]).success();
        let change = ["USER 0", "LABEL io.podman.image=registry.example.com/node-agent:1"];
        let changes = change.map(|change| format!("--change={change}"));
        engine.out(&["commit", &changes[0], &changes[1], "base", "localhost/changed:1"]);
        tried.refused(engine, "an image with other labels", "50-rules", |runtime| {
            engine.run_with(runtime, &[MORE, "localhost/changed:1", "true"])
        });
        let words = "whoever may tag or build images on the host may give one these names";
        engine.out(&["commit", "base", "registry.example.com/backup:committed"]);
        engine.out(&["tag", IMAGE, listed]);
        for image in [listed, "registry.example.com/backup:committed"] {
            let ended = engine.run_with("nri", &[MORE, image, "true"]);
            tried.open(image, ended.code == Some(0), words);
        }
        tried.report();
    });
}

const CRI: &str = "io.kubernetes.cri.image-name=NAME";
const CRIO: &str = "io.kubernetes.cri-o.ImageName=NAME";
const FACT: &str = "facts.nri-container-runtime/seccomp=filtered";

fn gpus_are_all_that_a_variable_gives<E: Engine>() {
    with_recipe::<E>("gpus", |engine, name| {
        let mut tried = Tried::new(name, "gpus");
        let specs = engine.path("cdi");
        fs::create_dir(&specs).unwrap();
        for (kind, path) in [("nvidia.com/gpu", "/dev/nvidia0"), ("other.example/disk", "/dev/x")] {
            let text = format!(
                "cdiVersion: 0.6.0\nkind: {kind}\ndevices:\n- name: all\n  containerEdits:\n    \
                   deviceNodes: [{{path: {path}, hostPath: /dev/null}}]\n"
            );
            fs::write(specs.join(format!("{}.yaml", kind.replace('/', "-"))), text).unwrap();
        }
        for value in [
            "all,other.example/disk=all",
            "all=other.example/disk=all",
            "../disk=all",
            "other.example/disk=all",
            "none,all",
            "all,",
            " ",
        ] {
            let variable = format!("--env=NVIDIA_VISIBLE_DEVICES={value}");
            // The bare runtime gives no device at all.
            tried.refused(engine, &variable, "50-rules", |runtime| {
                engine.run_with(runtime, &[&variable, IMAGE, "true"])
            });
        }
        engine.call_client(&["create", "--name=base", "--network=none", IMAGE, "true"]).success();
        let change = "--change=ENV NVIDIA_VISIBLE_DEVICES=all";
        engine.out(&["commit", change, "base", "localhost/changed:1"]);
        let script = ["sh", "-c", "test -c /dev/nvidia0 && test ! -e /dev/x"];
        let words = "The variable is that of the user or of the image";
        for (what, options) in [
            ("the image", &["localhost/changed:1"][..]),
            ("a user", &["--env=NVIDIA_VISIBLE_DEVICES=all", IMAGE][..]),
        ] {
            let ended = engine.run_with("nri", &[options, &script].concat());
            tried.open(&format!("all GPUs, by {what}"), ended.code == Some(0), words);
        }
        tried.report();
    });
}

//! Tests of OCI configs that a runtime accepts, but that plugins cannot receive or `nrid` cannot
//! adjust. Such a config passes through unchanged if no plugin adjusts it; otherwise the creation
//! is refused with an error that names the defect.

use nri_integration::*;
use std::{fs, process::Command};

/// Returns the text of a `config.json` with one more annotation. `value` is its value as JSON.
fn annotated(config: &[u8], value: &[u8]) -> Vec<u8> {
    let key = b"\"annotations\":{";
    let at = config.windows(key.len()).position(|w| w == key).expect("bundle.sh adds annotations");
    let (before, after) = config.split_at(at + key.len());
    [before, b"\"odd\":", value, b",", after].concat()
}

/// Returns variants of a `config.json` that `nrid` cannot parse, and a variant of 17 MiB, which is
/// larger than `nrid` reads.
fn unreadable(config: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    // 200 levels; nrid parses 127 levels.
    let (open, close) = ("[".repeat(200), "]".repeat(200));
    let after_brace = |text: String| [b"{", text.as_bytes(), &config[1..]].concat();
    vec![
        ("trailing bytes", [config, b" ]}trailing"].concat()),
        ("invalid UTF-8", annotated(config, b"\"\xff\"")),
        ("lone surrogate", annotated(config, br#""\ud800""#)),
        ("deep", after_brace(format!("\"unknown\":{open}{close},"))),
        ("large", [config, &vec![b' '; 17 << 20][..]].concat()),
    ]
}

/// Makes a bundle with compact JSON and an annotation.
fn bundle(node: &Node, name: &str) -> (Bundle, String) {
    let id = node.id(name);
    let bundle = node.bundle(&id).annotation("a=b").arguments(&["/bin/sleep", "1000"]).make();
    bundle.edit(|_| {});
    (bundle, id)
}

/// Calls the bare runtime, then deletes the container. Returns whether the runtime accepts the
/// bundle.
fn is_accepted_by_bare(node: &Node, bundle: &Bundle, id: &str) -> bool {
    let mut create = node.runtime().command(&node.root());
    create.args(["create", "--bundle"]).arg(bundle.dir()).arg(id);
    let is_accepted = node.run(create).code == Some(0);
    if is_accepted {
        node.bare(&["delete", "--force", id]).success();
    }
    is_accepted
}

#[test]
fn an_unreadable_config_json_passes_through_as_on_the_bare_runtime_without_plugins() {
    for_each_runtime("unreadable config.json", |runtime| {
        let node = Node::new(runtime);
        let (original, _) = bundle(&node, "original");
        let mut accepted = Vec::new();
        for (at, (what, text)) in unreadable(&original.bytes()).into_iter().enumerate() {
            let (bundle, id) = bundle(&node, &format!("c{at}"));
            fs::write(bundle.config(), &text).unwrap();
            let is_accepted = is_accepted_by_bare(&node, &bundle, &id);
            let created = node.create(&bundle, &id);
            assert_eq!(created.code == Some(0), is_accepted, "{what}: {}", created.err());
            assert_eq!(bundle.bytes(), text, "{what}: config.json has changed");
            if is_accepted {
                accepted.push(what);
                node.call(&["start", &id]).success();
                node.call(&["delete", "--force", &id]).success();
            }
        }
        let all = ["trailing bytes", "invalid UTF-8", "lone surrogate", "deep", "large"];
        if runtime.name == "runc" {
            assert_eq!(accepted, all);
        }
        assert!(node.log().contains("none could refuse or adjust it"), "{}", node.log());
    });
}

/// Otherwise such a container would have no limits of `exec`.
#[test]
fn an_unreadable_config_json_is_refused_where_exec_is_limited() {
    for_each_runtime("unreadable config.json, limits of exec", |runtime| {
        let node = Node::new(runtime);
        node.configure("exec.more_rights = 'refuse'");
        let (original, _) = bundle(&node, "original");
        for (at, (what, text)) in unreadable(&original.bytes()).into_iter().enumerate().skip(1) {
            let (bundle, id) = bundle(&node, &format!("c{at}"));
            fs::write(bundle.config(), &text).unwrap();
            let line = node.create(&bundle, &id).refusal();
            assert!(line.contains("config.json"), "{what}: {line}");
        }
    });
}

#[test]
fn a_config_json_that_plugins_cannot_receive_is_refused_if_a_plugin_could_adjust_it() {
    for_each_runtime("unreadable config.json, plugin", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "");
        let (original, _) = bundle(&node, "original");
        for (at, (what, text)) in unreadable(&original.bytes()).into_iter().enumerate() {
            let (bundle, id) = bundle(&node, &format!("c{at}"));
            fs::write(bundle.config(), &text).unwrap();
            let created = node.create(&bundle, &id);
            // runc ignores what follows the object, and so does nrid.
            if what == "trailing bytes" {
                assert_eq!(created.code == Some(0), runtime.name == "runc", "{}", created.err());
            } else {
                let line = created.refusal();
                assert!(line.contains("config.json"), "{what}: {line}");
            }
            assert_eq!(bundle.bytes(), text, "{what}: config.json has changed");
            node.call(&["delete", "--force", &id]);
        }
    });
}

#[test]
fn a_config_json_with_an_ambiguous_key_is_not_adjusted_and_the_error_names_the_key() {
    for_each_runtime("ambiguous key", |runtime| {
        for (with, config, changes) in
            [("no change", "", false), ("change", "[create.resources]\npids = 77\n", true)]
        {
            let node = Node::new(runtime);
            node.launch("10-adjust", &Program::Adjust, config);
            for (at, (more, named)) in [
                (r#""Linux":{"devices":[]}"#, "\"Linux\" in the OCI config"),
                (r#""hostname":"x","hostname":"x""#, "\"hostname\" twice in the OCI config"),
                // The plugin does not change this field.
                (r#""Process":{"cwd":"/"}"#, ""),
            ]
            .into_iter()
            .enumerate()
            {
                let (bundle, id) = bundle(&node, &format!("{with}{at}").replace(' ', "-"));
                // A config.json with relative paths is changed in any case.
                bundle.edit(|config| {
                    let root = bundle.dir().join(config["root"]["path"].as_str().unwrap());
                    config["root"]["path"] = root.to_str().into();
                });
                let config = bundle.bytes();
                let text = [&config[..config.len() - 1], b",", more.as_bytes(), b"}"].concat();
                fs::write(bundle.config(), &text).unwrap();
                let created = node.create(&bundle, &id);
                if named.is_empty() {
                    created.success();
                    let kept = node.adjusted(&id).to_string();
                    assert!(kept.contains(r#""Process""#), "{with}: {kept}");
                    assert_eq!(kept.contains(r#""limit":77"#), changes, "{with}: {kept}");
                    node.call(&["delete", "--force", &id]);
                    continue;
                }
                if changes {
                    let line = created.refusal();
                    assert!(line.contains(named) && line.contains("cannot be adjusted"), "{line}");
                } else {
                    created.success();
                }
                assert_eq!(bundle.bytes(), text, "{with}: config.json has changed");
                node.call(&["delete", "--force", &id]);
            }
        }
    });
}

/// The bundle of an engine may be on a file system that is mounted read-only.
#[test]
fn a_read_only_bundle_is_accepted_if_nothing_changes() {
    for_each_runtime("read-only bundle", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "filter.name = 'none'\n");
        for verb in ["create", "run"] {
            let id = node.id(verb);
            let bundle = node.bundle(&id).arguments(&["/bin/true"]).make();
            let mut wrapper = node.wrapper();
            wrapper.args([verb, "--bundle"]).arg(bundle.dir()).arg(&id);
            let dir = bundle.dir().to_str().unwrap();
            let mount = format!("mount --bind {dir} {dir} && mount -o remount,bind,ro {dir}");
            let ended = node.run(command_after(&mount, &wrapper));
            node.run(command_after(&format!("umount {dir}"), &Command::new("true"))).success();
            assert_eq!(ended.code, Some(0), "{verb}: {}", ended.err());
            node.call(&["delete", "--force", &id]);
        }
    });
}

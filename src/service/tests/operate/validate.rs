//! Tests of `nrictl validate`, which runs `nrid --validate`.

use crate::{
    doctor::{add_plugin, nrictl, set_mode},
    external_plugins::External,
    node::Node,
};
use serde_json::Value;
use std::fs;

/// Returns the exit code, and the results as `severity about: text`, without the directory of the
/// test.
fn validate(node: &Node) -> (Option<i32>, Vec<String>) {
    let output = nrictl(node, &["validate", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let dir = format!("{}/", node.path("").display().to_string().trim_end_matches('/'));
    let line = |item: &Value| {
        let text = |member: &str| item[member].as_str().unwrap().replace(&dir, "");
        format!("{} {}: {}", text("severity"), text("about"), text("text"))
    };
    let lines: Vec<_> = found["items"].as_array().unwrap().iter().map(line).collect();
    let is_valid = lines.iter().all(|line| !line.starts_with("problem "));
    assert_eq!(found["valid"], is_valid, "{lines:#?}");
    (output.status.code(), lines)
}

#[test]
fn validate_checks_all_files_that_nrid_reads_and_needs_no_nrid() {
    let node = Node::new("");
    let more = format!(
        "blockio = {{ config_file = {:?} }}\nrdt = {{ config_file = {:?} }}\n\
         cdi = {{ spec_dirs = [{:?}] }}\n",
        node.path("blockio.yaml"),
        node.path("rdt.yaml"),
        node.path("cdi"),
    );
    let config = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), format!("{more}{config}")).unwrap();
    fs::create_dir(node.path("cdi")).unwrap();
    let device = |name: &str| {
        format!(
            "{{\"cdiVersion\":\"0.5.0\",\"kind\":\"example.com/gpu\",\"devices\":[{{\"name\":\
             {name:?},\"containerEdits\":{{\"env\":[\"A=1\"]}}}}]}}"
        )
    };
    fs::write(node.path("blockio.yaml"), "Classes: {slow: [{Weight: 80}]}").unwrap();
    fs::write(node.path("rdt.yaml"), "partitions: {a: {classes: {gold: {}}}}").unwrap();
    fs::write(node.path("cdi/a.json"), device("0")).unwrap();
    add_plugin(&node, "10-runs");
    assert_eq!(
        validate(&node),
        (
            Some(0),
            vec![
                "ok configuration: config.toml".to_owned(),
                "ok plugin: plugins/10-runs".to_owned(),
                "ok block I/O: blockio.yaml: slow".to_owned(),
                "ok RDT: rdt.yaml: gold".to_owned(),
                "ok CDI: 1 devices".to_owned(),
            ]
        )
    );

    fs::write(node.path("cdi/b.json"), device("0")).unwrap();
    fs::write(node.path("cdi/c.yaml"), "{").unwrap();
    fs::write(node.path("blockio.yaml"), "Classes: {bad: [{Devices: ['/dev/['], Weight: 50}]}")
        .unwrap();
    fs::write(node.path("rdt.yaml"), "partitions: 7").unwrap();
    for name in ["20-off", "30-bad", "runs"] {
        add_plugin(&node, name);
    }
    set_mode(&node.plugins().join("20-off"), 0o644);
    set_mode(&node.plugins().join("30-bad"), 0o777);
    let (code, lines) = validate(&node);
    assert_eq!(code, Some(4));
    let expected = [
        "ok plugin: plugins/10-runs",
        "info plugin: plugins/20-off: ignored, since it is not executable",
        "problem plugin: plugins/30-bad: ",
        "problem plugin: plugins/runs: ",
        "problem block I/O: blockio.yaml: device pattern \"/dev/[\" is not valid: ",
        "problem RDT: rdt.yaml: ",
        "problem CDI: cdi/c.yaml: not valid YAML: ",
        "problem CDI: ",
    ];
    for (line, expected) in lines.iter().skip(1).zip(expected) {
        assert!(line.starts_with(expected), "{expected}: {lines:#?}");
    }
    assert!(lines.iter().any(|l| l.contains("example.com/gpu=0") && l.contains("b.json")));

    fs::write(node.config(), "mode = 7\n").unwrap();
    let (code, lines) = validate(&node);
    assert_eq!((code, lines.len()), (Some(4), 1), "{lines:#?}");
    assert!(lines[0].starts_with("problem configuration: "), "{lines:#?}");
    assert!(lines[0].contains("config.toml: line 1, column 8"), "{lines:#?}");
    assert!(!node.socket().exists(), "an nrid was started");
}

#[test]
fn validate_says_that_a_required_plugin_does_not_exist() {
    let required = |name: &str| format!("[[plugin]]\nmatch = '{name}'\nrequired = true\n");
    let node = Node::new(&required("rulez"));
    let check = |expected: Option<&str>| {
        let (code, lines) = validate(&node);
        let about = |line: &&String| line.contains("required");
        let found: Vec<_> = lines.iter().filter(about).collect();
        let severity = expected.map(|line| line.split(' ').next().unwrap_or_default());
        assert_eq!(code, Some(if severity == Some("problem") { 4 } else { 0 }), "{lines:#?}");
        match (expected, &*found) {
            (None, []) => {}
            (Some(expected), [line]) => assert_eq!(*line, expected),
            _ => panic!("{expected:?}: {lines:#?}"),
        }
    };
    let missing = "is required, but there is no file of such a plugin and none is connected: \
                   creations are refused until one is";
    check(Some(&format!("warning plugin: \"rulez\" {missing}")));
    add_plugin(&node, "50-rules");
    let meant = format!("problem plugin: \"rulez\" {missing}; did you mean \"rules\"?");
    check(Some(&meant));
    for (name, expected) in [("rules", None), ("50-rules", None), ("*", None)] {
        node.configure(&required(name));
        check(expected);
    }
    let validator = "[default_validator]\nenable = true\nrequired_plugins = ['other', 'rules']\n";
    node.configure(validator);
    check(Some(&format!("warning plugin: \"other\" {missing}")));
    node.configure(&format!("mode = 'shadow'\n{validator}"));
    check(None);

    // An external plugin is connected.
    node.configure(&required("10-a"));
    let nrid = node.start();
    check(Some(&format!("warning plugin: \"10-a\" {missing}")));
    let external = External::start(&node);
    check(None);
    drop(external);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn validate_names_a_file_that_is_no_program() {
    let node = Node::new("");
    let file = node.plugins().join("10-text");
    fs::write(&file, "touch /run/as-root\n").unwrap();
    set_mode(&file, 0o755);
    let (code, lines) = validate(&node);
    let expected = "problem plugin: plugins/10-text: neither a program nor a script that begins \
                    with #! and its interpreter";
    assert_eq!((code, lines[1].as_str()), (Some(4), expected), "{lines:#?}");
}

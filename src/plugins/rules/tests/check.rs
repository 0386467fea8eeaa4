//! `nri-rules check` as an operator calls it: files that load, but refuse containers that they are
//! not meant for, are found before a container is.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A directory with a configuration of `nrid` and a file of rules.
struct Host(tempfile::TempDir);

impl Host {
    fn new(configuration: &str) -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        fs::write(host.configuration(), configuration).unwrap();
        host
    }

    fn configuration(&self) -> PathBuf {
        self.0.path().join("config.toml")
    }

    fn rules(&self, text: &str) -> PathBuf {
        let file = self.0.path().join("rules.yaml");
        fs::write(&file, text).unwrap();
        file
    }

    /// Checks a file where `nrid` reads this configuration. Returns the exit code, and what was
    /// written to both outputs.
    fn check(&self, file: &Path, options: &[&str]) -> (Option<i32>, String) {
        self.run("check", file, options)
    }

    fn run(&self, subcommand: &str, file: &Path, options: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nri-rules"));
        command.arg(subcommand).args(options).arg(file);
        command.env("NRI_CONTAINER_RUNTIME_CONFIG", self.configuration());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }
}

fn cookbook(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cookbook").join(name)
}

#[test]
fn a_fact_that_the_configuration_does_not_give_is_found_with_the_line_to_add() {
    let host = Host::new("containers.facts = ['engine']\n");
    let (code, text) = host.check(&cookbook("privileged.yaml"), &[]);
    assert_eq!(code, Some(4), "{text}");
    let configuration = host.configuration().display().to_string();
    for part in [
        "rule \"no more rights than by default\" uses seccomp",
        &configuration,
        r#"["engine", "capabilities", "device_access", "host_namespaces", "seccomp", "un"#,
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let (code, text) = host.check(&cookbook("builds.yaml"), &[]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn an_endless_or_huge_file_is_refused_with_its_path() {
    let host = Host::new("containers.facts = ['engine']\n");
    let path = |name: &str| host.0.path().join(name);
    std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
    // A sparse file of 1 TiB.
    fs::File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
    for (name, why) in [
        ("zero", "not a regular file"),
        ("huge", "the file is larger than the limit of 4194304 bytes"),
    ] {
        let expected = format!("nri-rules: {}: {why}\n", path(name).display());
        for subcommand in [&["check"][..], &["test", "--samples"]] {
            let (code, text) = host.run(subcommand[0], &path(name), &subcommand[1..]);
            assert_eq!((code, &text), (Some(4), &expected), "{subcommand:?}");
        }
    }
    let (bundle, config) = (path("bundle"), path("bundle/config.json"));
    fs::create_dir(&bundle).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &config).unwrap();
    let rules = host.rules("rules:\n  - name: a\n    refuse: x\n");
    let (code, text) = host.run("test", &rules, &["--bundle", bundle.to_str().unwrap()]);
    let expected = format!("nri-rules: {}: not a regular file\n", config.display());
    assert_eq!((code, text), (Some(4), expected));
    let nrid_config = path("huge").display().to_string();
    let (code, text) = host.check(&cookbook("privileged.yaml"), &["--nrid-config", &nrid_config]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("the file is larger than the limit of 1048576 bytes"), "{text}");
}

#[test]
fn a_look_up_that_nothing_guards_is_found_with_its_guard() {
    let host = Host::new("");
    let file = host.rules(
        "rules:\n  - name: a\n    match: labels[\"team\"] == \"shop\"\n    refuse: x\n  \
         - name: b\n    set: { env: { T: '${env.TEAM}' } }\n",
    );
    let (code, text) = host.check(&file, &[]);
    assert_eq!(code, Some(4), "{text}");
    for part in [
        "line 3, column 12: rule \"a\": match reads labels[\"team\"]",
        "\"team\" in labels && ",
        "line 6, column 22: rule \"b\": env[T] reads env[\"TEAM\"]",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let guarded = host.rules(
        "rules:\n  - name: a\n    match: '\"team\" in labels && labels[\"team\"] == \"shop\"'\n    \
         refuse: not for ${labels[\"team\"]}\n",
    );
    let (code, text) = host.check(&guarded, &[]);
    assert_eq!(code, Some(0), "{text}");
}

/// While the plugin was not connected, containers were created without the rules, and no one said
/// so before.
#[test]
fn a_file_that_refuses_containers_is_checked_for_a_plugin_that_is_required() {
    let rules = "rules: [{name: a, refuse: never}]";
    let created = "warning: ";
    for (configuration, expected) in [
        ("", created),
        ("plugin = [{match = '*', required = true}]", created),
        ("plugin = [{match = 'rules'}]", created),
        ("plugin = [{match = 'rules', required = true}]", "requires rules\n"),
    ] {
        let host = Host::new(configuration);
        let file = host.rules(rules);
        let (code, text) = host.check(&file, &[]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(expected), "{configuration}\n{text}");
        assert_eq!(text.contains(created), expected == created, "{text}");
        if expected == created {
            let line = "rule \"a\" refuses containers, but containers are created without";
            assert!(text.contains(line) && text.contains("match = \"rules\""), "{text}");
        }
        let (_, text) = host.check(&file, &["--no-nrid-config"]);
        assert!(!text.contains("connected"), "{text}");
        let (_, text) = host.check(&host.rules("rules: [{name: a, set: {pids.limit: 5}}]"), &[]);
        assert!(!text.contains("connected"), "{text}");
    }
}

/// The plugin does not load it: it would let every container pass.
#[test]
fn an_empty_file_is_a_mistake() {
    let host = Host::new("");
    for text in ["", " \n", "\u{feff}"] {
        let (code, found) = host.check(&host.rules(text), &[]);
        assert_eq!(code, Some(4), "{found}");
        for part in ["rules.yaml: ", "there is no file of rules, or it is empty", "`rules: []`"] {
            assert!(found.contains(part), "{part}\n{found}");
        }
    }
    let (code, found) = host.check(&host.rules("rules: []\n"), &[]);
    assert_eq!(code, Some(0), "{found}");
}

/// The first rule of the README. A plain `docker run` requests nothing.
#[test]
fn the_samples_show_what_a_default_does() {
    let host = Host::new("");
    let file = host.rules("rules:\n  - name: memory\n    default: { memory.limit: 512Mi }\n");
    let (code, text) = host.run("test", &file, &["--samples"]);
    assert_eq!(code, Some(0), "{text}");
    let expected = "docker\n  + memory.limit: 536870912  (rule \"memory\")\n\
                    docker-limited\n  unchanged\n\
                    docker-privileged\n  unchanged\n\
                    podman\n  unchanged\n";
    assert_eq!(text, expected);
}

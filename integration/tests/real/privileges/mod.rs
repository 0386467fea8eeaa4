//! Tests of the privileges of launched plugins: in a new installation, with policies that grant
//! more, and in the report of `nrictl doctor`.

mod pinned;
mod samples;
mod shipped;

use nri_integration::*;
use std::{collections::BTreeMap, fs, path::Path};

/// Returns the policies that `nrictl install` writes in a new installation.
fn default_policies(node: &Node) -> String {
    let image = node.path("image");
    fs::create_dir_all(image.join("etc")).unwrap();
    let wrapper = "usr/local/bin/nri-container-runtime";
    fs::create_dir_all(image.join(wrapper).parent().unwrap()).unwrap();
    write_program(&image.join(wrapper), "#!/bin/sh\n");
    node.ctl(&["install", "podman", "--root", image.to_str().unwrap()]).success();
    let file = image.join(node.config().strip_prefix("/").unwrap());
    let text = fs::read_to_string(file).unwrap();
    text[text.find("\n[[plugin]]").unwrap()..].to_owned()
}

/// Configures the policies of a new installation, and the policies `more`.
fn configure(node: &Node, more: &str) {
    node.configure("");
    let text = fs::read_to_string(node.config()).unwrap() + &default_policies(node) + more;
    fs::write(node.config(), text).unwrap();
}

/// Capability sets and `NoNewPrivs` of a process.
#[derive(Debug, PartialEq, Eq)]
struct ProcessPrivileges(BTreeMap<String, u64>);

impl ProcessPrivileges {
    fn of(pid: u64) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let fields = status.lines().filter_map(|line| line.split_once(":\t"));
        let wanted = fields.filter(|(name, _)| name.starts_with("Cap") || *name == "NoNewPrivs");
        Self(wanted.map(|(n, v)| (n.to_owned(), u64::from_str_radix(v, 16).unwrap())).collect())
    }

    /// Returns privileges with these capabilities in all sets.
    fn all_sets(capabilities: u64, no_new_privs: bool) -> Self {
        let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|s| (s, capabilities));
        let all = sets.into_iter().chain([("NoNewPrivs", u64::from(no_new_privs))]);
        Self(all.map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Returns the process of an active plugin.
fn pid_of(node: &Node, name: &str) -> u64 {
    let status = node.status().unwrap();
    let plugins = status["plugins"].as_array().unwrap();
    let plugin = plugins.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("{status}"));
    assert_eq!(plugin["state"], "active", "{status}");
    plugin["pid"].as_u64().unwrap()
}

#[test]
fn plugins_of_a_new_installation_run_without_capabilities() {
    for_each_runtime("privileges", |runtime| {
        let node = Node::new(runtime);
        let opened = "[[plugin]]\nmatch = '20-some'\ncapabilities = ['net_admin', 'kill']\n\
                      [[plugin]]\nmatch = '30-all'\n";
        configure(&node, opened);
        for name in ["10-default", "20-some", "30-all"] {
            let variable = name.split_once('-').unwrap().1;
            let config = format!("[create]\nenv = {{ set = {{ {variable} = 'yes' }} }}\n");
            node.launch(name, &Program::Adjust, &config);
        }
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        node.create(&bundle, &id).success();
        let env = node.adjusted(&id)["process"]["env"].to_string();
        for variable in ["default", "some", "all"] {
            assert!(env.contains(&format!("{variable}=yes")), "{env}");
        }
        let privileges = |name: &str| ProcessPrivileges::of(pid_of(&node, name));
        assert_eq!(privileges("10-default"), ProcessPrivileges::all_sets(0, true));
        // CAP_KILL and CAP_NET_ADMIN.
        assert_eq!(privileges("20-some"), ProcessPrivileges::all_sets(1 << 5 | 1 << 12, false));
        let nrid = u64::from(node.nrid().unwrap().0);
        assert_eq!(privileges("30-all"), ProcessPrivileges::of(nrid));
        let report = node.ctl(&["doctor", "--json"]).out();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let found: Vec<_> = findings.iter().filter(|f| f["about"] == "privileges").collect();
        assert_eq!(found.len(), 1, "{report}");
        assert_eq!(found[0]["code"], "plugin-unlimited");
        assert_eq!(found[0]["text"], "30-all: launched with all capabilities of nrid");
    });
}

/// Installs a plugin whose script calls `nrictl status` in the background and executes the example
/// plugin. Returns the file to which the script writes the output and the exit code of `nrictl`.
fn launch_with_call(node: &Node, name: &str) -> std::path::PathBuf {
    fs::write(node.path("conf.d").join(format!("{name}.conf")), "").unwrap();
    let output = node.path(&format!("{name}.output"));
    let shown = |path: &Path| path.display().to_string();
    let text = format!(
        "#!/bin/sh\n('{nrictl}' --config '{config}' status >'{output}.new' 2>&1\n\
         echo \"code $?\" >>'{output}.new'\nmv '{output}.new' '{output}') &\nexec '{plugin}'\n",
        nrictl = shown(&node.program("nrictl")),
        config = shown(&node.config()),
        output = shown(&output),
        plugin = shown(&Program::Adjust.path()),
    );
    write_program(&node.path("plugins").join(name), &text);
    output
}

/// `nrid` executes programs with all its privileges for clients of the control socket. A plugin
/// without capabilities must not regain capabilities in this way.
#[test]
fn a_plugin_without_capabilities_cannot_use_the_control_socket() {
    for_each_runtime("control socket of plugins", |runtime| {
        let node = Node::new(runtime);
        configure(&node, "[[plugin]]\nmatch = '20-all'\n");
        let limited = launch_with_call(&node, "10-limited");
        let all = launch_with_call(&node, "20-all");
        node.ctl(&["start"]).success();
        let read = |file: &Path| {
            wait_until(format_args!("{}", file.display()), || fs::read_to_string(file).ok())
        };
        let refused = read(&limited);
        assert!(refused.contains("does not have CAP_SYS_ADMIN on the host"), "{refused}");
        assert!(!refused.ends_with("code 0\n"), "{refused}");
        let status = read(&all);
        assert!(status.ends_with("code 0\n"), "{status}");
        pid_of(&node, "10-limited");
        pid_of(&node, "20-all");
    });
}

//! Tests of upstream's sample plugins with the privileges of a new installation.
//!
//! `docs/reference/plugins.md` has a table of the privileges that the plugins need.

use super::*;
use serde_json::Value;
use std::process::Command;

/// A node on which one sample plugin is launched.
struct Sample {
    node: Node,
    name: String,
}

impl Sample {
    /// Installs a plugin that is called with these arguments. `policy` has the settings of a policy
    /// for this plugin; if empty, the plugin has no policy of its own.
    fn new(runtime: &Runtime, program: &Path, arguments: &str, policy: &str) -> Self {
        let node = Node::new(runtime);
        let base = program.file_name().unwrap().to_str().unwrap();
        let name = format!("10-{base}");
        configure(
            &node,
            &match policy {
                "" => String::new(),
                _ => format!("[[plugin]]\nmatch = '{name}'\nno_new_privs = true\n{policy}\n"),
            },
        );
        let script = format!("#!/bin/sh\nexec '{}' {arguments}\n", program.display());
        write_program(&node.path("plugins").join(&name), &script);
        node.ctl(&["start"]).success();
        Self { node, name }
    }

    /// Installs a plugin that is a WebAssembly module, without a policy of its own.
    fn module(runtime: &Runtime, file: &Path) -> Self {
        let node = Node::new(runtime);
        configure(&node, "");
        copy_program(file, &node.path("plugins/10-wasm"));
        node.ctl(&["start"]).success();
        Self { node, name: "10-wasm".to_owned() }
    }

    /// Creates a container with these annotations, which its pod has, too.
    fn create(
        &self,
        name: &str,
        annotations: &[(&str, &str)],
        edit: impl FnOnce(&mut Value),
    ) -> (Ended, Value) {
        let id = self.node.id(name);
        let mut bundle = self.node.bundle(&id).arguments(&["/bin/hostid"]);
        for (key, value) in annotations {
            bundle = bundle.annotation(&format!("{key}={value}"));
        }
        let bundle = bundle.make();
        bundle.edit(edit);
        let created = self.node.create(&bundle, &id);
        let adjusted = self.node.own_bundle(&id).map(|_| self.node.adjusted(&id));
        (created, adjusted.unwrap_or_default())
    }

    /// Checks that the plugin has exactly these capabilities and has become active only once:
    /// `nrid` would have launched a failed plugin again.
    fn check_active(&self, capabilities: u64) {
        let pid = pid_of(&self.node, &self.name);
        let expected = ProcessPrivileges::all_sets(capabilities, true);
        assert_eq!(ProcessPrivileges::of(pid), expected, "{}", self.name);
        let log = self.node.log();
        assert_eq!(log.matches("state=Active").count(), 1, "{}: {log}", self.name);
    }

    fn check_printed(&self, text: &str) {
        wait_until(format_args!("{} to print {text:?}", self.name), || {
            self.node.log().contains(text).then_some(())
        });
    }
}

/// Directories of hooks that Podman reads, too, also that of a user.
const HOOKS: [&str; 2] = ["/usr/share/containers/oci", "/etc/containers/oci"];

#[test]
fn sample_plugins_of_upstream_run_without_capabilities() {
    let Some(dir) = samples("sample plugins") else { return };
    let dirs_of_hooks = || HOOKS.map(|dir| Path::new(dir).exists());
    let before = dirs_of_hooks();
    for_each_runtime("sample plugins", |runtime| {
        let unchanged = |_: &mut Value| {};
        let sample =
            |name: &str, arguments: &str| Sample::new(runtime, &dir.join(name), arguments, "");
        // `differ` cannot be launched, because it registers several plugins by itself.
        for name in ["logger", "template", "network-logger"] {
            let sample = sample(name, "");
            sample.create("c", &[], unchanged).0.success();
            let id = sample.node.id("c");
            sample.node.call(&["start", &id]).success();
            sample.node.call(&["delete", "--force", &id]).success();
            sample.check_printed(if name == "network-logger" { "Removed pod" } else { &id });
            sample.check_active(0);
        }

        let wasm = Sample::module(runtime, &dir.join("wasm"));
        wasm.create("c", &[], unchanged).0.success();
        let id = wasm.node.id("c");
        wasm.node.call(&["start", &id]).success();
        wasm.node.call(&["delete", "--force", &id]).success();
        wasm.check_printed("INFO WASM: Got remove pod sandbox request");
        wasm.check_active(0);

        let injector = sample("device-injector", "");
        let device = "- path: /dev/sample\n  type: c\n  major: 1\n  minor: 3\n";
        let mount = "- source: /proc\n  destination: /sample\n  type: bind\n  options: [rbind]\n";
        let keys =
            [("devices.noderesource.dev/pod", device), ("mounts.noderesource.dev/pod", mount)];
        let (created, config) = injector.create("c", &keys, unchanged);
        created.success();
        assert!(config["linux"]["devices"].to_string().contains("/dev/sample"), "{config}");
        assert!(config["mounts"].to_string().contains("/sample"), "{config}");
        injector.check_active(0);

        let adjuster = sample("ulimit-adjuster", "");
        let id = adjuster.node.id("c");
        let key = format!("ulimits.noderesource.dev/container.{id}");
        let limit = "- type: RLIMIT_CORE\n  hard: 4096\n  soft: 1024\n";
        let (created, config) = adjuster.create("c", &[(&key, limit)], unchanged);
        created.success();
        assert!(config["process"]["rlimits"].to_string().contains("4096"), "{config}");
        adjuster.check_active(0);

        let hook = r#"{"version": "1.0.0", "hook": {"path": "/bin/true", "args": ["sample"]},
            "when": {"commands": ["^/bin/hostid$"]}, "stages": ["prestart"]}"#;
        let _hook = HostFile::new("/etc/containers/oci/hooks.d/nri-sample.json", hook);
        let injector = sample("hook-injector", "-disableWatch"); // it creates what it watches
        let (created, config) = injector.create("c", &[], unchanged);
        created.success();
        assert!(config["hooks"].to_string().contains("/bin/true"), "{config}");
        injector.check_active(0);

        let rdt = sample("rdt", "");
        let key = format!("closid.rdt.noderesource.dev/container.{}", rdt.node.id("c"));
        let (created, config) = rdt.create("c", &[(&key, "sample")], unchanged);
        match Path::new("/sys/fs/resctrl/schemata").exists() {
            true => assert_eq!(config["linux"]["intelRdt"]["closID"], "sample", "{config}"),
            false => {
                let line = created.refusal();
                assert!(line.contains("10-rdt"), "{line}");
            }
        }
        rdt.check_active(0);

        let called = rdt.node.path("called");
        let program = format!("#!/bin/sh\n/bin/cat >>'{}'\necho '{{}}'\n", called.display());
        let _program = HostFile::program("/opt/nri/bin/nri-sample", &program);
        let list = r#"{"version": "0.1", "plugins": [{"type": "nri-sample"}]}"#;
        let _list = HostFile::new("/etc/nri/conf.json", list);
        let adapter = sample("v010-adapter", "");
        adapter.create("c", &[], unchanged).0.success();
        adapter.node.call(&["start", &adapter.node.id("c")]).success();
        let called = fs::read_to_string(&called).unwrap();
        assert!(called.contains("create"), "{called}");
        adapter.check_active(0);

        // Whether the plugin changes the mount depends on how the host has mounted its cgroups, so
        // only the log is checked.
        let cgroups = sample("writable-cgroups", "-verbose -host-mount-file /proc/self/mountinfo");
        let key = "writable-cgroups.noderesource.dev/pod";
        cgroups.create("c", &[(key, "true")], unchanged).0.success();
        cgroups.check_printed("nsdelegate");
        assert!(!cgroups.node.log().contains("Failed to check"), "{}", cgroups.node.log());
        cgroups.check_active(0);
    });
    assert_eq!(dirs_of_hooks(), before, "the test has left directories on the host");
}

/// Runs `ip` in the mount namespace of the runtimes, and returns whether it succeeded.
fn ip(arguments: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(arguments);
    command_after("true", &command).output().is_ok_and(|output| output.status.success())
}

/// The name of a network namespace. Dropping this value deletes the namespace and the network
/// device `nri-sample` of the host.
struct Network(String);

impl Drop for Network {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
        ip(&["link", "delete", "nri-sample"]);
    }
}

#[test]
fn a_sample_plugin_that_moves_network_devices_needs_two_capabilities() {
    let Some(dir) = samples("sample of network devices") else { return };
    for_each_runtime("sample of network devices", |runtime| {
        // CAP_NET_ADMIN is bit 12, CAP_SYS_ADMIN is bit 21.
        for (capabilities, bits, is_moved) in [
            ("", 0, false),
            ("'net_admin'", 1 << 12, false),
            ("'sys_admin'", 1 << 21, false),
            ("'net_admin', 'sys_admin'", 1 << 12 | 1 << 21, true),
        ] {
            let network = Network(format!("nri-sample-{}", std::process::id()));
            if !ip(&["tuntap", "add", "dev", "nri-sample", "mode", "tap"]) {
                limitation("sample of network devices", "there is no TUN driver");
                return;
            }
            assert!(ip(&["netns", "add", &network.0]));
            let policy = format!("capabilities = [{capabilities}]");
            let program = dir.join("network-device-injector");
            let sample = Sample::new(runtime, &program, "", &policy);
            let device =
                "- name: nri-sample\n  new_name: eth33\n  address: 192.0.2.2\n  prefix: 24\n";
            let path = format!("/var/run/netns/{}", network.0);
            let key = ("netdevices.noderesource.dev", device);
            let old_key = ("netdevice.noderesource.dev", device);
            let (created, _) = sample.create("c", &[key, old_key], |config| {
                let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
                let net = namespaces.iter_mut().find(|n| n["type"] == "network").unwrap();
                net["path"] = path.into();
            });
            created.success();
            let inside = ["netns", "exec", &network.0, "ip", "link", "show", "eth33"];
            assert_eq!(ip(&inside), is_moved, "{capabilities}: {}", sample.node.log());
            sample.check_active(bits);
            sample.node.call(&["delete", "--force", &sample.node.id("c")]).success();
        }
    });
}

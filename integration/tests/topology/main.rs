//! The plugin `topology` on real containers: they come, change and go at random, the plugin and
//! `nrid` restart, and after each event the kernel must have what the plugin says.
//!
//! `NRI_TOPOLOGY_CONTAINERS` is the number of containers of each runtime, by default 100. The
//! guests of `integration/guests` run fewer, since each takes seconds there.

mod classes;
mod fleet;
mod root;
mod taken;

use fleet::Fleet;
use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;

/// Policy of these tests: all kinds of classes, on machines with two CPUs as well.
const POLICY: &str = r#"
[class.own]
cpus = "exclusive"
[class.soft]
cpus = "exclusive"
unsatisfied = "share"
[class.near]
cpus = "exclusive"
within = "node"
unsatisfied = "share"
[class.node]
within = "node"
[class.batch]
idle = true
[class.bytes]
shares = 512
memory_min = "16M"
memory_low = "32M"
memory_high = "64M"
[class.percent]
idle = true
memory_min = "10%"
memory_low = "25%"
memory_high = "80%"
"#;

#[test]
fn the_kernel_has_what_the_plugin_says_while_containers_come_and_go() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    let count = std::env::var("NRI_TOPOLOGY_CONTAINERS").map_or(100, |n| n.parse().unwrap());
    for_each_runtime("topology", |runtime| {
        let mut fleet = Fleet::new(runtime, POLICY);
        while fleet.created < count {
            fleet.random_event();
            fleet.check();
        }
        fleet.restart();
        println!("{}: {}", runtime.name, fleet.summary());
        assert!(fleet.exclusive > 0 && fleet.shared > 0, "{}", fleet.summary());
    });
}

#[test]
fn a_container_that_cannot_be_satisfied_is_refused_with_the_reason() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    for_each_runtime("topology refusals", |runtime| {
        let fleet = Fleet::new(runtime, POLICY);
        let id = fleet.node.id("large");
        let bundle = fleet.node.bundle(&id).annotation("nri-topology/cpus=4096").make();
        let line = fleet.node.create(&bundle, &id).refusal();
        let expected = "topology: class \"exclusive\": 4096 exclusive CPUs are wanted, and ";
        assert!(line.contains(expected), "{line}");

        let bundle = fleet.node.bundle(&id).annotation("nri-topology/class=none").make();
        let line = fleet.node.create(&bundle, &id).refusal();
        assert!(line.contains("nri-topology/class is \"none\""), "{line}");
        assert_eq!(fleet.status()["containers"], json!([]));
    });
}

#[test]
fn classes_set_weights_and_the_picture_shows_owners() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    for_each_runtime("topology classes", |runtime| {
        let fleet = Fleet::new(runtime, POLICY);
        for (name, annotation) in [("a", "nri-topology/class=batch"), ("b", "nri-topology/cpus=1")]
        {
            let id = fleet.node.id(name);
            let bundle = fleet.node.bundle(&id).annotation(annotation).make();
            fleet.node.create(&bundle, &id).success();
        }
        let id = fleet.node.id("a");
        match fleet.node.try_cgroup_file(&id, "cpu", "cpu.idle", "cpu.idle") {
            Ok(idle) => assert_eq!(idle, "1"),
            // Before Linux 5.15: the lowest weight.
            Err(_) => {
                let shares = fleet.node.cgroup_file(&id, "cpu", "cpu.shares", "cpu.weight");
                assert_eq!(shares, "2");
            }
        }
        let table = fleet.plugin(&["status"]).success().out();
        assert!(table.lines().any(|line| line.contains("batch") && line.contains("shared")));
        assert!(table.lines().any(|line| line.contains("exclusive  exclusive")), "{table}");
        let picture = fleet.node.path("status.svg");
        fleet.plugin(&["status", "--svg", picture.to_str().unwrap()]).success();
        let picture = std::fs::read_to_string(picture).unwrap();
        assert!(picture.starts_with("<svg ") && picture.contains("(exclusive): "), "{picture}");
    });
}

/// Amounts of memory in percent follow the limit of the container. Without one, they are nothing.
#[test]
fn classes_set_memory_and_weights_that_the_kernel_has() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    for_each_runtime("topology memory", |runtime| {
        let fleet = Fleet::new(runtime, POLICY);
        let files = |id: &str| {
            let weight = fleet.node.cgroup_file(id, "cpu", "cpu.shares", "cpu.weight");
            let memory = |name: &str| {
                let file = format!("memory.{name}");
                fleet.node.try_cgroup_file(id, "memory", &file, &file).unwrap_or_default()
            };
            let idle = fleet.node.try_cgroup_file(id, "cpu", "cpu.idle", "cpu.idle");
            [weight, idle.unwrap_or_default(), memory("min"), memory("low"), memory("high")]
        };
        let create = |name: &str, class: &str, limit: Option<u64>| {
            let id = fleet.node.id(name);
            let mut bundle = fleet.node.bundle(&id);
            bundle = bundle.annotation(&format!("nri-topology/class={class}"));
            if let Some(limit) = limit {
                bundle = bundle.resources(&format!("{{\"memory\": {{\"limit\": {limit}}}}}"));
            }
            fleet.node.create(&bundle.make(), &id).success();
            id
        };
        let mib = |n: u64| (n << 20).to_string();

        let bytes = create("bytes", "bytes", None);
        let percent = create("percent", "percent", Some(100 << 20));
        let unlimited = create("unlimited", "percent", None);
        let [weight, _, min, low, high] = files(&bytes);
        if !is_cgroup_v2() {
            assert_eq!([weight, min, low, high], ["512", "", "", ""]);
            return limitation("topology memory", "memory.min, low and high need cgroup v2");
        }
        // As the runtime converts shares.
        assert!(["20", "59"].contains(&weight.as_str()), "{weight}");
        assert_eq!([min, low, high], [16, 32, 64].map(mib));
        let of = |id: &str| {
            let [_, idle, min, low, high] = files(id);
            assert_eq!(idle, "1");
            [min, low, high]
        };
        assert_eq!(of(&percent), [10, 25, 80].map(mib));
        assert_eq!(of(&unlimited), ["0", "0", "max"]);
        let limit = mib(200);
        fleet.node.call(&["update", "--memory", &limit, &percent]).success();
        assert_eq!(of(&percent), [20, 50, 160].map(mib));
        fleet.node.ctl(&["verify"]).success();
        println!("{}: bytes {:?}, percent {:?}", runtime.name, files(&bytes), files(&percent));
    });
}

#[test]
fn a_service_takes_another_policy_at_a_reload_and_containers_keep_their_cpus() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    for_each_runtime("topology as a service", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let file = node.path("policy.conf");
        let write = |more: &str| {
            let socket = node.path("topology.sock");
            std::fs::write(&file, format!("socket = {socket:?}\n{more}")).unwrap();
        };
        write(POLICY);
        let service = PluginService::start(&node, "topology", &file);
        let create = |name: &str, annotation: &str| {
            let id = node.id(name);
            node.create(&node.bundle(&id).annotation(annotation).make(), &id)
        };
        create("db", "nri-topology/class=soft").success();
        create("own", "nri-topology/cpus=1").success();
        create("web", "a=b").success();
        let cpus =
            |name: &str| node.cgroup_file(&node.id(name), "cpuset", "cpuset.cpus", "cpuset.cpus");
        let before = ["db", "own", "web"].map(cpus);
        assert!(before[1] != before[2] && !before[1].is_empty(), "{before:?}");

        write("default_class = 'nothing'");
        let reloaded = service.reload();
        assert_eq!(reloaded.code, Some(1));
        assert!(reloaded.err().contains("nothing"), "{}", reloaded.err());
        service.process().signal(Signal::HUP);
        let expected = "the previous configuration stays";
        wait_until(expected, || service.log().contains(expected).then_some(()));
        create("later", "nri-topology/class=late").refusal();
        assert_eq!(["db", "own", "web"].map(cpus), before);

        write(&format!("{POLICY}\n[class.late]\nshares = 77\n"));
        service.reload().success();
        let created = wait_until("the new class", || {
            let ended = create("later", "nri-topology/class=late");
            (ended.code == Some(0)).then(|| ["db", "own", "web"].map(cpus))
        });
        assert_eq!(created, before);
        assert_eq!(cpus("later"), cpus("web"));
        // The CPUs return to those that share, which the plugin still knows.
        node.call(&["delete", "--force", &node.id("own")]).success();
        wait_until("the CPU to be shared", || (cpus("web") != before[2]).then_some(()));
        assert_eq!(cpus("later"), cpus("web"));
        // Containers that share leave CPUs that another policy reserves, at the reload.
        let all = cpus("web");
        write(&format!("reserved_cpus = '0'\n{POLICY}\n[class.late]\n"));
        service.reload().success();
        wait_until("CPUs without the reserved one", || {
            let now = ["web", "db", "later"].map(cpus);
            (now.iter().all(|cpus| *cpus == now[0] && *cpus != all)).then_some(())
        });
        assert!(!cpus("web").starts_with('0'), "{}", cpus("web"));
    });
}

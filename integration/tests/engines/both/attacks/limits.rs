//! Resources beyond the limits of `defaults.yaml`, of rules with `at_most`, and of
//! `memory-high.yaml`: at a creation and by `update`.

use super::*;
use crate::both::rules::may_raise_limits;

test_both! {
    no_option_and_no_update_exceeds_what_rules_allow_at_most,
    a_default_is_no_limit,
    no_container_has_more_open_files,
    memory_high_is_that_of_the_recipe,
}

const MEMORY: u64 = 128 << 20;
const PIDS: u64 = 100;
const SHARES: u64 = 1024;

/// A limit, whose value is read from the kernel.
#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Memory,
    Pids,
    Cpus,
    Shares,
}

impl Limit {
    /// The value of a process, and whether it is above what the rules allow.
    fn of(self, process: ContainerProcess) -> (String, bool) {
        let above = |text: &str, most: u64| !text.parse::<u64>().is_ok_and(|found| found <= most);
        match self {
            Self::Memory => {
                let memory = process.limit("memory", "memory.limit_in_bytes", "memory.max");
                // Memory and swap together on cgroup v1, swap alone on v2.
                let file = ("memory.memsw.limit_in_bytes", "memory.swap.max");
                let swap = process.try_limit("memory", file.0, file.1).unwrap_or_default();
                let is_above = above(&memory, MEMORY) || (!swap.is_empty() && above(&swap, MEMORY));
                (format!("{memory} {swap}"), is_above)
            }
            Self::Pids => {
                let pids = process.limit("pids", "pids.max", "pids.max");
                let is_above = above(&pids, PIDS);
                (pids, is_above)
            }
            Self::Cpus => {
                let quota = quota(process);
                let period = match is_cgroup_v2() {
                    true => {
                        let max = process.limit("cpu", "", "cpu.max");
                        max.split(' ').nth(1).unwrap_or_default().to_owned()
                    }
                    false => process.limit("cpu", "cpu.cfs_period_us", ""),
                };
                let is_above = above(&quota, period.parse().unwrap());
                (format!("{quota}/{period}"), is_above)
            }
            // Of runtimes on cgroup v2, each computes a weight of its own from shares.
            Self::Shares if is_cgroup_v2() => {
                let weight = process.limit("cpu", "", "cpu.weight");
                let is_above = above(&weight, 100);
                (weight, is_above)
            }
            Self::Shares => {
                let shares = process.limit("cpu", "cpu.shares", "");
                let is_above = above(&shares, SHARES);
                (shares, is_above)
            }
        }
    }
}

/// Options of a creation and, with the same words, of an update.
const OPTIONS: [(Limit, &[&str]); 15] = [
    (Limit::Memory, &["--memory=8g", "--memory-swap=16g"]),
    (Limit::Memory, &["--memory=8g", "--memory-swap=-1"]),
    (Limit::Memory, &["--memory=100m", "--memory-swap=-1"]),
    (Limit::Memory, &["--memory=0"]),
    (Limit::Memory, &["--memory=-1", "--memory-swap=-1"]),
    (Limit::Pids, &["--pids-limit=4000"]),
    (Limit::Pids, &["--pids-limit=-1"]),
    (Limit::Pids, &["--pids-limit=0"]),
    (Limit::Cpus, &["--cpu-quota=400000"]),
    (Limit::Cpus, &["--cpu-quota=-1"]),
    (Limit::Cpus, &["--cpu-period=10000", "--cpu-quota=100000"]),
    (Limit::Cpus, &["--cpu-period=1000"]),
    (Limit::Shares, &["--cpu-shares=100000"]),
    (Limit::Shares, &["--cpu-shares=262144"]),
    (Limit::Memory, &["--memory-reservation=64m", "--memory=8g", "--memory-swap=8g"]),
];

fn no_option_and_no_update_exceeds_what_rules_allow_at_most<E: Engine>() {
    let rules = |_: &E, _: String| {
        format!(
            "rules: [{{name: a, at_most: {{memory.limit: {MEMORY}, memory.swap: {MEMORY}, \
               pids.limit: {PIDS}, cpus: 1, cpu.shares: {SHARES}}}}}]"
        )
    };
    with_edited_recipe::<E>("defaults", rules, |engine, name| {
        let mut tried = Tried::new(name, "defaults");
        // A runtime may refuse an option; a container that does not run takes nothing.
        let start = |runtime: &str, container: &str, options: &[&str]| {
            let with = ["--detach", "--network=none", "--name", container];
            let ended =
                call_with(engine, runtime, "run", &[&with, options, &[IMAGE], &WAIT[..]].concat());
            match ended.code {
                Some(0) => Ok(engine.process_of(container)),
                _ => Err(said(&ended)),
            }
        };
        let bare = engine.runtime().name;
        for (n, (limit, options)) in OPTIONS.into_iter().enumerate() {
            let what = options.join(" ");
            let found = start(bare, &format!("bare-{n}"), options).map(|p| limit.of(p));
            match found {
                Ok((_, true)) => {}
                Ok((found, false)) => {
                    tried.missing(&what, &found);
                    continue;
                }
                Err(why) => {
                    tried.missing(&what, &why);
                    continue;
                }
            }
            let process = start("nri", &format!("web-{n}"), options);
            let process = process.unwrap_or_else(|why| panic!("{what}: {why}"));
            let (found, is_above) = limit.of(process);
            tried.held(&what, !is_above, &found);
            engine.out(&["rm", "--force", &format!("bare-{n}"), &format!("web-{n}")]);
        }
        // Docker takes some options of an update only after others: pairs of containers.
        let within = ["--memory=64m", "--memory-swap=64m", "--pids-limit=50"];
        for (n, (limit, options)) in OPTIONS.into_iter().enumerate() {
            let what = format!("update {}", options.join(" "));
            let update = |container: &str| {
                engine.call_client(&[&["update"], options, &[container]].concat())
            };
            let (other, web) = (format!("other-{n}"), format!("updated-{n}"));
            let process = start(bare, &other, &within).unwrap_or_else(|why| panic!("{why}"));
            let ended = update(&other);
            let is_above = ended.code == Some(0) && limit.of(process).1;
            if is_above {
                let process = start("nri", &web, &within).unwrap_or_else(|why| panic!("{why}"));
                let ended = update(&web);
                let (found, is_above) = limit.of(process);
                tried.held(&what, !is_above, &format!("{found}: {}", said(&ended)));
                engine.out(&["rm", "--force", &web]);
            } else {
                tried.missing(&what, &said(&ended));
            }
            engine.out(&["rm", "--force", &other]);
        }
        tried.report();
    });
}

fn a_default_is_no_limit<E: Engine>() {
    let edit = |_: &E, text: String| match may_raise_limits() {
        true => text,
        false => text.replace("65536", "8192"),
    };
    with_edited_recipe::<E>("defaults", edit, |engine, name| {
        let mut tried = Tried::new(name, "defaults");
        let words = "who creates or updates a container may request more, or no limit at all";
        let web = run(engine, "web", &["--memory=3g", "--pids-limit=2000"]);
        let above = |process: ContainerProcess| {
            let memory = process.limit("memory", "memory.limit_in_bytes", "memory.max");
            !memory.parse::<u64>().is_ok_and(|found| found <= 2 << 30)
        };
        tried.open("more memory", above(web), words);
        let pids = web.limit("pids", "pids.max", "pids.max");
        tried.open("more processes", pids == "2000", words);
        let other = run(engine, "other", &["--pids-limit=0"]);
        assert!(!above(other), "the default");
        let update = ["update", "--memory=3g", "--memory-swap=6g", "other"];
        let ended = engine.call_client(&update);
        match ended.code {
            Some(0) => tried.open("more memory, by update", above(other), words),
            _ => tried.missing("more memory, by update", &said(&ended)),
        }
        let ended = engine.call_client(&["update", "--pids-limit=-1", "other"]);
        match ended.code {
            Some(0) => {
                let pids = other.limit("pids", "pids.max", "pids.max");
                tried.open("no limit of processes, by update", pids == "max", words);
            }
            _ => tried.missing("no limit of processes, by update", &said(&ended)),
        }
        tried.report();
    });
}

fn no_container_has_more_open_files<E: Engine>() {
    let most = if may_raise_limits() { 65536 } else { 8192 };
    let edit = move |_: &E, text: String| text.replace("65536", &most.to_string());
    with_edited_recipe::<E>("defaults", edit, |engine, name| {
        let mut tried = Tried::new(name, "defaults");
        for (n, option) in [
            "--ulimit=nofile=100000:100000",
            "--ulimit=nofile=9000:9000",
            "--ulimit=nofile=1024:100000",
            "--ulimit=nofile=100000",
            "--ulimit=nofile=-1:-1",
            "--ulimit=host",
            "--ulimit=nproc=-1:-1",
        ]
        .into_iter()
        .enumerate()
        {
            let container = format!("files-{n}");
            let arguments = [&["--network=none", option, IMAGE], &WAIT[..]].concat();
            let run = [&["run", "--detach", "--name", &container], &arguments[..]].concat();
            let ended = engine.call_client(&run);
            if ended.code != Some(0) {
                tried.missing(option, &said(&ended));
                continue;
            }
            let (_, hard) = engine.process_of(&container).rlimit("Max open files").unwrap();
            let is_within = hard.parse::<u64>().is_ok_and(|hard| hard <= most);
            tried.held(option, is_within, &hard);
            // Nor can its processes, and those of `exec`.
            let script = format!("ulimit -Hn; ulimit -n {} 2>/dev/null", most + 1);
            let ended = engine.call_client(&["exec", &container, "sh", "-c", &script]);
            let inside = ended.out().trim().parse::<u64>();
            let is_held = ended.code != Some(0) && inside.is_ok_and(|hard| hard <= most);
            tried.held(&format!("{option}, exec"), is_held, &said(&ended));
        }
        let raise = format!("ulimit -n {}", most + 1);
        let capable = ["--cap-add=SYS_RESOURCE", IMAGE, "sh", "-c", &raise];
        let ended = engine.run_with("nri", &capable);
        match ended.code {
            Some(0) => {
                let words = "CAP_SYS_RESOURCE in a container raises its limit of open files";
                tried.open("SYS_RESOURCE", true, words);
            }
            _ => tried.missing("SYS_RESOURCE", &said(&ended)),
        }
        tried.report();
    });
}

fn memory_high_is_that_of_the_recipe<E: Engine>() {
    with_recipe::<E>("memory-high", |engine, name| {
        let mut tried = Tried::new(name, "memory-high");
        if !is_cgroup_v2() {
            // Its limit cannot be set here, so that no container with a limit is created.
            let ended = engine.run_with("nri", &["--memory=100m", IMAGE, "true"]);
            tried.held("cgroup v1", ended.code != Some(0), &said(&ended));
            limitation(name, "memory.high needs cgroup v2");
            return tried.report();
        }
        let expected = ((100_u64 << 20) / 10 * 9 / 4096 * 4096).to_string();
        let high = |process: ContainerProcess| process.limit("memory", "", "memory.high");
        if E::NAME == "podman" {
            for (n, options) in [
                ["--memory=100m", "--cgroup-conf=memory.high=max"],
                ["--memory=100m", "--cgroup-conf=memory.high=104857600"],
                ["--cgroup-conf=memory.max=104857600", "--cgroup-conf=memory.high=max"],
            ]
            .into_iter()
            .enumerate()
            {
                let found = high(run(engine, &format!("high-{n}"), &options));
                tried.held(&options.join(" "), found == expected, &found);
            }
        }
        let web = run(engine, "web", &["--memory=100m"]);
        tried.held("a limit", high(web) == expected, &high(web));
        let ended = engine.call_client(&["update", "--memory=200m", "--memory-swap=400m", "web"]);
        let words = "An update of the limit leaves memory.high";
        match ended.code {
            Some(0) => tried.open("an update of the limit", high(web) == expected, words),
            _ => tried.missing("an update of the limit", &said(&ended)),
        }
        let other = run(engine, "other", &[]);
        let words = "A container without a limit has no memory.high either";
        tried.open("no limit", high(other) == "max", words);
        tried.report();
    });
}

//! Labels as `labels.yaml` and `oom-priority.yaml` read them: of containers and of images.

use super::*;

test_both! {
    a_label_gives_only_the_devices_and_huge_pages_of_the_recipe,
    no_other_label_than_critical_lowers_the_score,
}

/// Whether `nrid` knows labels of containers; reports if not.
fn has_labels<E: Engine>(engine: &E, name: &str) -> bool {
    let has = E::PROGRAM != "podman" || engine.suite().version("podman") >= (4, 8);
    if !has {
        limitation(name, "the labels of this Podman are in a BoltDB");
    }
    has
}

/// Makes an image that has a label.
fn labelled<E: Engine>(engine: &E, label: &str) -> &'static str {
    engine.call_client(&["create", "--name=base", "--network=none", IMAGE, "true"]).success();
    let change = format!("--change=LABEL {label}");
    engine.out(&["commit", &change, "base", "localhost/labelled:1"]);
    "localhost/labelled:1"
}

fn a_label_gives_only_the_devices_and_huge_pages_of_the_recipe<E: Engine>() {
    with_recipe::<E>("labels", |engine, name| {
        if !has_labels(engine, name) {
            return;
        }
        let mut tried = Tried::new(name, "labels");
        for devices in [
            "/dev/fuse,/dev/kmsg",
            "/dev/fuse,",
            "/dev/fuse /dev/kmsg",
            "/dev/../dev/fuse",
            "/dev/fuse/../kmsg",
            "/dev//fuse",
            " /dev/fuse",
            "/DEV/FUSE",
            "",
        ] {
            let option = format!("--label=example.com/devices={devices}");
            let message = "only /dev/fuse and /dev/kvm can be requested by label";
            tried.refused(engine, &option, message, |runtime| {
                engine.run_with(runtime, &[&option, IMAGE, "true"])
            });
        }
        let file = engine.path("labels");
        fs::write(&file, "example.com/devices=/dev/kmsg\n").unwrap();
        let option = format!("--label-file={}", file.display());
        tried.refused(engine, "a file of labels", "50-rules", |runtime| {
            engine.run_with(runtime, &[&option, IMAGE, "true"])
        });
        for amount in ["1e12", "", "64 apples", "99999999999999999999"] {
            let option = format!("--label=example.com/hugepages-2Mi={amount}");
            tried.refused(engine, &option, "huge pages by label", |runtime| {
                engine.run_with(runtime, &[&option, IMAGE, "true"])
            });
        }
        for (n, amount) in ["5Gi", "unlimited", "2199023255552"].into_iter().enumerate() {
            let option = format!("--label=example.com/hugepages-2Mi={amount}");
            if !has_hugepages() {
                // As far as the runtime: the host has no controller.
                tried.missing(&option, "the host has no controller hugetlb");
                continue;
            }
            let container = format!("pages-{n}");
            run(engine, &container, &[&option]);
            let file = match is_cgroup_v2() {
                true => "/sys/fs/cgroup/hugetlb.2MB.max",
                false => "/sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes",
            };
            let limit = engine.out(&["exec", &container, "cat", file]);
            tried.held(&option, limit == (1_u64 << 30).to_string(), &limit);
        }
        let image = labelled(engine, "example.com/devices=/dev/kmsg");
        tried.refused(engine, "the label of an image", "50-rules", |runtime| {
            engine.run_with(runtime, &[image, "true"])
        });
        if Path::new("/dev/fuse").exists() {
            engine.out(&["rm", "base"]);
            let image = labelled(engine, "example.com/devices=/dev/fuse");
            let ended = engine.run_with("nri", &[image, "test", "-c", "/dev/fuse"]);
            let words = "Labels of an image count, too";
            tried.open("a device by an image", ended.code == Some(0), words);
        }
        let ended = engine.run_with("nri", &["--device=/dev/null:/dev/x", IMAGE, "cat", "/dev/x"]);
        let words = "what --device gives is limited in privileged.yaml";
        tried.open("a device without a label", ended.code == Some(0), words);
        tried.report();
    });
}

fn no_other_label_than_critical_lowers_the_score<E: Engine>() {
    with_recipe::<E>("oom-priority", |engine, name| {
        if !has_labels(engine, name) {
            return;
        }
        let mut tried = Tried::new(name, "oom-priority");
        let score = |container: &str| {
            let file = format!("/proc/{}/oom_score_adj", engine.process_of(container).0.0);
            fs::read_to_string(file).unwrap().trim().parse::<i32>().unwrap()
        };
        let label = |value: &str| format!("--label=example.com/priority={value}");
        for (n, (value, requested, expected)) in [
            (None, "-1000", 0),
            (None, "-1", 0),
            (Some("web"), "-500", 0),
            (Some("Critical"), "-500", 0),
            (Some("critical "), "-500", 0),
            (Some("batch"), "-500", 900),
            (Some("batch"), "0", 900),
        ]
        .into_iter()
        .enumerate()
        {
            let container = format!("score-{n}");
            let mut options = vec![format!("--oom-score-adj={requested}")];
            options.extend(value.map(label));
            let words: Vec<&str> = options.iter().map(String::as_str).collect();
            run(engine, &container, &words);
            let found = score(&container);
            tried.held(&options.join(" "), found == expected, &found.to_string());
        }
        // The first process of a container has its rights.
        let lower = ["exec", "score-0", "sh", "-c", "echo -500 >/proc/1/oom_score_adj"];
        let ended = engine.call_client(&lower);
        let is_held = ended.code != Some(0) && score("score-0") == 0;
        tried.held("the container itself", is_held, &said(&ended));
        let image = labelled(engine, "example.com/priority=critical");
        let capable = ["--cap-add=SYS_RESOURCE", IMAGE, "sh", "-c", lower[4]];
        let lowered = engine.run_with("nri", &capable);
        let command = ["sh", "-c", "cat /proc/self/oom_score_adj"];
        let ended = engine.run_with("nri", &[&[image], &command[..]].concat());
        if lowered.code == Some(0) {
            let words = "CAP_SYS_RESOURCE in a container lowers it";
            tried.open("a container with CAP_SYS_RESOURCE", true, words);
            let words = "Whoever creates a container, or builds its image, chooses its label";
            tried.open("the label of an image", ended.out() == "-500\n", words);
        } else {
            // The value is set, and the runtime cannot.
            assert!(said(&ended).contains("oom_score_adj"), "{}", said(&ended));
            tried.missing("a lower score", "without CAP_SYS_RESOURCE");
        }
        tried.report();
    });
}

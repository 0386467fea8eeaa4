//! Tests of unusual command lines: options in any position, `--`, empty arguments, unusual ids, no
//! arguments at all.

use super::{check_transparent, exit_status, path_str, status_and_output};

#[test]
fn calls_without_a_container_are_transparent() {
    check_transparent("arguments without a container", |scenario| {
        for arguments in [
            &[][..],
            &["--version"],
            &["-v"],
            &["--help"],
            &["help"],
            &["nosuchverb"],
            &["--nosuchoption", "state", "x"],
            &["create", "--nosuchoption"],
            &["create", "--help"],
            &["spec", "--help"],
            &["create"],
            &["start"],
            &["delete"],
            &["state"],
            &["kill"],
            &["run"],
            &["exec"],
            &["update"],
            &["restore"],
            &["start", "a", "b"],
            &["list", "-q"],
            &["--log-format", "nosuch", "state", "x"],
            &["--", "state", "x"],
            &["--root"],
            &["features"],
        ] {
            let mut command = scenario.command();
            command.args(arguments);
            let ended = scenario.node.run(command);
            // Usage texts name the program.
            let output = status_and_output(&ended)
                .replace("nri-container-runtime", "PROGRAM")
                .replace(scenario.node.runtime().name, "PROGRAM");
            let path = scenario
                .node
                .runtime()
                .path
                .display()
                .to_string()
                .replace(scenario.node.runtime().name, "PROGRAM");
            scenario.note(arguments.join(" "), output.replace(&path, "PROGRAM"));
        }
    });
}

#[test]
fn options_in_unusual_places_are_transparent() {
    check_transparent("options in odd places", |scenario| {
        let id = scenario.node.id("c");
        let bundle = scenario.node.bundle(&id).arguments(&["/bin/sh", "-c", "exit 3"]).make();
        let dir = path_str(bundle.dir());
        let joined = format!("--bundle={dir}");
        let short = format!("-b={dir}");
        let log = format!("--log={}", path_str(&scenario.node.path("log")));
        for arguments in [
            &["run", joined.as_str(), &id][..],
            &["run", "-b", dir, &id],
            &["run", &short, &id],
            &["run", &id, "--bundle", dir],
            &["run", "--bundle", dir, "--", &id],
            &["run", "--", &id],
            &["run", "--bundle", dir, &id, "more"],
            &["run", "--bundle", dir],
            &["run", "--bundle", "/nowhere", &id],
            &["run", "--bundle", "", &id],
            &["run", "--bundle", "/nowhere", "--bundle", dir, &id],
            &["--debug", "run", "--bundle", "/nowhere", &id],
            &[log.as_str(), "--log-format", "json", "run", "--bundle", "/nowhere", &id],
            &["run", "--bundle", dir, "--no-pivot", &id],
            &["run", "--no-new-keyring", "--bundle", dir, &id],
        ] {
            let ended = scenario.call(arguments);
            // Debug messages differ between any two calls.
            let shown = if arguments[0] == "--debug" {
                exit_status(&ended)
            } else {
                status_and_output(&ended)
            };
            scenario.note(arguments.join(" "), shown);
            scenario.node.bare(&["delete", "--force", &id]);
        }
        scenario.note(
            "log",
            std::fs::read_to_string(scenario.node.path("log")).unwrap_or_default().lines().count(),
        );
    });
}

#[test]
fn a_bundle_in_the_working_directory_is_found() {
    check_transparent("working directory as the bundle", |scenario| {
        let id = scenario.node.id("c");
        let bundle = scenario
            .node
            .bundle(&id)
            .arguments(&["/bin/sh", "-c", "echo $NRI_SEEN; pwd; exit 3"])
            .make();
        let mut outputs = Vec::new();
        for (cd, option) in [
            (bundle.dir(), None),
            (bundle.dir(), Some(".")),
            (bundle.dir().parent().unwrap(), Some(&*id)),
        ] {
            let mut command = scenario.command_after(&format!("cd {}", path_str(cd)));
            command.arg("run");
            if let Some(option) = option {
                command.args(["--bundle", option]);
            }
            command.arg(&id);
            let ended = scenario.node.run(command);
            scenario.note(
                format_args!("{option:?}"),
                format_args!("{} {}", exit_status(&ended), ended.err()),
            );
            outputs.push(ended.out());
        }
        // Only the plugin sets NRI_SEEN.
        assert_eq!(outputs[0].contains("yes"), scenario.way == super::Way::Adjusted, "{outputs:?}");
        outputs.dedup();
        assert_eq!(outputs.len(), 1, "the outputs differ: {outputs:?}");
    });
}

#[test]
fn arguments_after_the_id_belong_to_the_container() {
    check_transparent("arguments of exec", |scenario| {
        let id = scenario.start_waiting_container("c");
        for arguments in [
            &["exec", &id, "/bin/echo", "--bundle", "x", "--", "-t"][..],
            &["exec", &id, "--", "/bin/echo", "x"],
            &["exec", "--", &id, "/bin/echo", "--version"],
            &["exec", &id, "/bin/sh", "-c", "echo $# \"[$1]\" \"[$2]\"", "sh", "", " "],
            &[
                "exec",
                "--env",
                "A=b=c",
                "--env",
                "EMPTY=",
                &id,
                "/bin/sh",
                "-c",
                "echo [$A] [$EMPTY]",
            ],
            &[
                "exec",
                "-e",
                "A=1",
                "--cwd",
                "/tmp",
                "-u",
                "5:6",
                &id,
                "/bin/sh",
                "-c",
                "echo $A; pwd; id -u; id -g",
            ],
            &["exec", "--cwd", "/nowhere", &id, "/bin/true"],
            &["exec", "--user", "nobody", &id, "/bin/true"],
            &["exec", "--process", "/nowhere", &id],
            &["exec", &id, "kill", "create", "start"],
            &["exec", &id, "/bin/echo", "--nri-version", "--nri-config=x"],
        ] {
            scenario.call_and_note(arguments);
        }
    });
}

/// The wrapper itself refuses ids that no runtime accepts, so the test compares only the exit codes
/// for these ids. The runtime checks all other ids.
#[test]
fn unusual_ids_are_transparent() {
    check_transparent("odd ids", |scenario| {
        let prefix = scenario.node.prefix().to_owned();
        // An id of 201 bytes, which is still short enough for a file name.
        let long = "l".repeat(200 - prefix.len());
        let bundle = scenario
            .node
            .bundle(&scenario.node.id("bundle"))
            .arguments(&["/bin/sh", "-c", "exit 3"])
            .make();
        for name in ["a.b_c-d+e", "a b", "u\u{fc}", "a\nb", &long, "a:b", "a@b", "%s", "a=b"] {
            let ended = scenario.call(&[
                "run",
                "--bundle",
                path_str(bundle.dir()),
                &format!("{prefix}-{name}"),
            ]);
            scenario.note(&name[..1], status_and_output(&ended));
        }
        for name in ["..", ".", "", "a/b", "../x", "-x", "--help"] {
            let ended = scenario.call(&["run", "--bundle", path_str(bundle.dir()), name]);
            scenario.note(format_args!("{name:?}"), exit_status(&ended));
        }
    });
}

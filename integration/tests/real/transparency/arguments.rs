//! Unusual command lines: options in any position, `--`, empty arguments, unusual ids, no arguments
//! at all.

use super::{alike, how, saying, text};

#[test]
fn calls_without_a_container_are_transparent() {
    alike("arguments without a container", |stage| {
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
            let mut command = stage.command();
            command.args(arguments);
            let ended = stage.node.run(command);
            // Usage texts name the program.
            let said = saying(&ended)
                .replace("nri-container-runtime", "PROGRAM")
                .replace(stage.node.runtime().name, "PROGRAM");
            let path = stage
                .node
                .runtime()
                .path
                .display()
                .to_string()
                .replace(stage.node.runtime().name, "PROGRAM");
            stage.note(arguments.join(" "), said.replace(&path, "PROGRAM"));
        }
    });
}

#[test]
fn options_in_unusual_places_are_transparent() {
    alike("options in odd places", |stage| {
        let id = stage.node.id("c");
        let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", "exit 3"]).make();
        let dir = text(bundle.dir());
        let joined = format!("--bundle={dir}");
        let short = format!("-b={dir}");
        let log = format!("--log={}", text(&stage.node.path("log")));
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
            let ended = stage.call(arguments);
            let shown = if arguments[0] == "--debug" { how(&ended) } else { saying(&ended) };
            stage.note(arguments.join(" "), shown);
            stage.node.bare(&["delete", "--force", &id]);
        }
        stage.note(
            "log",
            std::fs::read_to_string(stage.node.path("log")).unwrap_or_default().lines().count(),
        );
    });
}

#[test]
fn a_bundle_in_the_working_directory_is_found() {
    alike("working directory as the bundle", |stage| {
        let id = stage.node.id("c");
        let bundle = stage
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
            let mut command = stage.after(&format!("cd {}", text(cd)));
            command.arg("run");
            if let Some(option) = option {
                command.args(["--bundle", option]);
            }
            command.arg(&id);
            let ended = stage.node.run(command);
            stage.note(format_args!("{option:?}"), format_args!("{} {}", how(&ended), ended.err()));
            outputs.push(ended.out());
        }
        assert_eq!(outputs[0].contains("yes"), stage.way == super::Way::Adjusted, "{outputs:?}");
        outputs.dedup();
        assert_eq!(outputs.len(), 1, "{outputs:?}");
    });
}

#[test]
fn arguments_after_the_id_belong_to_the_container() {
    alike("arguments of exec", |stage| {
        let id = stage.waiting("c");
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
            stage.reported(arguments);
        }
    });
}

/// The wrapper refuses ids that no runtime accepts, in its own message; all other ids are left to
/// the runtime.
#[test]
fn unusual_ids_are_transparent() {
    alike("odd ids", |stage| {
        let prefix = stage.node.prefix().to_owned();
        let long = "l".repeat(200 - prefix.len());
        let bundle = stage
            .node
            .bundle(&stage.node.id("bundle"))
            .arguments(&["/bin/sh", "-c", "exit 3"])
            .make();
        for name in ["a.b_c-d+e", "a b", "u\u{fc}", "a\nb", &long, "a:b", "a@b", "%s", "a=b"] {
            let ended =
                stage.call(&["run", "--bundle", text(bundle.dir()), &format!("{prefix}-{name}")]);
            stage.note(&name[..1], saying(&ended));
        }
        for name in ["..", ".", "", "a/b", "../x", "-x", "--help"] {
            let ended = stage.call(&["run", "--bundle", text(bundle.dir()), name]);
            stage.note(format_args!("{name:?}"), how(&ended));
        }
    });
}

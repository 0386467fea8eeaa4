//! Descriptors of a container: those that the caller preserves, and no others.

use super::{Way, alike, how, saying, text};
use nri_integration::*;

/// Script that lists the open descriptors up to 9; the shell itself uses those above.
const LIST: &str =
    "for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && echo \"$n is open\"; done; true";
const OPEN: &str = "exec 3</dev/null 4<FILE 5</dev/zero 7</dev/null";

/// Returns the shell command that opens descriptors 3, 4, 5 and 7.
fn opening(node: &Node) -> String {
    let file = node.path("preserved");
    std::fs::write(&file, "preserved\n").unwrap();
    OPEN.replace("FILE", text(&file))
}

#[test]
fn preserved_descriptors_reach_the_container() {
    alike("--preserve-fds", |stage| {
        let open = opening(&stage.node);
        let waiting = stage.waiting("d");
        let script = format!("cat <&4 2>/dev/null; {LIST}");
        for preserved in ["0", "1", "2", "3", "4", "5"] {
            let id = stage.node.id(&format!("c{preserved}"));
            let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", &script]).make();
            let mut run = stage.after(&open);
            run.args(["run", "--preserve-fds", preserved, "--bundle", text(bundle.dir()), &id]);
            let mut exec = stage.after(&open);
            exec.args(["exec", "--preserve-fds", preserved, &waiting, "/bin/sh", "-c", &script]);
            for (verb, command) in [("run", run), ("exec", exec)] {
                let ended = stage.node.run(command);
                assert_eq!(
                    ended.out().contains("preserved"),
                    preserved >= "2" && ended.code == Some(0),
                    "{}",
                    saying(&ended)
                );
                stage.note(format_args!("{verb} {preserved}"), saying(&ended));
            }
        }
    });
}

#[test]
fn descriptors_preserved_at_create_survive_until_start() {
    alike("--preserve-fds of create", |stage| {
        let open = opening(&stage.node);
        let id = stage.node.id("c");
        let bundle = stage
            .node
            .bundle(&id)
            .arguments(&["/bin/sh", "-c", &format!("cat <&4; {LIST}; echo ready; sleep 1000")])
            .make();
        let mut create = stage.after(&open);
        create.args(["create", "--preserve-fds", "2", "--bundle", text(bundle.dir()), &id]);
        let created = stage.node.run(create).success();
        stage.call(&["start", &id]).success();
        wait_until("the container", || created.out().contains("ready").then_some(()));
        assert!(created.out().starts_with("preserved\n"), "{}", created.out());
        stage.note("create", saying(&created));
    });
}

/// With the variables of socket activation the runtime passes descriptors on to the container.
#[test]
fn descriptors_of_socket_activation_reach_the_container() {
    alike("LISTEN_FDS", |stage| {
        let open = opening(&stage.node);
        let script = format!(
            "echo \"$LISTEN_FDS, ${{LISTEN_PID:-none}}, $LISTEN_FDNAMES\"; cat <&4; {LIST}"
        );
        for (name, variables) in [
            ("with our pid", "export LISTEN_FDS=2 LISTEN_PID=$$"),
            ("with names", "export LISTEN_FDS=2 LISTEN_PID=$$ LISTEN_FDNAMES=a:b"),
            ("without a pid", "export LISTEN_FDS=2"),
            ("not a number", "export LISTEN_FDS=x LISTEN_PID=$$"),
        ] {
            let id = stage.node.id("c");
            let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", &script]).make();
            let mut run = stage.after(&format!("{open}; {variables}"));
            run.args(["run", "--bundle", text(bundle.dir()), &id]);
            stage.note(format_args!("run, {name}"), saying(&stage.node.run(run)));
            let id = stage.node.id("d");
            let bundle = stage
                .node
                .bundle(&id)
                .arguments(&["/bin/sh", "-c", &format!("{script}; echo ready; sleep 1000")])
                .make();
            let mut create = stage.after(&format!("{open}; {variables}"));
            create.args(["create", "--bundle", text(bundle.dir()), &id]);
            let created = stage.node.run(create);
            if stage.call(&["start", &id]).code == Some(0) {
                wait_until("the container", || created.out().contains("ready").then_some(()));
            }
            stage.note(format_args!("create, {name}"), saying(&created));
            stage.call(&["delete", "--force", &id]).success();
        }
    });
}

#[test]
fn closed_standard_descriptors_are_transparent() {
    alike("closed stdio", |stage| {
        for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
            let id = stage.node.id("c");
            let mark = stage.node.path("mark");
            std::fs::create_dir_all(&mark).unwrap();
            let bundle = stage
                .node
                .bundle(&id)
                .arguments(&["/bin/sh", "-c", &format!("({LIST}) >/mark/list; exit 6")])
                .make();
            bundle.edit(|config| {
                config["mounts"].as_array_mut().unwrap().push(serde_json::json!({
                    "destination": "/mark", "type": "bind", "source": text(&mark),
                    "options": ["bind", "rw"]
                }));
            });
            let mut run = stage.after(&format!("exec {closed}"));
            run.args(["run", "--bundle", text(bundle.dir()), &id]);
            let ended = stage.node.run(run);
            let list = std::fs::read_to_string(mark.join("list")).unwrap_or_default();
            stage.node.bare(&["delete", "--force", &id]);
            if stage.node.runtime().name == "crun" {
                if stage.way == Way::Bare && ended.signal.is_some() {
                    limitation("closed stdio (crun)", "the bare crun sometimes dies by a signal");
                }
                stage.note(closed, "called");
            } else {
                stage.note(closed, format_args!("{} {list}", how(&ended)));
            }
        }
    });
}

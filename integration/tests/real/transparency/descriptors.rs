//! Tests of the open descriptors of a container: exactly the descriptors that the caller preserves.

use super::{Way, check_transparent, exit_status, path_str, status_and_output};
use nri_integration::*;

/// Script that lists the open descriptors up to 9; the shell itself uses higher numbers.
const LIST: &str =
    "for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && echo \"$n is open\"; done; true";
/// Shell command that opens descriptors 3, 4, 5 and 7.
const OPEN: &str = "exec 3</dev/null 4<FILE 5</dev/zero 7</dev/null";

/// Returns [`OPEN`] with a file that holds `preserved` as descriptor 4.
fn open_command(node: &Node) -> String {
    let file = node.path("preserved");
    std::fs::write(&file, "preserved\n").unwrap();
    OPEN.replace("FILE", path_str(&file))
}

#[test]
fn preserved_descriptors_reach_the_container() {
    check_transparent("--preserve-fds", |scenario| {
        let open = open_command(&scenario.node);
        let waiting = scenario.start_waiting_container("d");
        let script = format!("cat <&4 2>/dev/null; {LIST}");
        for preserved in ["0", "1", "2", "3", "4", "5"] {
            let id = scenario.node.id(&format!("c{preserved}"));
            let bundle = scenario.node.bundle(&id).arguments(&["/bin/sh", "-c", &script]).make();
            let mut run = scenario.command_after(&open);
            run.args(["run", "--preserve-fds", preserved, "--bundle", path_str(bundle.dir()), &id]);
            let mut exec = scenario.command_after(&open);
            exec.args(["exec", "--preserve-fds", preserved, &waiting, "/bin/sh", "-c", &script]);
            for (verb, command) in [("run", run), ("exec", exec)] {
                let ended = scenario.node.run(command);
                // The second preserved descriptor, 4, is the file with this text.
                assert_eq!(
                    ended.out().contains("preserved"),
                    preserved >= "2" && ended.code == Some(0),
                    "{}",
                    status_and_output(&ended)
                );
                scenario.note(format_args!("{verb} {preserved}"), status_and_output(&ended));
            }
        }
    });
}

#[test]
fn descriptors_preserved_at_create_survive_until_start() {
    check_transparent("--preserve-fds of create", |scenario| {
        let open = open_command(&scenario.node);
        let id = scenario.node.id("c");
        let bundle = scenario
            .node
            .bundle(&id)
            .arguments(&["/bin/sh", "-c", &format!("cat <&4; {LIST}; echo ready; sleep 1000")])
            .make();
        let mut create = scenario.command_after(&open);
        create.args(["create", "--preserve-fds", "2", "--bundle", path_str(bundle.dir()), &id]);
        let created = scenario.node.run(create).success();
        scenario.call(&["start", &id]).success();
        wait_until("the container", || created.out().contains("ready").then_some(()));
        assert!(created.out().starts_with("preserved\n"), "{}", created.out());
        scenario.note("create", status_and_output(&created));
    });
}

/// With the variables of socket activation the runtime passes descriptors on to the container.
#[test]
fn descriptors_of_socket_activation_reach_the_container() {
    check_transparent("LISTEN_FDS", |scenario| {
        let open = open_command(&scenario.node);
        let script = format!(
            "echo \"$LISTEN_FDS, ${{LISTEN_PID:-none}}, $LISTEN_FDNAMES\"; cat <&4; {LIST}"
        );
        for (name, variables) in [
            ("with our pid", "export LISTEN_FDS=2 LISTEN_PID=$$"),
            ("with names", "export LISTEN_FDS=2 LISTEN_PID=$$ LISTEN_FDNAMES=a:b"),
            ("without a pid", "export LISTEN_FDS=2"),
            ("not a number", "export LISTEN_FDS=x LISTEN_PID=$$"),
        ] {
            let id = scenario.node.id("c");
            let bundle = scenario.node.bundle(&id).arguments(&["/bin/sh", "-c", &script]).make();
            let mut run = scenario.command_after(&format!("{open}; {variables}"));
            run.args(["run", "--bundle", path_str(bundle.dir()), &id]);
            scenario.note(format_args!("run, {name}"), status_and_output(&scenario.node.run(run)));
            let id = scenario.node.id("d");
            let bundle = scenario
                .node
                .bundle(&id)
                .arguments(&["/bin/sh", "-c", &format!("{script}; echo ready; sleep 1000")])
                .make();
            let mut create = scenario.command_after(&format!("{open}; {variables}"));
            create.args(["create", "--bundle", path_str(bundle.dir()), &id]);
            let created = scenario.node.run(create);
            if scenario.call(&["start", &id]).code == Some(0) {
                wait_until("the container", || created.out().contains("ready").then_some(()));
            }
            scenario.note(format_args!("create, {name}"), status_and_output(&created));
            scenario.call(&["delete", "--force", &id]).success();
        }
    });
}

#[test]
fn closed_standard_descriptors_are_transparent() {
    check_transparent("closed stdio", |scenario| {
        for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
            let id = scenario.node.id("c");
            let mark = scenario.node.path("mark");
            std::fs::create_dir_all(&mark).unwrap();
            let bundle = scenario
                .node
                .bundle(&id)
                .arguments(&["/bin/sh", "-c", &format!("({LIST}) >/mark/list; exit 6")])
                .make();
            bundle.edit(|config| {
                config["mounts"].as_array_mut().unwrap().push(serde_json::json!({
                    "destination": "/mark", "type": "bind", "source": path_str(&mark),
                    "options": ["bind", "rw"]
                }));
            });
            let mut run = scenario.command_after(&format!("exec {closed}"));
            run.args(["run", "--bundle", path_str(bundle.dir()), &id]);
            let ended = scenario.node.run(run);
            let list = std::fs::read_to_string(mark.join("list")).unwrap_or_default();
            scenario.node.bare(&["delete", "--force", &id]);
            if scenario.node.runtime().name == "crun" {
                if scenario.way == Way::Bare && ended.signal.is_some() {
                    limitation("closed stdio (crun)", "the bare crun sometimes dies by a signal");
                }
                scenario.note(closed, "called");
            } else {
                scenario.note(closed, format_args!("{} {list}", exit_status(&ended)));
            }
        }
    });
}

//! Tests of `--pid-file`: the content and path of the file, and files that cannot be written.

use super::{ScenarioRun, check_transparent, exit_status, path_str};
use nri_integration::*;
use std::{fs, os::unix::fs::PermissionsExt};

/// Calls `create` or `run` with `--pid-file FILE` in the working directory `dir`.
fn create(
    scenario: &ScenarioRun,
    verb: &[&str],
    id: &str,
    file: &str,
    dir: &std::path::Path,
) -> Ended {
    let bundle = scenario.node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
    let mut command = scenario.command_after(&format!("cd {}", path_str(dir)));
    command.args(verb).args(["--pid-file", file, "--bundle", path_str(bundle.dir()), id]);
    scenario.node.run(command)
}

#[test]
fn pid_files_of_create_run_and_exec_are_transparent() {
    check_transparent("--pid-file", |scenario| {
        let dir = scenario.node.path("dir");
        fs::create_dir(&dir).unwrap();
        for verb in [&["create"][..], &["run", "--detach"]] {
            let id = scenario.node.id("c");
            // crun may resolve a relative path in the bundle, runc in the working directory.
            for (name, dirs) in [
                (path_str(&dir.join("pid")), vec![dir.clone()]),
                ("pid", vec![dir.clone(), scenario.node.path("bundles").join(&id)]),
                ("./pid", vec![dir.clone(), scenario.node.path("bundles").join(&id)]),
            ] {
                create(scenario, verb, &id, name, &dir).success();
                let file =
                    dirs.iter().map(|dir| dir.join("pid")).find(|file| file.exists()).unwrap();
                let read = fs::read_to_string(&file).unwrap();
                assert_eq!(
                    read,
                    scenario.pid(&id).0.to_string(),
                    "the pid file does not contain the process id alone"
                );
                let mode = fs::metadata(&file).unwrap().permissions().mode();
                scenario.note(
                    format_args!("{verb:?} {name}"),
                    format_args!("{} {mode:o}", file.display()),
                );
                scenario.call(&["delete", "--force", &id]).success();
                scenario.note("exists after delete", file.exists());
                let _ = fs::remove_file(&file);
            }
        }
        let id = scenario.start_waiting_container("d");
        let mut exec = scenario.command_after(&format!("cd {}", path_str(&dir)));
        exec.args(["exec", "--detach", "--pid-file", "pid", &id, "/bin/sleep", "1000"]);
        scenario.node.run(exec).success();
        let process = Process(fs::read_to_string(dir.join("pid")).unwrap().parse().unwrap());
        // crun does not wait until the process has executed its program.
        wait_until("the program to be executed", || {
            let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
            line.starts_with(b"/bin/sleep\0").then_some(())
        });
    });
}

#[test]
fn pid_files_that_cannot_be_written_are_transparent() {
    check_transparent("--pid-file that cannot be written", |scenario| {
        let dir = scenario.node.path("");
        for (n, file) in ["/nowhere/pid", "/", ""].into_iter().enumerate() {
            for verb in [&["create"][..], &["run", "--detach"]] {
                let id = scenario.node.id(&format!("{n}{}", verb[0]));
                let created = create(scenario, verb, &id, file, &dir);
                let state = scenario.node.state(&id).map(|state| state["status"].clone());
                scenario.note(
                    format_args!("{verb:?} {file:?}"),
                    format_args!("{} {state:?}", exit_status(&created)),
                );
            }
        }
    });
}

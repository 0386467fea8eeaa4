//! `--pid-file`: its content, its path, and files that cannot be written.

use super::{Stage, alike, how, text};
use nri_integration::*;
use std::{fs, os::unix::fs::PermissionsExt};

fn create(stage: &Stage, verb: &[&str], id: &str, file: &str, dir: &std::path::Path) -> Ended {
    let bundle = stage.node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
    let mut command = stage.after(&format!("cd {}", text(dir)));
    command.args(verb).args(["--pid-file", file, "--bundle", text(bundle.dir()), id]);
    stage.node.run(command)
}

#[test]
fn pid_files_of_create_run_and_exec_are_transparent() {
    alike("--pid-file", |stage| {
        let dir = stage.node.path("dir");
        fs::create_dir(&dir).unwrap();
        for verb in [&["create"][..], &["run", "--detach"]] {
            let id = stage.node.id("c");
            // crun may resolve a relative path in the bundle, runc in the working directory.
            for (name, dirs) in [
                (text(&dir.join("pid")), vec![dir.clone()]),
                ("pid", vec![dir.clone(), stage.node.path("bundles").join(&id)]),
                ("./pid", vec![dir.clone(), stage.node.path("bundles").join(&id)]),
            ] {
                create(stage, verb, &id, name, &dir).success();
                let file =
                    dirs.iter().map(|dir| dir.join("pid")).find(|file| file.exists()).unwrap();
                let read = fs::read_to_string(&file).unwrap();
                assert_eq!(read, stage.pid(&id).0.to_string(), "no line end, as engines parse it");
                let mode = fs::metadata(&file).unwrap().permissions().mode();
                stage.note(
                    format_args!("{verb:?} {name}"),
                    format_args!("{} {mode:o}", file.display()),
                );
                stage.call(&["delete", "--force", &id]).success();
                stage.note("exists after delete", file.exists());
                let _ = fs::remove_file(&file);
            }
        }
        let id = stage.waiting("d");
        let mut exec = stage.after(&format!("cd {}", text(&dir)));
        exec.args(["exec", "--detach", "--pid-file", "pid", &id, "/bin/sleep", "1000"]);
        stage.node.run(exec).success();
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
    alike("--pid-file that cannot be written", |stage| {
        let dir = stage.node.path("");
        for (n, file) in ["/nowhere/pid", "/", ""].into_iter().enumerate() {
            for verb in [&["create"][..], &["run", "--detach"]] {
                let id = stage.node.id(&format!("{n}{}", verb[0]));
                let created = create(stage, verb, &id, file, &dir);
                let state = stage.node.state(&id).map(|state| state["status"].clone());
                stage.note(
                    format_args!("{verb:?} {file:?}"),
                    format_args!("{} {state:?}", how(&created)),
                );
            }
        }
    });
}

//! Findings about the configuration, programs and the state directory.

use crate::{
    fake_nrid::{FakeNrid, healthy},
    site::{Site, copy_program, make_executable, nrictl},
};
use nri_control::Status;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

#[test]
fn an_invalid_configuration_is_one_problem() {
    let site = Site::new("nonsense = 1\n");
    let findings = site.doctor();
    let expected = format!("{}: line 1", site.path("config.toml").display());
    findings.check("configuration-invalid", "problem", &expected);
    let output = site.run(nrictl(), &["doctor"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = stdout.lines().filter(|l| l.contains("nonsense")).collect();
    let [line] = *lines else { panic!("{stdout}") };
    assert!(line.starts_with(&format!("PROBLEM configuration    {expected}")), "{stdout}");
    assert!(line.ends_with("  [configuration-invalid]"), "{stdout}");
}

#[test]
fn values_that_a_start_corrects_are_problems() {
    let site = Site::new("[log]\nlevel = 'loud'\nfile = 'nrid.log'\n");
    let findings = site.doctor();
    for mistake in
        ["line 2, column 9: \"loud\" is not a level", "line 3, column 8: \"nrid.log\" is not an"]
    {
        let text = format!("{}: {mistake}", site.path("config.toml").display());
        findings.check("configuration-mistake", "problem", &text);
    }
    assert_eq!(findings.texts("configuration-mistake").len(), 2);
    findings.check("configuration-read", "ok", "config.toml");
}

#[test]
fn runtimes_and_paths_that_do_not_exist_are_problems() {
    let site = Site::new(
        "disable = true\nblockio.config_file = '/nowhere/b.yaml'\n\
         [runtime.names.nri-other]\npath = '/nowhere/runc'\n\
         [runtime.names.nri-sh]\npath = '/bin/sh'\n",
    );
    let findings = site.doctor();
    findings.check("configuration-disabled", "warning", "disable = true");
    findings.check("path-missing", "problem", "blockio.config_file = \"/nowhere/b.yaml\"");
    findings.check("runtime-not-found", "problem", "/nowhere/runc is not found");
    findings.check("runtime-found", "ok", "/bin/sh");
}

/// An installation says what `doctor` would find after it.
#[test]
fn an_installation_names_the_reload_that_is_due_while_nrid_runs() {
    let site = Site::new("");
    site.write_etc("docker/daemon.json", "{}\n");
    let [wrapper, runtime] = ["nri-container-runtime", "crun"].map(|name| site.path(name));
    for program in [&wrapper, &runtime] {
        fs::write(program, "#!/bin/sh\n").unwrap();
        make_executable(program);
    }
    let before = nri_host::sha256(fs::read_to_string(site.path("config.toml")).unwrap());
    let install = |name: &str, more: &[&str]| {
        let etc = format!("mount --bind '{}' /etc", site.path("etc").display());
        let runtime = format!("{name}={}", runtime.display());
        let wrapper = wrapper.to_str().unwrap();
        let install = ["install", "docker", "--engine-version", "28.5", "--wrapper", wrapper];
        let arguments = [&install[..], &["--runtime", &runtime], more].concat();
        let output = site.run(site.unshared(&etc)?, &arguments);
        assert!(output.status.success(), "{output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let due = "to make nrid read its configuration: nrictl reload\n";
    let Some(text) = install("first", &[]) else { return };
    assert!(!text.contains(due), "no nrid runs: {text}");
    FakeNrid::start(&site, Status { config_digest: Some(before), ..healthy(&site) });
    let text = install("second", &[]).unwrap();
    assert!(text.contains(due), "{text}");
    site.doctor().check("configuration-outdated", "problem", "config.toml differs");
    let json = install("third", &["--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["reload_nrid"], "nrictl reload");
    let read = nri_host::sha256(fs::read_to_string(site.path("config.toml")).unwrap());
    FakeNrid::start(&site, Status { config_digest: Some(read), ..healthy(&site) });
    let text = install("third", &[]).unwrap();
    assert!(!text.contains(due), "nothing has changed: {text}");
}

/// Runs a copy of `nrictl`, since programs of this project are found beside it.
#[test]
fn missing_programs_are_problems() {
    if nri_locate::standard_dirs().any(|dir| dir.join("nrid").exists())
        || Path::new(nri_locate::LIBEXEC_DIR).exists()
    {
        return println!("skipped: the programs are installed here");
    }
    let site = Site::new("");
    let copy = site.path("nrictl");
    if fs::hard_link(env!("CARGO_BIN_EXE_nrictl"), &copy).is_err() {
        copy_program(env!("CARGO_BIN_EXE_nrictl"), &copy);
    }
    let doctor = || {
        let mut command = Command::new(&copy);
        command.env_remove("PATH");
        site.doctor_by(command)
    };
    let findings = doctor();
    findings.check("nrid-not-found", "problem", "no container can be created");
    findings.check("hook-not-found", "problem", "neither beside nrid nor in");
    for name in ["nrid", "nri-oci-hook"] {
        fs::write(site.path(name), "").unwrap();
        make_executable(&site.path(name));
    }
    let findings = doctor();
    findings.check("nrid-unusable", "problem", "nrid, which cannot be executed: Exec format");
    assert!(findings.texts("hook-not-found").is_empty());
    fs::write(site.path("nrid"), "#!/bin/sh\nexit 1\n").unwrap();
    assert!(!site.run(Command::new(&copy), &["start"]).status.success());
    let findings = doctor();
    let silent = "it exited without a message (exit code 1)";
    findings.check("nrid-start-failed", "problem", silent);
    findings.check("nrid-found", "ok", &site.path("nrid").to_string_lossy());
    assert!(findings.texts("hook-not-found").is_empty());
}

#[test]
fn a_bypass_file_is_a_warning_and_a_problem_if_it_is_not_trusted() {
    let site = Site::new("");
    site.write_etc("nri-container-runtime/bypass", "");
    let Some(command) = site.with_etc() else { return };
    site.doctor_by(command).check("bypass-on", "warning", "containers run without NRI");
    let file = site.path("etc/nri-container-runtime/bypass");
    fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    let Some(command) = site.with_etc() else { return };
    let text = site.doctor_by(command).check("bypass-untrusted", "problem", "is not trusted");
    assert!(text.contains("It has no effect"), "{text}");
}

#[test]
fn a_state_directory_that_others_can_change_is_a_problem() {
    let site = Site::new("");
    let dir = site.path("s");
    for mode in [0o777, 0o1777] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        site.doctor().check("state-dir-untrusted", "problem", "no other user can write to");
    }
    fs::remove_dir(&dir).unwrap();
    std::os::unix::fs::symlink("nowhere", &dir).unwrap();
    site.doctor().check("state-dir-untrusted", "problem", "must be a directory");
}

#[test]
fn a_runtime_that_is_not_executable_is_a_problem() {
    let site = Site::new("");
    let runtime = site.path("runtime");
    fs::write(&runtime, "").unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o644)).unwrap();
    site.configure(&format!("[runtime]\npath = {:?}\n", runtime.display().to_string()));
    site.doctor().check("runtime-not-found", "problem", "runtime is not executable");
}

#[test]
fn a_runtime_that_cannot_be_executed_is_a_problem() {
    let site = Site::new("");
    let runtime = site.path("runtime");
    site.configure(&format!("[runtime]\npath = {:?}\n", runtime.display().to_string()));
    fs::create_dir(&runtime).unwrap();
    site.doctor().check("runtime-not-found", "problem", "runtime is a directory");
    fs::remove_dir(&runtime).unwrap();
    let mut foreign = fs::read(env!("CARGO_BIN_EXE_nrictl")).unwrap()[..4096].to_vec();
    // e_machine: a number that no architecture has.
    foreign[18..20].fill(0xfe);
    let cases: [(&[u8], &str); 6] = [
        (b"", "cannot be executed: Exec format error"),
        (b"echo a script without an interpreter\n", "cannot be executed: Exec format error"),
        (b"#!/nowhere/sh\n", "cannot be executed: No such file"),
        (&foreign, "cannot be executed: Exec format error"),
        (b"#!/bin/sh\necho no libx.so >&2; exit 127\n", "exit code 127: no libx.so"),
        (b"#!/bin/sh\nkill -SEGV $$\n", "signal 11 ends at its start"),
    ];
    for (program, expected) in cases {
        fs::write(&runtime, program).unwrap();
        make_executable(&runtime);
        site.doctor().check("runtime-unusable", "problem", expected);
    }
    // A runtime need not know the option.
    fs::write(&runtime, "#!/bin/sh\nexit 1\n").unwrap();
    site.doctor().check("runtime-found", "ok", &runtime.to_string_lossy());
}

#[test]
fn a_program_that_does_not_end_is_a_problem() {
    let site = Site::new("");
    let runtime = site.path("runtime");
    site.configure(&format!("[runtime]\npath = {:?}\n", runtime.display().to_string()));
    fs::write(&runtime, "#!/bin/sh\nsleep 1000\n").unwrap();
    make_executable(&runtime);
    site.doctor().check("runtime-unusable", "problem", "did not end within 5s");
}

#[test]
fn a_full_state_directory_is_a_problem() {
    let site = Site::new("");
    let findings = site.doctor();
    findings.check("state-dir-writable", "ok", &site.path("s").to_string_lossy());
    assert_eq!(fs::read_dir(site.path("s")).unwrap().count(), 0, "the probe left a file");
    let full = format!("mount -t tmpfs -o size=16k,mode=700 none '{}'", site.path("s").display());
    let Some(command) = site.unshared(&full) else { return };
    let findings = site.doctor_by(command);
    let text = findings.check("state-dir-not-writable", "problem", "No space left");
    assert!(text.contains("df -i"), "{text}");
}

//! Containers that try to stop `nrid`: floods of its sockets, which they have mounted, and a
//! process that looks like an `nrid`.

use crate::adjusted::{IMAGE, for_each};
use nri_integration::{engines::*, *};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::{
    fs::{self, File},
    io::IoSlice,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Environment variable for [`flooding_process`]: path of the socket.
const FLOODED: &str = "NRI_TEST_FLOODED";

/// Number of connections that a container keeps open, and of descriptors that it sends with the
/// beginning of a message on each: together more than `nrid` may have open.
const CONNECTIONS: usize = 200;
const DESCRIPTORS: usize = 250;

/// Number of descriptors that connections of tenants may cost `nrid`: those of plugins that have
/// not registered, and some that are being accepted or refused.
const MOST: usize = 100;

/// Number of containers that are created meanwhile.
const CREATIONS: usize = 10;

/// Plugin that gives each container a variable.
const ADJUST: &str = "[create]\nenv = { set = { NRI = 'here' } }\n";

fn connect(path: &Path, file: &File) -> Option<UnixStream> {
    let stream = UnixStream::connect(path).ok()?;
    let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); DESCRIPTORS];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    for byte in 4_u32.to_be_bytes() {
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&stream, &[IoSlice::new(&[byte])], &mut ancillary, flags).ok()?;
    }
    Some(stream)
}

/// What runs in the container: replaces the oldest of its connections for ever. Does nothing in a
/// usual run of the tests.
#[test]
fn flooding_process() {
    let Some(path) = std::env::var_os(FLOODED).map(PathBuf::from) else { return };
    let file = File::open("/dev/null").unwrap();
    let mut streams = std::collections::VecDeque::new();
    loop {
        streams.extend(connect(&path, &file));
        if streams.len() > CONNECTIONS {
            streams.pop_front();
        }
    }
}

/// Starts a container of one CPU with this directory mounted, which floods a socket in it.
fn start_flood(docker: &Docker, name: &str, dir: &Path, socket: &str) {
    let program = std::env::current_exe().unwrap();
    let mount = |from: &Path, to: &str| format!("{}:{to}:ro", from.display());
    let program = mount(&program, "/flood");
    let dir = mount(dir, "/mounted");
    let mut arguments = vec!["--network=none", "--cpus=1", "-v", &program, "-v", &dir];
    // The libraries of the program.
    arguments.extend(["-v", "/usr:/usr:ro", "-v", "/lib:/lib:ro", "-v", "/lib64:/lib64:ro"]);
    let variable = format!("{FLOODED}=/mounted/{socket}");
    arguments.extend(["-e", &variable, "--entrypoint", "/flood", IMAGE]);
    arguments.extend(["--exact", "docker::tenants::flooding_process"]);
    docker.run_detached(name, &arguments);
}

fn descriptors(nrid: Process) -> usize {
    fs::read_dir(format!("/proc/{}/fd", nrid.0)).unwrap().count()
}

/// Runs containers, which the plugin adjusts; returns the longest time of `docker run`.
fn longest_run(docker: &Docker) -> Duration {
    let run = |_| {
        let begin = Instant::now();
        let run = ["run", "--rm", "--network=none", IMAGE, "sh", "-c", "echo $NRI"];
        assert_eq!(docker.out(&run), "here");
        begin.elapsed()
    };
    (0..CREATIONS).map(run).max().unwrap_or_default()
}

/// Creates containers without Docker; returns the longest time of the wrapper and its runtime.
fn longest_creation(docker: &Docker, name: &str) -> Duration {
    let create = |n| {
        let id = docker.id(&format!("{name}{n}"));
        let bundle = docker.bundle(&id).arguments(&["/bin/sleep", "600"]).make();
        let begin = Instant::now();
        docker.create(&bundle, &id).success();
        let duration = begin.elapsed();
        docker.call(&["delete", "--force", &id]).success();
        duration
    };
    (0..CREATIONS).map(create).max().unwrap_or_default()
}

#[test]
fn containers_that_flood_the_sockets_keep_nobody_out() {
    for_each::<Docker>("floods", |suite, _| {
        let docker = Docker::start(suite);
        docker.launch("10-adjust", &Program::Adjust, ADJUST);
        let alone = (longest_creation(&docker, "alone"), longest_run(&docker));
        let nrid = docker.nrid().unwrap();
        let before = descriptors(nrid);
        let state_dir = docker.state_dir();
        // As plugins in containers have it, and as a mistake gives it.
        for (name, dir, socket) in [
            ("plugins", state_dir.join("plugins"), "nri.sock"),
            ("state", state_dir.clone(), "control.sock"),
        ] {
            start_flood(&docker, name, &dir, socket);
            let log = || docker.log();
            let refusal = if name == "state" { "control connection refused" } else { "refused: " };
            wait_until("a refusal", || log().contains(refusal).then_some(()));
            let during = (longest_creation(&docker, name), longest_run(&docker));
            println!(
                "{}: flood of {socket}: longest of {CREATIONS} creations {:?}, {:?} alone; longest \
                 of {CREATIONS} docker run {:?}, {:?} alone",
                suite.name, during.0, alone.0, during.1, alone.1
            );
            // A plugin of the host, such as a service with rules.
            let late = docker.connect(&format!("20-{name}"), &Program::Adjust, "");
            let open = descriptors(nrid);
            assert!(open < before + MOST, "{name}: {before} descriptors became {open}");
            drop(late);
            docker.out(&["rm", "--force", name]);
        }
        assert_eq!(docker.nrid().map(|process| process.0), Some(nrid.0));
        longest_run(&docker);
    });
}

/// A container without capabilities whose process is called `nrid`, and has locked a file whose
/// path reads like that of `nrid`'s lock.
#[test]
fn a_container_that_looks_like_nrid_keeps_none_from_starting_and_is_not_ended() {
    for_each::<Docker>("squatter", |suite, _| {
        let docker = Docker::start(suite);
        docker.launch("10-adjust", &Program::Adjust, ADJUST);
        let lock = docker.state_dir().join("nrid.lock");
        let dir = docker.state_dir();
        let script = format!(
            "printf '#!/bin/sh\\nexec 9>{lock}; flock 9; echo ready; sleep 600; :\\n' >/t/nrid; \
             chmod +x /t/nrid; exec /t/nrid",
            lock = lock.display()
        );
        let tmpfs = format!("--tmpfs={}:mode=777", dir.display());
        let mut arguments = vec!["--network=none", "--user=1000", "--cap-drop=ALL", &tmpfs];
        // Not `/tmp`, which would hide the other one on Docker 20.
        arguments.extend(["--tmpfs=/t:mode=777,exec", IMAGE, "sh", "-c", &script]);
        docker.run_detached("squatter", &arguments);
        let ready = || docker.out(&["logs", "squatter"]).contains("ready").then_some(());
        wait_until("the lock of the container", ready);
        assert_eq!(fs::read_to_string(format!("/proc/{}/comm", pid(&docker))).unwrap(), "nrid\n");
        for restart in [false, true] {
            docker.ctl(&["stop"]).success();
            // As after the start of the machine.
            if lock.exists() {
                fs::remove_file(&lock).unwrap();
            }
            if restart {
                docker.ctl(&["restart"]).success();
            }
            longest_run(&docker);
            let nrid = docker.nrid().expect("nrid runs");
            assert_ne!(nrid.0, pid(&docker));
        }
        assert_eq!(docker.inspect("squatter")["State"]["Running"], true);
    });
}

fn pid(docker: &Docker) -> u32 {
    docker.process_of("squatter").0.0
}

//! Tests of file systems that hang: `nrid` must serve all requests that do not need the file
//! system.

use nri_integration::*;
use rustix::{
    fs::{Mode, OFlags},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::Path,
};

/// Sends a request to `nrid` on a new connection.
fn request(node: &Node, message: &Value) -> UnixStream {
    request_with(node, message, &[])
}

/// Sends a request with descriptors.
fn request_with(node: &Node, message: &Value, fds: &[BorrowedFd<'_>]) -> UnixStream {
    let mut stream = UnixStream::connect(node.state_dir().join("control.sock")).unwrap();
    let payload = json!({"protocol": 1, "version": "", "message": message}).to_string();
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    let sent = sendmsg(&stream, &[IoSlice::new(&length)], &mut ancillary, SendFlags::empty());
    assert_eq!(sent, Ok(length.len()));
    stream.write_all(payload.as_bytes()).unwrap();
    stream
}

/// Waits for the reply to a request.
fn reply(mut stream: UnixStream) -> Value {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut payload = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload).unwrap();
    serde_json::from_slice::<Value>(&payload).unwrap()["message"].clone()
}

/// Returns the number of threads of a process.
fn threads(process: Process) -> usize {
    fs::read_dir(format!("/proc/{}/task", process.0)).unwrap().count()
}

/// A plugin takes longer than wrappers wait for a sign of life, and the plugin directory hangs.
#[test]
fn a_plugin_directory_that_hangs_delays_neither_creations_nor_status() {
    let test = "plugin directory that hangs";
    let Some(go_plugin) = go_plugin(test) else { return };
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        node.configure("start_timeout = '20s'\n");
        let resume = node.path("resume");
        let slow = json!({"id": node.id("slow"), "until": resume});
        let journal = node.launch("10-slow", &go_plugin, &json!({"rules": [slow]}).to_string());
        node.ctl(&["start"]).success();
        let nrid = node.nrid().unwrap();
        // From now on wrappers wait two seconds for a sign of life. nrid keeps the timeout that it
        // has read.
        node.configure("start_timeout = '2s'\n");
        let Some(hanging) = HangingFileSystem::mount(&node.path("plugins")) else {
            return skip(test, "no FUSE");
        };
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| {
                let id = node.id("slow");
                node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id)
            });
            journal.wait_for("CreateContainer", &node.id("slow"));
            let before = threads(nrid);
            // Many times the number of threads that nrid uses for one file system.
            let requests: Vec<_> = (0..600).map(|_| request(&node, &json!("status"))).collect();
            for stream in requests {
                let status = reply(stream);
                let error = status["status"]["plugin_dir_error"].as_str().unwrap_or_default();
                assert!(error.contains("hangs"), "{status}");
            }
            // The increase is the threads that the file system blocks, at most 8, and threads that
            // tokio has started for other tasks and keeps for some seconds. A thread for each
            // request would be 600.
            let after = threads(nrid);
            assert!(after < before + 30, "{before} threads became {after}");
            let status = node.ctl(&["status"]).out();
            assert!(status.contains("the file system hangs"), "{status}");
            assert_eq!(reply(request(&node, &json!("ping"))), "done");
            let restart = node.ctl(&["restart"]).err();
            assert!(restart.contains("a file system hangs"), "{restart}");
            assert!(restart.contains("the plugin directory"), "{restart}");
            fs::write(&resume, "").unwrap();
            slow.join().unwrap().success();
        });
        let id = node.id("next");
        node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id).success();
        drop(hanging);
    });
}

/// A status and a reload access the plugin directory after it has begun to hang.
#[test]
fn a_plugin_directory_that_hangs_delays_no_reload_and_nothing_after_it() {
    let test = "reload of a plugin directory that hangs";
    let Some(go_plugin) = go_plugin(test) else { return };
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go_plugin, "{}");
        check_life(&node, &journal, "before");
        let Some(hanging) = HangingFileSystem::mount(&node.path("plugins")) else {
            return skip(test, "no FUSE");
        };
        let status = node.ctl(&["status"]).out();
        assert!(status.contains("the file system hangs"), "{status}");
        let reloads: Vec<_> = (0..2).map(|_| request(&node, &json!("reload"))).collect();
        for reload in reloads {
            let reloaded = reply(reload);
            let plugins = reloaded["reloaded"]["plugins"].to_string();
            assert!(plugins.contains("the file system hangs"), "{reloaded}");
        }
        check_life(&node, &journal, "meanwhile");
        assert_eq!(reply(request(&node, &json!("ping"))), "done");
        drop(hanging);
        check_life(&node, &journal, "after");
    });
}

/// A reload names a socket for metrics and a file of classes whose file system hangs.
#[test]
fn configured_paths_that_hang_delay_neither_reloads_nor_status_nor_other_creations() {
    let test = "configured paths that hang";
    let Some(go_plugin) = go_plugin(test) else { return };
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        let class = json!({"linux": {"resources": {"blockioClass": {"value": "gold"}}}});
        let ids = [1, 2, 3, 4].map(|n| node.id(&format!("class{n}")));
        let rules = ids.each_ref().map(|id| json!({"id": id, "adjust": class}));
        let journal = node.launch("10-go", &go_plugin, &json!({"rules": rules}).to_string());
        check_life(&node, &journal, "before");
        fs::create_dir(node.path("hangs")).unwrap();
        let Some(hanging) = HangingFileSystem::mount(&node.path("hangs")) else {
            return skip(test, "no FUSE");
        };
        let dir = node.path("hangs");
        let socket = format!("unix:{}/metrics.sock", dir.display());
        let classes = dir.join("classes.yaml");
        node.configure(&format!("metrics.listen = {socket:?}\nblockio.config_file = {classes:?}"));
        let reloaded = reply(request(&node, &json!("reload")))["reloaded"].to_string();
        assert!(reloaded.contains("paths that the configuration names"), "{reloaded}");
        // More than nrid has threads for requests.
        let statuses: Vec<_> = (0..8).map(|_| request(&node, &json!("status"))).collect();
        for status in statuses {
            let problems = reply(status)["status"]["problems"].to_string();
            assert!(problems.contains("metrics cannot be served"), "{problems}");
        }
        std::thread::scope(|scope| {
            let create = |id| {
                let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
                node.create(&bundle, id).refusal()
            };
            let refused = ids.each_ref().map(|id| scope.spawn(move || create(id)));
            check_life(&node, &journal, "meanwhile");
            for refusal in refused {
                let line = refusal.join().unwrap();
                assert!(line.contains("gold") && line.contains("hangs"), "{line}");
            }
        });
        drop(hanging);
        check_life(&node, &journal, "after");
    });
}

/// Creates, starts and deletes a container, and waits until a plugin is notified of the removal.
fn check_life(node: &Node, journal: &Journal, name: &str) {
    let id = node.id(name);
    let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
    node.create(&bundle, &id).success();
    node.call(&["start", &id]).success();
    node.call(&["delete", "--force", &id]).success();
    journal.wait_for("RemoveContainer", &id);
}

/// Number of concurrent creations: many times the 8 threads that `nrid` uses for one file system.
const CREATIONS: usize = 200;

/// The bundles of many creations, more than `nrid` has threads, are on a file system that begins to
/// hang after the wrappers have opened the bundles.
#[test]
fn bundles_that_hang_are_refused_and_delay_no_other_container() {
    let test = "bundles that hang";
    let Some(go_plugin) = go_plugin(test) else { return };
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-go", &go_plugin, "{}");
        check_life(&node, &journal, "before");
        let nrid = node.nrid().unwrap();
        fs::create_dir(node.path("hangs")).unwrap();
        let Some(hanging) = HangingFileSystem::mount(&node.path("hangs")) else {
            return skip(test, "no FUSE");
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let dir = rustix::fs::open(hanging.path(), flags, Mode::empty()).unwrap();
        let id = |n: usize| node.id(&format!("hangs{n}"));
        let begin = |n: usize| {
            let begin = json!({"begin": {
                "verb": "create", "id": id(n), "runtime": path(&node.runtime().path),
                "root": path(&node.root()), "globals": [], "arguments": [],
                "bundle": path(&node.path("hangs")), "cwd": "/", "environment": [],
                "flag": false}});
            request_with(&node, &begin, &[dir.as_fd()])
        };
        let before = threads(nrid);
        let creations: Vec<_> = (0..CREATIONS).map(begin).collect();
        check_life(&node, &journal, "meanwhile");
        assert_eq!(reply(request(&node, &json!("ping"))), "done");
        assert_eq!(reply(request(&node, &json!("status")))["status"]["containers"], 0);
        for (n, creation) in creations.into_iter().enumerate() {
            let refused = reply(creation);
            let message = refused["refused"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(&id(n)) && message.contains("hangs"), "{refused}");
        }
        // A thread for each creation would be at least CREATIONS.
        let after = threads(nrid);
        assert!(after < CREATIONS / 2, "{before} threads became {after}");
        drop(hanging);
        wait_until("the end of threads", || (threads(nrid) <= before).then_some(()));
        assert_eq!(node.records("containers"), Vec::<std::path::PathBuf>::new());
        check_life(&node, &journal, "after");
        assert_eq!(node.nrid().map(|process| process.0), Some(nrid.0));
    });
}

/// A file system that takes no writes: `nrid` only reads the bundle.
#[test]
fn a_bundle_that_cannot_be_written_is_no_obstacle() {
    let test = "bundle that freezes";
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        let id = node.id("frozen");
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let original = bundle.bytes();
        let mounted = FreezableFileSystem::mount(&node.path("image"), bundle.dir());
        let Some(file_system) = mounted else { return skip(test, "no ext4 in a file") };
        fs::write(file_system.path().join("config.json"), &original).unwrap();
        file_system.freeze();
        node.create(&bundle, &id).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "77");
        node.call(&["delete", "--force", &id]).success();
        file_system.thaw();
        assert_eq!(bundle.bytes(), original);
    });
}

/// The directory of the configuration begins to hang: before any `nrid` runs, and while one does.
#[test]
fn a_configuration_that_hangs_delays_no_call_for_long() {
    let test = "configuration that hangs";
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let (dir, file) = (node.path("etc"), node.config());
        fs::create_dir(&dir).unwrap();
        fs::rename(&file, dir.join("config.toml")).unwrap();
        std::os::unix::fs::symlink(dir.join("config.toml"), &file).unwrap();
        let state_dir = node.state_dir();
        let ctl = |command| node.ctl(&["--state-dir", state_dir.to_str().unwrap(), command]);
        let [before, id, next] = ["before", "c", "next"].map(|name| node.id(name));
        let create =
            |id: &str| node.create(&node.bundle(id).arguments(&["/bin/sleep", "1000"]).make(), id);
        let Some(hanging) = HangingFileSystem::mount(&dir) else { return skip(test, "no FUSE") };
        let hangs = format!("configuration {}: its file system hangs", file.display());
        let refusal = create(&before).refusal();
        assert!(refusal.contains(&hangs), "{refusal}");
        assert_eq!(node.call(&["state", &before]).code, node.bare(&["state", &before]).code);
        assert_eq!(node.call(&["delete", "--force", &before]).code, Some(0));
        let status = ctl("status").err();
        assert!(status.contains(&hangs), "{status}");
        let started = ctl("start").err();
        assert!(started.contains(&hangs), "{started}");
        drop(hanging);

        create(&id).success();
        let nrid = node.nrid().unwrap();
        let hanging = HangingFileSystem::mount(&dir).unwrap();
        let reloaded = ctl("reload").err();
        assert!(reloaded.contains("hangs"), "{reloaded}");
        let start = std::time::Instant::now();
        node.call(&["start", &id]).success();
        node.call(&["state", &id]).success();
        // What was published is followed, and the file is not accessed.
        let passed = start.elapsed();
        assert!(passed < std::time::Duration::from_secs(2), "{passed:?}");
        // The next nrid uses the configuration that the last one has kept.
        nrid.signal(rustix::process::Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
        create(&next).success();
        let status = ctl("status");
        let status = status.out() + &status.err();
        assert!(status.contains("the last configuration that nrid could use"), "{status}");
        node.call(&["delete", "--force", &id]).success();
        drop(hanging);
    });
}

//! FUSE file system that hangs: no process answers its requests.

use crate::enter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// A FUSE file system with a server that reads each request and never answers, so that not even
/// SIGKILL ends a process that waits for it. Dropping it ends these waits.
#[derive(Debug)]
pub struct Hanging {
    at: PathBuf,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Hanging {
    /// Mounts the file system on a directory; `None` if FUSE is not available.
    ///
    /// # Panics
    /// The kernel does not initialize the mounted file system.
    pub fn mount(at: &Path) -> Option<Self> {
        let mut device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        // Mount in the namespace of the programs under test; stdin passes the descriptor.
        let mut mount = enter::command("mount");
        mount
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0", "hanging"])
            .arg(at);
        mount.stdin(device.try_clone().ok()?).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            return None;
        }
        drop(mount);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        answer_init(&mut device);
        let server = std::thread::spawn(move || {
            let mut request = vec![0; 1 << 20];
            let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            while !stopped.load(Ordering::Relaxed) {
                let ready = poll(&mut [PollFd::new(&device, PollFlags::IN)], Some(&tick));
                if ready.is_ok_and(|n| n > 0) && device.read(&mut request).is_err() {
                    break;
                }
            }
        });
        Some(Self { at: at.to_owned(), stop, server: Some(server) })
    }
}

/// Answers the first request, FUSE_INIT, with the smallest reply that kernels accept.
fn answer_init(device: &mut File) {
    let mut request = vec![0; 1 << 20];
    let length = device.read(&mut request).expect("the kernel sends FUSE_INIT");
    assert!(length >= 16, "a header");
    let mut answer = Vec::new();
    let body: [u32; 16] = std::array::from_fn(|i| match i {
        0 => 7,
        1 => 31,
        5 => 4096, // max_write
        _ => 0,
    });
    let bytes: Vec<u8> = body.iter().flat_map(|n| n.to_ne_bytes()).collect();
    answer.extend(u32::try_from(16 + bytes.len()).expect("short").to_ne_bytes());
    answer.extend(0_i32.to_ne_bytes());
    answer.extend(&request[8..16]); // the request's unique id
    answer.extend(bytes);
    device.write_all(&answer).expect("the kernel reads the reply");
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = enter::command("umount").arg("-l").arg(&self.at).status();
        self.stop.store(true, Ordering::Relaxed);
        // Closing the server's descriptor aborts the connection, which ends every wait.
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

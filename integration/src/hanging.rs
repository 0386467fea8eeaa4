//! File systems that hang: a FUSE file system whose server never replies, and an ext4 file system
//! that is frozen.

use crate::{enter, find_program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// A FUSE file system with a server that reads each request and never replies, so that not even
/// SIGKILL ends a process that accesses the file system. Dropping this value fails all pending
/// accesses.
#[derive(Debug)]
pub struct HangingFileSystem {
    mount_point: PathBuf,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl HangingFileSystem {
    /// Mounts the file system on a directory; `None` if FUSE is not available.
    ///
    /// # Panics
    /// The kernel does not initialize the mounted file system.
    pub fn mount(mount_point: &Path) -> Option<Self> {
        let mut device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        // Mount in the namespace of the programs under test; stdin passes the descriptor.
        let mut mount = enter::command("mount");
        mount
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0", "hanging"])
            .arg(mount_point);
        mount.stdin(device.try_clone().ok()?).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            return None;
        }
        drop(mount);
        let stop = Arc::new(AtomicBool::new(false));
        let should_stop = stop.clone();
        reply_to_init(&mut device);
        let server = std::thread::spawn(move || {
            // Large enough for each request: the kernel fails a read into a smaller buffer.
            let mut request = vec![0; 1 << 20];
            let poll_timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            while !should_stop.load(Ordering::Relaxed) {
                let ready = poll(&mut [PollFd::new(&device, PollFlags::IN)], Some(&poll_timeout));
                if ready.is_ok_and(|n| n > 0) && device.read(&mut request).is_err() {
                    break;
                }
            }
        });
        Some(Self { mount_point: mount_point.to_owned(), stop, server: Some(server) })
    }

    /// Path of the mounted directory for this process.
    pub fn path(&self) -> PathBuf {
        visible(&self.mount_point)
    }
}

/// An ext4 file system in a file. While it is frozen, reads return but changes wait, and not even
/// SIGKILL ends a process that waits. Dropping this value thaws and unmounts the file system.
#[derive(Debug)]
pub struct FreezableFileSystem {
    mount_point: PathBuf,
}

impl FreezableFileSystem {
    /// Makes the file system in a new file `image`, and mounts it on a directory; `None` if this
    /// machine has no tools or loop devices for it.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn mount(image: &Path, mount_point: &Path) -> Option<Self> {
        find_program("fsfreeze")?;
        let file = File::create(image).expect("the test directory is writable");
        file.set_len(16 << 20).expect("the test directory has space");
        let succeeds = |mut command: Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let mut make = Command::new(find_program("mkfs.ext4")?);
        make.arg("-q").arg(image);
        let mut mount = enter::command("mount");
        mount.args(["-o", "loop"]).arg(image).arg(mount_point);
        let is_mounted = succeeds(make) && succeeds(mount);
        is_mounted.then(|| Self { mount_point: mount_point.to_owned() })
    }

    /// Path of the mounted directory for this process.
    pub fn path(&self) -> PathBuf {
        visible(&self.mount_point)
    }

    /// Makes changes wait until [`Self::thaw`].
    ///
    /// # Panics
    /// `fsfreeze` fails.
    pub fn freeze(&self) {
        self.call("--freeze");
    }

    /// Lets changes proceed.
    ///
    /// # Panics
    /// `fsfreeze` fails.
    pub fn thaw(&self) {
        self.call("--unfreeze");
    }

    fn call(&self, argument: &str) {
        let status = enter::command("fsfreeze").arg(argument).arg(&self.mount_point).status();
        assert!(status.is_ok_and(|status| status.success()), "fsfreeze {argument} failed");
    }
}

impl Drop for FreezableFileSystem {
    fn drop(&mut self) {
        let mut thaw = enter::command("fsfreeze");
        let _ = thaw.arg("--unfreeze").arg(&self.mount_point).stderr(Stdio::null()).status();
        let _ = enter::command("umount").arg("-l").arg(&self.mount_point).status();
    }
}

/// Replies to the first request, FUSE_INIT, with the values that kernels require.
fn reply_to_init(device: &mut File) {
    let mut request = vec![0; 1 << 20];
    let length = device.read(&mut request).expect("the kernel sends FUSE_INIT");
    assert!(length >= 16, "FUSE_INIT has {length} bytes, less than the id of a request needs");
    let mut reply = Vec::new();
    let body: [u32; 16] = std::array::from_fn(|i| match i {
        0 => 7,    // major version
        1 => 31,   // minor version
        5 => 4096, // max_write
        _ => 0,
    });
    let bytes: Vec<u8> = body.iter().flat_map(|n| n.to_ne_bytes()).collect();
    reply.extend(u32::try_from(16 + bytes.len()).expect("80 fits into u32").to_ne_bytes());
    reply.extend(0_i32.to_ne_bytes());
    reply.extend(&request[8..16]); // the request's unique id
    reply.extend(bytes);
    device.write_all(&reply).expect("the kernel reads the reply");
}

/// Path of a mount point for this process, which may be outside of the namespace.
fn visible(mount_point: &Path) -> PathBuf {
    enter::root().join(mount_point.strip_prefix("/").unwrap_or(mount_point))
}

impl Drop for HangingFileSystem {
    fn drop(&mut self) {
        let _ = enter::command("umount").arg("-l").arg(&self.mount_point).status();
        self.stop.store(true, Ordering::Relaxed);
        // Closing the server's descriptor aborts the connection, which ends every wait.
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

//! Files of `/proc`. Names in them may be any bytes: a user's mount point or somebody's control
//! group is not to make the whole file unreadable.

use std::{fs, path::Path};

/// The file's text, with a replacement character for each byte that is none; empty where it cannot
/// be read.
pub fn text(file: impl AsRef<Path>) -> String {
    fs::read(file)
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_spoils_its_own_line_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mountinfo");
        let lines: [&[u8]; 3] = [
            b"24 1 0:22 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
            b"25 1 0:23 / /home/\xff\xfe rw - fuse.x x rw\n",
            b"26 1 0:24 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
        ];
        fs::write(&file, lines.concat()).unwrap();
        let found = nri_cgroup::hierarchies(&text(&file));
        let paths: Vec<_> = found.iter().map(|h| h.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu"]);
        assert_eq!(text(dir.path().join("none")), "");
    }
}

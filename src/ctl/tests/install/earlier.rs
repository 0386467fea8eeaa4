//! Installations that an earlier version of nrictl (commit 2d5c9c78) made; `earlier/` has their
//! files and records. `uninstall` restores all values, also around later edits, and `install`
//! continues with the earlier record.
//!
//! A file in `earlier/` has sections: the command, each file before the command, and each file and
//! link after the command.

use crate::image::{Image, RECORD, Snapshot, values};
use std::{fs, os::unix::fs::symlink, path::Path};

/// An installation by the earlier nrictl.
struct Earlier {
    /// Name for assertion messages.
    name: String,
    /// The command that made the installation.
    command: String,
    engine: String,
    before: Vec<(String, String)>,
    installed: Vec<(String, String)>,
    links: Vec<(String, String)>,
}

/// Reads all installations.
fn all() -> Vec<Earlier> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/install/earlier");
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    // The folder has 11 files. A lower number means that some are missing.
    assert!(paths.len() > 10, "missing installations: {paths:?}");
    paths.iter().map(|path| parse(path)).collect()
}

fn parse(path: &Path) -> Earlier {
    let text = fs::read_to_string(path).unwrap();
    let (mut before, mut installed, mut links) = (Vec::new(), Vec::new(), Vec::new());
    let mut command = String::new();
    for section in text.strip_prefix("==> ").unwrap().split("\n==> ") {
        let (head, body) = section.split_once('\n').unwrap();
        let body = format!("{}\n", body.trim_end_matches('\n'));
        let body = body.strip_suffix("\n<no newline>\n").unwrap_or(&body).to_owned();
        match head.split_once(' ') {
            None => command = body.trim().to_owned(),
            Some(("before", file)) => before.push((file.to_owned(), body)),
            Some(("installed", file)) => installed.push((file.to_owned(), body)),
            Some((_, link)) => links.push((link.to_owned(), body.trim().to_owned())),
        }
    }
    let engine = command.split(' ').nth(1).unwrap().to_owned();
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    Earlier { name, command, engine, before, installed, links }
}

impl Earlier {
    fn image(&self, files: &[&[(String, String)]]) -> Image {
        let image = Image::new();
        for (file, text) in files.iter().copied().flatten() {
            image.write(file, text.as_bytes());
        }
        image
    }

    /// Returns an image as it was before the installation.
    fn before(&self) -> Image {
        self.image(&[&self.before])
    }

    /// Returns an image as it was after the installation.
    fn installed(&self) -> Image {
        let image = self.image(&[&self.before, &self.installed]);
        for (link, target) in &self.links {
            symlink(target, image.at(link)).unwrap();
        }
        image
    }
}

/// Returns the files of an image and their contents.
fn contents(image: &Image) -> Snapshot {
    let mut snapshot = image.snapshot();
    // Directories are left out: this test created them, not the earlier `install`.
    snapshot.retain(|_, (_, _, contents)| !contents.is_empty());
    values(snapshot)
}

#[test]
fn an_earlier_installation_is_uninstalled() {
    for earlier in all() {
        let image = earlier.installed();
        image.run_ok(&format!("uninstall {}", earlier.engine));
        assert_eq!(contents(&image), contents(&earlier.before()), "{}", earlier.name);
        assert!(!image.exists(RECORD));
    }
}

/// An administrator has changed a number (999) in a file that existed before the installation.
#[test]
fn edits_in_files_of_an_earlier_installation_stay() {
    let mut edited = 0;
    for earlier in all() {
        let Some((file, _)) = earlier.before.iter().find(|(_, text)| text.contains("999")) else {
            continue;
        };
        edited += 1;
        let (image, before) = (earlier.installed(), earlier.before());
        for image in [&image, &before] {
            image.edit(file, "999", "998");
        }
        image.run_ok(&format!("uninstall {}", earlier.engine));
        assert_eq!(contents(&image), contents(&before), "{}", earlier.name);
    }
    // Nine installations had the number when this test was written.
    assert!(edited > 7, "only {edited} installations have a file to edit");
}

/// The same command changes nothing; another command adds to the installation.
#[test]
fn install_adds_to_an_earlier_installation() {
    for earlier in all() {
        let image = earlier.installed();
        let output = image.run_ok(&earlier.command);
        assert!(output.contains("nothing to do"), "{}: {output}", earlier.name);
        image.run_ok(&format!("{} --runtime more=/usr/bin/crun", earlier.command));
        image.run_ok(&format!("uninstall {}", earlier.engine));
        assert_eq!(contents(&image), contents(&earlier.before()), "{}", earlier.name);
    }
}

#[test]
fn an_earlier_installation_without_its_record_is_recognized() {
    for earlier in all() {
        let image = earlier.installed();
        fs::remove_file(image.at(RECORD)).unwrap();
        image.run_ok(&format!("uninstall {}", earlier.engine));
        for (file, (.., contents)) in contents(&image) {
            let is_ours = file.starts_with("etc/nri-container-runtime");
            assert!(is_ours || !contents.contains("bin/nri-"), "{}: {contents}", earlier.name);
        }
    }
}

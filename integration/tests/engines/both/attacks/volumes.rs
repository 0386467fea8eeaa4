//! Directories of the host by volumes, by those of other containers, and by options of mounts; and
//! what engines do to a directory before they call a runtime.

use super::*;

test_both! {
    no_volume_leads_to_directories_of_the_host,
    a_volume_of_an_image_is_empty_or_of_the_image,
    what_engines_do_before_a_refusal_is_not_undone,
}

fn no_volume_leads_to_directories_of_the_host<E: Engine>() {
    with_edited_recipe::<E>("host-mounts", with_directories, |engine, name| {
        let shared = engine.path("shared");
        fs::create_dir(&shared).unwrap();
        let shared = shared.display().to_string();
        // The name of the source is any text for the last ones.
        for (volume, kind, options, device) in [
            ("etc", "none", "bind", "/etc"),
            ("root", "none", "rbind", "/"),
            ("process", "none", "rbind,ro", "/proc/self/root/etc"),
            ("layers", "overlay", "lowerdir=/etc:/usr", "overlay"),
            ("proc", "proc", "", "proc"),
            ("named", "proc", "", &*shared),
            ("server", "proc", "", "server:/export"),
            ("sys", "sysfs", "", "sysfs"),
            ("devices", "devtmpfs", "", "devtmpfs"),
        ] {
            let mut create = vec!["volume", "create"];
            let options = [("type", kind), ("o", options), ("device", device)];
            let options = options.map(|(key, value)| format!("--opt={key}={value}"));
            create.extend(options.iter().filter(|o| *o != "--opt=o=").map(String::as_str));
            create.push(volume);
            engine.out(&create);
        }
        for (container, volume) in [("path", "/etc:/x"), ("volume", "etc:/x"), ("proc", "proc:/x")]
        {
            let container = format!("from-{container}");
            let options = ["--network=none", "--name", &container, "--volume", volume, IMAGE];
            engine.call_client(&[&["create"], &options[..]].concat()).success();
        }
        let bind = |options: &str| format!("--mount=type=bind,src=/etc,dst=/x,{options}");
        let above = format!("--volume={shared}/../../../../../etc:/x");
        let mut ways = vec![
            way("to read", &["--volume=/etc:/x:ro"]),
            way("all to read", &["--volume=/:/host:ro"]),
            way("over the container's own", &["--volume=/etc:/etc:ro"]),
            way("a mount to read", &[&bind("readonly")]),
            way("without mounts below", &[&bind("bind-nonrecursive")]),
            way("a way up from what is allowed", &[&above]),
            way("memory of the host", &["--volume=/dev/shm:/x"]),
            way("a volume", &["--volume=etc:/x"]),
            way("a volume to read", &["--volume=etc:/x:ro"]),
            way("a volume, as a mount", &["--mount=type=volume,src=etc,dst=/x"]),
            way("a volume that is a link", &["--volume=process:/x"]),
            way("a volume of layers", &["--volume=layers:/x"]),
            way("a volume of all", &["--volume=root:/x"]),
            way("files of the kernel", &["--volume=proc:/x"]),
            way("files of the kernel to read", &["--volume=proc:/x:ro"]),
            way("files of the kernel of an allowed name", &["--volume=named:/x"]),
            way("files of the kernel as of a server", &["--volume=server:/x"]),
            way("kernel objects", &["--volume=sys:/x"]),
            way("devices", &["--volume=devices:/x"]),
            way("mounts of another container", &["--volumes-from=from-path"]),
            way("mounts of another container to read", &["--volumes-from=from-path:ro"]),
            way("volumes of another container", &["--volumes-from=from-volume"]),
            way("files of the kernel of another", &["--volumes-from=from-proc"]),
        ];
        if E::NAME == "docker" {
            ways.push(way("not recursive", &[&bind("bind-recursive=disabled")]));
            ways.push(way("recursive", &[&bind("bind-recursive=writable,readonly")]));
            let part = "--mount=type=volume,src=root,dst=/x,volume-subpath=etc";
            ways.push(way("part of a volume", &[part]));
        } else {
            ways.push(way("shared mounts", &["--volume=/etc:/x:rshared"]));
            ways.push(way("mounts of the host", &[&bind("bind-propagation=rslave")]));
            let part = "--mount=type=volume,src=root,dst=/x,subpath=/etc";
            ways.push(way("part of a volume", &[part]));
            ways.push(way("by a pattern", &["--mount=type=glob,src=/etc/pass*,dst=/x"]));
            ways.push(way("with other owners", &[&bind("idmap")]));
        }
        check_ways(engine, name, "50-rules", &ways);
        // Ordinary volumes and mounts.
        engine.out(&["volume", "create", "--opt=type=tmpfs", "--opt=device=tmpfs", "memory"]);
        for option in [
            "--volume=/x",
            "--volume=own:/x:ro",
            "--volume=memory:/x",
            "--tmpfs=/x:exec,size=1m",
            "--mount=type=tmpfs,dst=/x,tmpfs-size=1m",
        ] {
            engine.run_with("nri", &[option, IMAGE, "true"]).success();
        }
        if E::NAME == "podman" {
            a_directory_is_no_root_file_system(engine, name);
        }
    });
}

/// Podman takes any directory for the root file system of a container.
fn a_directory_is_no_root_file_system<E: Engine>(engine: &E, name: &str) {
    let mut tried = Tried::new(name, "host-mounts");
    let root = engine.path("tree");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy(find_program("busybox").unwrap(), root.join("bin/true")).unwrap();
    let root = root.display().to_string();
    for (what, root) in [("a directory", root.clone()), ("an overlay of it", format!("{root}:O"))] {
        tried.refused(engine, what, "50-rules", |runtime| {
            engine.run_with(runtime, &["--rootfs", &root, "/bin/true"])
        });
    }
    tried.report();
}

fn a_volume_of_an_image_is_empty_or_of_the_image<E: Engine>() {
    with_edited_recipe::<E>("host-mounts", with_directories, |engine, name| {
        let mut tried = Tried::new(name, "host-mounts");
        assert!(Path::new("/etc/os-release").exists(), "a file of the host alone");
        engine.call_client(&["create", "--name=base", "--network=none", IMAGE, "true"]).success();
        for (n, dir) in ["/etc", "/proc/self/root/etc", "/x/../etc"].into_iter().enumerate() {
            let image = format!("localhost/changed:{n}");
            let change = format!("--change=VOLUME {dir}");
            engine.out(&["commit", &change, "base", &image]);
            let script = ["sh", "-c", "test ! -e /etc/os-release && echo own"];
            let ended = engine.run_with("nri", &[&[&*image], &script[..]].concat());
            // A runtime may refuse the path; the files are never those of the host.
            let is_own = ended.out() == "own\n" || (n > 0 && ended.code != Some(0));
            tried.held(&format!("VOLUME {dir}"), is_own, &said(&ended));
        }
        tried.report();
    });
}

fn what_engines_do_before_a_refusal_is_not_undone<E: Engine>() {
    use std::os::unix::fs::MetadataExt;
    with_edited_recipe::<E>("host-mounts", with_directories, |engine, name| {
        let mut tried = Tried::new(name, "host-mounts");
        let words = "make missing directories (Docker), change owner and label of a source";
        let dir = engine.path("elsewhere");
        let source = |more: &str| format!("--volume={}:/x{more}", dir.display());
        if E::NAME == "docker" {
            let ended = engine.run_with("nri", &[&source(""), IMAGE, "true"]);
            assert!(said(&ended).contains("50-rules"), "{}", said(&ended));
            tried.open("a directory that was missing", dir.is_dir(), words);
        } else {
            fs::create_dir(&dir).unwrap();
            let options = ["--user=7", &source(":U"), IMAGE, "true"];
            let ended = engine.run_with("nri", &options);
            assert!(said(&ended).contains("50-rules"), "{}", said(&ended));
            tried.open("another owner", fs::metadata(&dir).unwrap().uid() == 7, words);
        }
        tried.report();
    });
}

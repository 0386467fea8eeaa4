//! Rights by a checkpoint that Podman imports. Its `config.json` is asked about as that of any
//! creation; the processes in it are the user's own.

use super::*;

const COMMAND: [&str; 4] = [IMAGE, "sh", "-c", "while :; do sleep 0.1; done"];

#[test]
fn a_checkpoint_is_asked_about_by_what_it_says_of_itself() {
    let harmless = |_: &Podman, _: String| HARMLESS.to_owned();
    with_edited_recipe::<Podman>("privileged", harmless, |podman, name| {
        if !podman.suite().program("criu").exists() {
            return limitation(name, "the suite has no criu that knows this kernel");
        }
        let mut tried = Tried::new(name, "privileged");
        let file = |name: &str| podman.path(name).display().to_string();
        for (container, option) in [("more", "--cap-add=SYS_ADMIN"), ("plain", "--init=false")] {
            let options = [&["--network=none", option], &COMMAND[..]].concat();
            podman.run_detached(container, &options);
            let archive = file(&format!("{container}.tar"));
            let checkpoint = ["container", "checkpoint", "--export", &archive, container];
            let ended = podman.call_client(&checkpoint);
            if ended.code != Some(0) {
                return limitation(name, &format!("criu does not work here: {}", ended.err()));
            }
            podman.out(&["rm", "--force", container]);
        }
        let restore = |archive: &str, container: &str| {
            let import = ["container", "restore", "--import", archive, "--name", container];
            podman.call_client(&import)
        };
        restore(&file("more.tar"), "before").success();
        podman.out(&["rm", "--force", "--time=0", "before"]);
        replace_rules(podman, &recipe("privileged"));
        restore(&file("plain.tar"), "allowed").success();
        let ended = restore(&file("more.tar"), "under-another-name");
        let is_refused = ended.code != Some(0) && said(&ended).contains("50-rules");
        tried.held("an import with more rights", is_refused, &said(&ended));

        // The processes of the one with the configuration of the other.
        let script = "mkdir $D/more $D/plain && tar -C $D/more -xf $D/more.tar &&
            tar -C $D/plain -xf $D/plain.tar && rm -r $D/plain/checkpoint &&
            mv $D/more/checkpoint $D/plain/ && cd $D/plain && tar -cf $D/mixed.tar *";
        let dir = file("");
        let mut command = std::process::Command::new("sh");
        command.env("D", dir.trim_end_matches('/')).args(["-c", script]);
        podman.run(command).success();
        let ended = restore(&file("mixed.tar"), "mixed");
        let is_granted = ended.code == Some(0) && {
            let status = podman.out(&["exec", "mixed", "grep", "CapEff", "/proc/1/status"]);
            let set = status.split_whitespace().last().unwrap_or_default();
            u64::from_str_radix(set, 16).unwrap() & 1 << 21 != 0
        };
        let words = "whoever may restore checkpoints gives the processes in them any rights";
        tried.open("the processes of another checkpoint", is_granted, words);
        podman.out(&["rm", "--force", "--time=0", "--all"]);
        tried.report();
    });
}

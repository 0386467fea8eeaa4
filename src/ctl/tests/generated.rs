//! What `nrictl` generates from the definitions of its command line: completion scripts and man
//! pages.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

fn nrictl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nrictl")).args(arguments).output().unwrap()
}

/// Returns the output of a successful command.
fn text(arguments: &[&str]) -> String {
    let output = nrictl(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the subcommands in `nrictl -h`.
fn subcommands() -> Vec<String> {
    let help = text(&["-h"]);
    let commands = help.split("\n\n").find_map(|part| part.strip_prefix("Commands:\n")).unwrap();
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    commands.lines().filter_map(name).filter(|name| name != "help").collect()
}

#[test]
fn completion_scripts_have_all_subcommands() {
    let subcommands = subcommands();
    assert!(subcommands.iter().any(|name| name == "verify"), "{subcommands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&["completions", shell]);
        for name in &subcommands {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    assert_eq!(nrictl(&["completions", "tcsh"]).status.code(), Some(2));
}

/// Runs the script in bash, and completes the word `verif`.
#[test]
fn the_completion_script_works_in_bash() {
    let mut script = text(&["completions", "bash"]);
    script.push_str(
        "\nCOMP_WORDS=(nrictl verif) COMP_CWORD=1 COMPREPLY=()\n\
         _nrictl nrictl verif nrictl\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n",
    );
    let mut bash = Command::new("bash");
    let mut bash = bash.arg("-u").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "verify\n");
}

#[test]
fn each_subcommand_has_a_man_page_with_the_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(&["man-pages", path]);
    let mut pages: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut expected: Vec<String> =
        subcommands().iter().map(|name| format!("nrictl-{name}.8")).collect();
    expected.push("nrictl.8".to_owned());
    expected.sort();
    assert_eq!(pages, expected);
    for page in &pages {
        let text = fs::read_to_string(dir.path().join(page)).unwrap();
        assert!(text.contains("\n.TH ") && text.contains(" 8 "), "{page}: {text}");
        assert!(!text.contains("(1)") && !text.contains(".SH EXTRA\n.SH"), "{page}: {text}");
        let (_, codes) = text.split_once(".SH \"EXIT STATUS\"\n").unwrap();
        for code in 0..=5 {
            assert!(codes.contains(&format!("\\fB{code}\\fR\n")), "{page}: {code}");
        }
    }
    let verify = fs::read_to_string(dir.path().join("nrictl-verify.8")).unwrap();
    assert!(verify.contains("nrictl\\-verify \\- Compare what plugins set"), "{verify}");
    assert!(verify.contains("\\-\\-all"), "{verify}");

    let first = fs::read(dir.path().join("nrictl.8")).unwrap();
    text(&["man-pages", path]);
    assert_eq!(fs::read(dir.path().join("nrictl.8")).unwrap(), first, "not reproducible");
    let failed = nrictl(&["man-pages", &format!("{path}/none")]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("none/nrictl-"), "{failed:?}");
}

#[test]
fn only_the_help_of_a_subcommand_has_the_long_text() {
    let long = "The first container starts it as well";
    assert!(!text(&["--help"]).contains(long));
    assert!(text(&["start", "--help"]).contains(long));
    assert!(text(&["--help"]).contains("\n  3  nrid is not running\n"));
}

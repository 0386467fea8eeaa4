//! The policy of launched plugins: a new installation writes a policy, and a later installation
//! keeps the policies that exist.

use crate::image::{CONFIG, CRUN, Image};
use nri_config::{Config, PluginPolicy};

fn policies(image: &Image) -> Vec<PluginPolicy> {
    Config::parse(&image.read(CONFIG)).unwrap().plugin
}

fn expected() -> Vec<PluginPolicy> {
    let text = "[[plugin]]\nmatch = '*'\ncapabilities = []\nno_new_privs = true\n";
    Config::parse(text).unwrap().plugin
}

#[test]
fn a_new_installation_gives_launched_plugins_no_capabilities() {
    for options in ["", &format!("--runtime nri-crun={CRUN}"), "--nri ours"] {
        let image = Image::new();
        let before = image.snapshot();
        let output = image.run_ok(&format!("install docker {options}"));
        assert!(output.contains("nrid launches plugins without capabilities"), "{output}");
        assert_eq!(policies(&image), expected(), "{}", image.read(CONFIG));
        let first_table = image.read(CONFIG).find("\n[").unwrap();
        assert!(image.read(CONFIG)[..first_table].ends_with("#   no_new_privs = true\n"));
        // The policy is removed when the last engine is uninstalled, not before.
        let output = image.run_ok("install podman");
        assert!(!output.contains("without capabilities"), "{output}");
        image.run_ok("uninstall docker");
        assert_eq!(policies(&image), expected());
        image.run_ok("uninstall podman");
        assert_eq!(image.snapshot(), before);
    }
}

#[test]
fn a_policy_that_an_administrator_adds_stays() {
    let image = Image::new();
    image.run_ok("install docker");
    let more = "\n[[plugin]]\nmatch = \"10-net\"\ncapabilities = [\"net_admin\"]\n";
    let text = image.read(CONFIG) + more;
    image.write(CONFIG, text.as_bytes());
    assert_eq!(policies(&image).len(), 2);
    image.run_ok("install podman");
    image.run_ok("install docker");
    image.run_ok("uninstall podman");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(CONFIG), text);
    // Nothing in the file is ours any more, and it still applies.
    image.run_ok("install docker");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(CONFIG), text);
}

/// The next installation writes no policy to a file that exists.
#[test]
fn the_policy_stays_while_the_file_has_other_keys() {
    let image = Image::new();
    image.run_ok(&format!("install docker --runtime nri-crun={CRUN}"));
    let text = "socket_path = \"/run/other.sock\"\n".to_owned() + &image.read(CONFIG);
    image.write(CONFIG, text.as_bytes());
    image.run_ok("uninstall docker");
    assert!(!image.read(CONFIG).contains("nri-crun"), "{}", image.read(CONFIG));
    assert_eq!(policies(&image), expected());
    image.run_ok("install docker");
    assert_eq!(policies(&image), expected());
}

#[test]
fn an_existing_installation_keeps_the_rights_of_its_plugins() {
    for text in ["", "# none\n", "[[plugin]]\nmatch = '*'\ntimeout = '3s'\n"] {
        let image = Image::with(CONFIG, text);
        image.run_ok("install docker");
        assert_eq!(image.read(CONFIG), text);
    }
    // The configuration is missing, but the record shows that the installation is not new.
    let image = Image::new();
    image.run_ok("install docker");
    std::fs::remove_file(image.at(CONFIG)).unwrap();
    image.run_ok("install docker");
    image.run_ok("install podman");
    assert!(!image.exists(CONFIG));
    image.run_ok(&format!("install podman --runtime nri-crun={CRUN}"));
    assert_eq!(policies(&image), []);
}

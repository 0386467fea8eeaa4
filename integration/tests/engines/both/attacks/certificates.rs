//! Containers that want to be without the certificates or the proxy of `ca-and-proxy.yaml`.

use super::*;

test_both! {
    certificates_and_proxy_are_for_programs_that_use_them,
}

fn certificates_and_proxy_are_for_programs_that_use_them<E: Engine>() {
    with_recipe::<E>("ca-and-proxy", |engine, name| {
        if !Path::new("/etc/ssl/certs").is_dir() {
            return skip(name, "no /etc/ssl/certs");
        }
        let mut tried = Tried::new(name, "ca-and-proxy");
        let own = engine.path("own");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("own.crt"), "own").unwrap();
        let volume = |destination: &str| format!("--volume={}:{destination}", own.display());
        let count = fs::read_dir("/etc/ssl/certs").unwrap().count().to_string();
        let script = "ls -A /etc/ssl/certs | wc -l; touch /etc/ssl/certs/x 2>/dev/null || echo ro";
        let inside = |option: &str| {
            let ended = engine.run_with("nri", &[option, IMAGE, "sh", "-c", script]);
            ended.out().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        for (what, option) in [
            ("own certificates", volume("/etc/ssl/certs")),
            ("no certificates", "--tmpfs=/etc/ssl/certs".to_owned()),
            ("a volume of certificates", "--volume=own:/etc/ssl/certs".to_owned()),
            ("another directory above", volume("/etc/ssl")),
            ("an empty directory above", "--tmpfs=/etc".to_owned()),
            ("a container to read", "--read-only".to_owned()),
        ] {
            let found = inside(&option);
            tried.held(what, found == [count.as_str(), "ro"], &format!("{found:?}"));
        }
        // The mount of the host is read-only, so that there is no place for another one below it.
        let below = engine.run_with("nri", &[&volume("/etc/ssl/certs/own"), IMAGE, "true"]);
        tried.held("certificates below", below.code != Some(0), &said(&below));
        if E::NAME == "podman" {
            let words = "may mount others over them (Podman: on /etc/ssl/certs/, with a slash)";
            let found = inside("--volume=other:/etc/ssl/certs/");
            tried.open("another spelling of the directory", found == ["0"], words);
        }
        let web = run(engine, "web", &["--env=HTTPS_PROXY="]);
        let words = "A container that has a proxy of its own keeps it, also an empty one";
        tried.open("no proxy", web.env("HTTPS_PROXY").as_deref() == Some(""), words);
        tried.report();
    });
}

//! The arguments with which the runtime gets a bundle of `nrid` in place of the engine's.

use nri_control::{Begin, OsText, Verb};
use nri_passthrough::args::{
    flags::{CREATE, RESTORE, RUN, Verbs},
    options::{Item, Options},
};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// Options whose relative paths runtimes resolve in the bundle.
const IN_BUNDLE: [&str; 4] = ["console-socket", "pidfd-socket", "image-path", "work-path"];

/// Returns the arguments after the verb, with the bundle `own`. `bundle` is the engine's.
pub(super) fn with_bundle(begin: &Begin, bundle: &Path, own: &Path) -> Vec<OsText> {
    replaced(begin.verb, begin.runtime.as_path(), &begin.arguments, (bundle, own))
}

fn replaced(
    verb: Verb,
    runtime: &Path,
    arguments: &[OsText],
    (bundle, own): (&Path, &Path),
) -> Vec<OsText> {
    let given: Vec<&[u8]> = arguments.iter().map(|text| text.0.as_bytes()).collect();
    let mut arguments: Vec<Vec<u8>> = given.iter().map(|text| text.to_vec()).collect();
    let absolute = |path: &[u8]| bundle.join(OsStr::from_bytes(path)).into_os_string().into_vec();
    let is_crun = runtime
        .file_name()
        .is_some_and(|name| name.as_bytes().windows(CRUN.len()).any(|part| part == CRUN));
    let mut has_bundle = false;
    let mut changed = Vec::new();
    for item in Options::new(&given, verbs(verb)) {
        let Item::Known { name, value: Some(value), at } = item else { continue };
        let new = match name {
            "bundle" => {
                has_bundle = true;
                own.as_os_str().as_bytes().to_vec()
            }
            // The option of crun, for a file in another place.
            "config" => b"config.json".to_vec(),
            // crun resolves it in the bundle, runc in the working directory.
            "pid-file" if is_crun => absolute(value),
            name if IN_BUNDLE.contains(&name) => absolute(value),
            _ => continue,
        };
        changed.push((at, new));
    }
    for ((index, offset), new) in changed {
        arguments[index].truncate(offset);
        arguments[index].extend(new);
    }
    let bundle_option = [b"--bundle".to_vec(), own.as_os_str().as_bytes().to_vec()];
    let first = bundle_option.into_iter().filter(|_| !has_bundle);
    first.chain(arguments).map(|text| OsText(OsString::from_vec(text))).collect()
}

const CRUN: &[u8] = b"crun";

fn verbs(verb: Verb) -> Verbs {
    match verb {
        Verb::Run => RUN,
        Verb::Restore => RESTORE,
        _ => CREATE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(verb: Verb, runtime: &str, arguments: &str, expected: &str) {
        let text = |word: &str| OsText(word.into());
        let arguments: Vec<_> = arguments.split(' ').map(text).collect();
        let dirs = (Path::new("/b"), Path::new("/own"));
        let found = replaced(verb, Path::new(runtime), &arguments, dirs);
        let found: Vec<_> = found.iter().map(|text| text.0.to_string_lossy()).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn the_bundle_is_replaced_and_paths_relative_to_it_become_absolute() {
        let runc = "/usr/bin/runc";
        let given = "--bundle /b --pid-file p --console-socket c id";
        let expected = "--bundle /own --pid-file p --console-socket /b/c id";
        check(Verb::Create, runc, given, expected);
        check(Verb::Run, runc, "-b=/b -d id", "-b=/own -d id");
        check(Verb::Create, runc, "id", "--bundle /own id");
        check(Verb::Create, runc, "-- id", "--bundle /own -- id");
        let given = "-f /c/x.json --bundle=. --pid-file p id";
        let expected = "-f config.json --bundle=/own --pid-file /b/p id";
        check(Verb::Create, "/usr/bin/crun", given, expected);
        let given = "--image-path i --work-path /w --bundle b id";
        check(Verb::Restore, runc, given, "--image-path /b/i --work-path /w --bundle /own id");
    }
}

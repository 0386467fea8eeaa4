//! The arguments with which the runtime gets a bundle of `nrid` in place of the engine's.

use nri_args::options::{Item, Options};
use nri_control::{Begin, Verb};
use nri_files::OsText;
use nri_spec::capability::RuntimeKind;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// Options whose relative paths runtimes resolve in the bundle.
const IN_BUNDLE: [&str; 4] = ["console-socket", "pidfd-socket", "image-path", "work-path"];

/// Returns the arguments after the verb, with the bundle `own`. `bundle` is the engine's.
pub(super) fn with_bundle(
    begin: &Begin,
    runtime: Option<RuntimeKind>,
    bundle: &Path,
    own: &Path,
) -> Vec<OsText> {
    let is_crun = match runtime {
        Some(kind) => kind == RuntimeKind::Crun,
        None => begin.runtime.as_path().to_string_lossy().contains("crun"),
    };
    replaced(begin.verb, is_crun, &begin.arguments, (bundle, own))
}

fn replaced(
    verb: Verb,
    is_crun: bool,
    arguments: &[OsText],
    (bundle, own): (&Path, &Path),
) -> Vec<OsText> {
    let given: Vec<&[u8]> = arguments.iter().map(|text| text.0.as_bytes()).collect();
    let mut arguments: Vec<Vec<u8>> = given.iter().map(|text| text.to_vec()).collect();
    let absolute = |path: &[u8]| bundle.join(OsStr::from_bytes(path)).into_os_string().into_vec();
    let (mut has_bundle, mut has_image) = (false, false);
    let mut changed = Vec::new();
    for item in Options::new(&given, verb.flags()) {
        let Item::Known { name, value: Some(value), at } = item else { continue };
        let new = match name {
            "bundle" => {
                has_bundle = true;
                own.as_os_str().as_bytes().to_vec()
            }
            // The option of crun, for a file in another place.
            "config" => b"config.json".to_vec(),
            _ if value.is_empty() => continue,
            // crun resolves it in the bundle, runc in the working directory.
            "pid-file" if is_crun => absolute(value),
            name if IN_BUNDLE.contains(&name) => absolute(value),
            _ => continue,
        };
        has_image |= name == "image-path";
        changed.push((at, new));
    }
    for ((index, offset), new) in changed {
        arguments[index].truncate(offset);
        arguments[index].extend(new);
    }
    let mut first = Vec::new();
    if !has_bundle {
        first.extend([b"--bundle".to_vec(), own.as_os_str().as_bytes().to_vec()]);
    }
    // The default of crun is in the bundle, that of runc in the working directory.
    if verb == Verb::Restore && is_crun && !has_image {
        first.extend([b"--image-path".to_vec(), absolute(b"checkpoint")]);
    }
    first.into_iter().chain(arguments).map(|text| OsText(OsString::from_vec(text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(verb: Verb, is_crun: bool, arguments: &str, expected: &str) {
        let text = |word: &str| OsText(word.into());
        let arguments: Vec<_> = arguments.split(' ').map(text).collect();
        let dirs = (Path::new("/b"), Path::new("/own"));
        let found = replaced(verb, is_crun, &arguments, dirs);
        let found: Vec<_> = found.iter().map(|text| text.0.to_string_lossy()).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn the_bundle_is_replaced_and_paths_relative_to_it_become_absolute() {
        let (runc, crun) = (false, true);
        let given = "--bundle /b --pid-file p --console-socket c id";
        let expected = "--bundle /own --pid-file p --console-socket /b/c id";
        check(Verb::Create, runc, given, expected);
        check(Verb::Run, runc, "-b=/b -d id", "-b=/own -d id");
        check(Verb::Create, runc, "id", "--bundle /own id");
        check(Verb::Create, runc, "-- id", "--bundle /own -- id");
        let given = "-f /c/x.json --bundle=. --pid-file p id";
        let expected = "-f config.json --bundle=/own --pid-file /b/p id";
        check(Verb::Create, crun, given, expected);
        check(
            Verb::Run,
            runc,
            "--console-socket= --bundle b id",
            "--console-socket= --bundle /own id",
        );
        check(Verb::Restore, crun, "-b b id", "--image-path /b/checkpoint -b /own id");
        let given = "--image-path i --work-path /w --bundle b id";
        check(Verb::Restore, runc, given, "--image-path /b/i --work-path /w --bundle /own id");
    }
}

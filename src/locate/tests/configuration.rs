//! Checks that `docs/reference/configuration.md` matches the code.

use std::path::Path;

#[test]
fn the_configuration_reference_is_generated_from_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let expected = nri_locate::configuration_reference();
    assert!(
        std::fs::read_to_string(path).unwrap() == expected,
        "outdated: run `cargo run -p nri-locate --example configuration \
         > docs/reference/configuration.md`"
    );
    let long = expected.lines().filter(|line| line.chars().count() > 100);
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
}

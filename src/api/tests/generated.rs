//! Checks that the committed protocol code equals the code that `proto/nri.proto` generates.
//! `NRI_REGENERATE=1 cargo test -p nri-api --test generated` regenerates the code.

use std::{fs, path::Path};

#[test]
fn the_committed_messages_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().unwrap();
    protobuf_codegen::Codegen::new()
        .pure()
        .include(root.join("proto"))
        .input(root.join("proto/nri.proto"))
        .out_dir(out.path())
        .run()
        .unwrap();
    let fresh = fs::read_to_string(out.path().join("nri.rs")).unwrap();
    let committed = root.join("src/generated/nri.rs");
    if std::env::var_os("NRI_REGENERATE").is_some() {
        fs::write(&committed, &fresh).unwrap();
    }
    let committed = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        fresh == committed,
        "src/api/src/generated/nri.rs is stale: run NRI_REGENERATE=1 cargo test -p nri-api --test \
         generated"
    );
}

//! The committed service code equals what `proto/nri.proto` of nri-api generates.
//! `NRI_REGENERATE=1 cargo test -p nri-wire --test generated` regenerates it.

use std::{fs, path::Path};

#[test]
fn the_committed_service_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = root.join("../api/proto");
    let out = tempfile::tempdir().unwrap();
    ttrpc_codegen::Codegen::new()
        .include(&proto)
        .input(proto.join("nri.proto"))
        .out_dir(out.path())
        .customize(ttrpc_codegen::Customize {
            async_all: true,
            gen_mod: false,
            ..Default::default()
        })
        .run()
        .unwrap();
    let fresh = fs::read_to_string(out.path().join("nri_ttrpc.rs")).unwrap();
    let committed = root.join("src/generated/nri_ttrpc.rs");
    if std::env::var_os("NRI_REGENERATE").is_some() {
        fs::write(&committed, &fresh).unwrap();
    }
    let committed = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        fresh == committed,
        "src/wire/src/generated/nri_ttrpc.rs is stale: \
         run NRI_REGENERATE=1 cargo test -p nri-wire --test generated"
    );
}

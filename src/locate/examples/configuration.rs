//! Prints `docs/reference/configuration.md`:
//! `cargo run -p nri-locate --example configuration > docs/reference/configuration.md`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(nri_locate::configuration_reference().as_bytes())
}

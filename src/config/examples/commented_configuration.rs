//! Prints `packaging/config.toml`:
//! `cargo run -p nri-config --example commented_configuration > packaging/config.toml`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(nri_config::commented_configuration().as_bytes())
}

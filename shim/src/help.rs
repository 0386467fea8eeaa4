//! The help of `--nri-help`: the wrapper's own options, which `--help` of the real runtime lacks.

/// The text, at most 80 columns wide.
pub(crate) const HELP: &str = "\
Usage: nri-container-runtime [OPTION]... VERB [ARGUMENT]...

Runs a low-level OCI runtime, with the changes of NRI plugins. Options below
go before the verb and are removed; everything else is the real runtime's,
--help and --version included.

  --nri-runtime PATH  the real runtime (default: see the configuration)
  --nri-config FILE   the configuration
                      (default: /etc/nri-container-runtime/config.toml)
  --nri-version       print the version of the wrapper
  --nri-help          print this text

Variables:
  NRI_CONTAINER_RUNTIME_PATH    as --nri-runtime
  NRI_CONTAINER_RUNTIME_CONFIG  as --nri-config
  NRI_CONTAINER_RUNTIME_BYPASS  1: call the real runtime without plugins

nrictl(8) administers plugins and nrid; `nrictl doctor` finds faults.
";

#[cfg(test)]
mod tests {
    use super::*;
    use nri_args::flags;
    use nri_locate::{BYPASS_ENV, CONFIG_ENV, CONFIG_FILE, RUNTIME_ENV};

    #[test]
    fn the_help_names_all_own_options_and_variables_within_80_columns() {
        for name in flags::own_names() {
            assert!(HELP.contains(&format!("\n  --{name} ")), "--{name}");
        }
        for name in [RUNTIME_ENV, CONFIG_ENV, BYPASS_ENV] {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
        }
        assert!(HELP.contains(CONFIG_FILE));
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }
}

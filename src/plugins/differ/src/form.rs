//! The form of what the plugin logs, from the command line.

/// What is logged.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Form {
    /// 0: changes; 1: also what the first index receives; 2: also all that is compared; 3: also
    /// the state at the beginning
    #[arg(long, default_value_t = 0, value_name = "LEVEL")]
    pub(crate) verbose_level: u32,
    /// Log changes as lines of YAML
    #[arg(long)]
    pub(crate) yaml: bool,
}

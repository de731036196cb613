//! The account that a command is about, on its command line.

/// The account that a command is about.
#[derive(clap::Args)]
pub(super) struct NameArgs {
    /// The name of the account, such as jane@example.org; without a domain, in the `domain` of the
    /// configuration
    #[arg(value_name = "NAME")]
    pub name: String,
}

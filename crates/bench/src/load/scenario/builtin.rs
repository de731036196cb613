//! The scenarios that come with the bench.

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// All of them, in the order in which they are listed.
        pub const BUILT_IN: &[BuiltIn] =
            &[$(BuiltIn { name: $name, text: include_str!(concat!("../scenarios/", $name, ".toml")) }),*];
    };
}

built_in!(
    "fill",
    "fill-lmtp",
    "fetch",
    "search",
    "flags",
    "reorganize",
    "refresh",
    "list",
    "login",
    "idle",
    "thunderbird",
    "sync-thunderbird",
    "sync-apple-mail",
    "sync-k9",
    "sync-mbsync",
    "sync-outlook",
    "sync-gmail",
    "phones",
    "lmtp",
    "smtp",
    "submission",
    "jmap-sync",
    "jmap-webmail",
    "jmap-idle",
);

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|scenario| scenario.name == name)
}

//! Which folders: globs.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use sealpost_base::{Error, Result};

use crate::exit::{FAILED, TEMPORARY};

/// Options that choose folders.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Folders")]
pub struct FolderArgs {
    /// Only folders whose name matches GLOB (`*` any text, `?` any character); may be repeated
    #[arg(long = "folder", value_name = "GLOB")]
    pub only: Vec<String>,
    /// Except folders whose name matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
}

impl FolderArgs {
    /// Whether a folder is one of them.
    pub fn wants(&self, name: &str) -> bool {
        let any = |globs: &[String]| globs.iter().any(|glob| matches(glob, name));
        (self.only.is_empty() || any(&self.only)) && !any(&self.exclude)
    }

    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        self.only.is_empty() && self.exclude.is_empty()
    }

    /// The folders on the command line, or else these.
    pub fn or(self, only: &[String], exclude: &[String]) -> Self {
        let or = |said: Vec<String>, remembered: &[String]| {
            if said.is_empty() { remembered.to_vec() } else { said }
        };
        FolderArgs { only: or(self.only, only), exclude: or(self.exclude, exclude) }
    }
}

/// Whether each `--folder` chooses some of the folders of these names.
///
/// # Errors
/// As [`Chosen::check`].
pub fn check<'a>(args: &FolderArgs, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let chosen = Chosen::new(args.clone());
    for name in names {
        chosen.wants(name);
    }
    chosen.check()
}

/// Folder names that are remembered for saying which there are.
const NAMES: usize = 1000;
/// Folder names from the options.
const NAMES_SHOWN: usize = 12;

/// Folders being chosen: notices when a `--folder` chooses none.
pub struct Chosen {
    args: FolderArgs,
    names_found: Mutex<FolderNames>,
}

#[derive(Default)]
struct FolderNames {
    names: BTreeSet<String>,
    /// Which of the globs matched something.
    matched: BTreeSet<usize>,
}

impl Chosen {
    /// Those that the options choose.
    pub fn new(args: FolderArgs) -> Self {
        Chosen { args, names_found: Mutex::default() }
    }

    /// Whether a folder is one of them.
    pub fn wants(&self, name: &str) -> bool {
        let mut names_found = self.names_found.lock().unwrap_or_else(PoisonError::into_inner);
        if names_found.names.len() < NAMES {
            names_found.names.insert(name.to_owned());
        }
        let globs = self.args.only.iter().enumerate();
        names_found.matched.extend(globs.filter(|(_, glob)| matches(glob, name)).map(|(nth, _)| nth));
        self.args.wants(name)
    }

    /// Called once all folders were listed.
    ///
    /// # Errors
    /// `NotFound` if a `--folder` matches none of them, with those that it may mean.
    pub fn check(&self) -> Result<()> {
        let names_found = self.names_found.lock().unwrap_or_else(PoisonError::into_inner);
        let globs = self.args.only.iter().enumerate();
        let without: Vec<&str> =
            globs.filter(|(nth, _)| !names_found.matched.contains(nth)).map(|(_, glob)| &**glob).collect();
        let Some(first) = without.first() else { return Ok(()) };
        let mut names: Vec<&str> = names_found.names.iter().map(|name| &**name).collect();
        names.sort_by_key(|name| distance(first, name));
        let more = if names.len() > NAMES_SHOWN { " and others" } else { "" };
        names.truncate(NAMES_SHOWN);
        let quoted: Vec<String> = without.iter().map(|glob| format!("--folder '{glob}'")).collect();
        let why = format!("no folder matches {}; there are: {}{more}", quoted.join(", "), names.join(", "));
        Err(Error::not_found(why))
    }

    /// The exit status of a command that listed them.
    ///
    /// # Errors
    /// As [`Chosen::check`], if all was done.
    pub fn status(&self, interrupted: bool, complete: bool) -> Result<u8> {
        match (interrupted, complete) {
            (true, _) => Ok(TEMPORARY),
            (false, false) => Ok(FAILED),
            (false, true) => self.check().map(|()| 0),
        }
    }
}

/// The edit distance of two names, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (nth, c) in b.to_lowercase().chars().enumerate() {
        let (mut before, mut left) = (row[0], nth + 1);
        row[0] = left;
        for (at, other) in a.iter().enumerate() {
            let changed = before + usize::from(*other != c);
            before = row[at + 1];
            left = changed.min(before + 1).min(left + 1);
            row[at + 1] = left;
        }
    }
    row[a.len()]
}

/// Whether `name` matches `glob`; INBOX in any case.
fn matches(glob: &str, name: &str) -> bool {
    if name == "INBOX" && glob.eq_ignore_ascii_case("INBOX") {
        return true;
    }
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut g, mut n) = (0, 0);
    // Where the last `*` stood, and how much it took.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                g += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                g = at + 1;
                n = taken + 1;
            }
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("*", "", true),
            ("Work", "Work", true),
            ("Work", "Work/2024", false),
            ("Work*", "Work/2024", true),
            ("*/20?4", "Work/2024", true),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbx", false),
            ("inbox", "INBOX", true),
            ("work", "Work", false),
            ("[Gmail]/*", "[Gmail]/Spam", true),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        }
        let long = "a".repeat(2000);
        assert!(!matches(&"*a".repeat(200), &format!("{long}b")));
    }

    #[test]
    fn a_glob_without_matches_is_reported_with_a_hint() {
        let args = FolderArgs { only: vec!["INBOX".into(), "Wrok".into()], exclude: vec![] };
        let chosen = Chosen::new(args);
        let wanted: Vec<_> =
            ["INBOX", "Archive", "Work", "Trash"].into_iter().filter(|name| chosen.wants(name)).collect();
        assert_eq!(wanted, ["INBOX"]);
        let told = chosen.check().unwrap_err();
        assert_eq!(told.kind(), sealpost_base::Kind::NotFound);
        assert!(
            told.to_string().starts_with("no folder matches --folder 'Wrok'; there are: Work, "),
            "{told}"
        );
        assert!(Chosen::new(FolderArgs::default()).check().is_ok());
    }

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "", 0), ("work", "Work", 0), ("wrok", "work", 2), ("abc", "", 3), ("a", "bab", 2)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (expected, expected), "{a} {b}");
        }
    }

    #[test]
    fn excluded_folders_are_not_selected() {
        let args = FolderArgs { only: vec![], exclude: vec!["Trash*".into()] };
        assert!(args.wants("INBOX") && !args.wants("Trash/2020"));
    }
}

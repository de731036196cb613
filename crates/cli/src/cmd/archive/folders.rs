//! Which folders: globs.

/// Options that choose folders.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Folders")]
pub struct FolderArgs {
    /// Only folders whose name matches GLOB (`*` any text, `?` any character); may be repeated
    #[arg(long = "folder", value_name = "GLOB")]
    pub only: Vec<String>,
    /// Not those whose name matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
}

impl FolderArgs {
    /// Whether a folder is one of them.
    pub fn wants(&self, name: &str) -> bool {
        let any = |globs: &[String]| globs.iter().any(|glob| matches(glob, name));
        (self.only.is_empty() || any(&self.only)) && !any(&self.exclude)
    }

    /// What is said on the command line, or else these.
    pub fn or(self, only: &[String], exclude: &[String]) -> Self {
        let or = |said: Vec<String>, remembered: &[String]| {
            if said.is_empty() { remembered.to_vec() } else { said }
        };
        FolderArgs { only: or(self.only, only), exclude: or(self.exclude, exclude) }
    }
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
    fn what_is_excluded_is_not_wanted() {
        let args = FolderArgs { only: vec![], exclude: vec!["Trash*".into()] };
        assert!(args.wants("INBOX") && !args.wants("Trash/2020"));
    }
}

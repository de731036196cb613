//! What `--help` prints: one page for each command, and one for the options that every command has.
//!
//! Those options are not repeated on every page: each page has a line that names them and their own page,
//! `sealpost help options`.

use clap::{Args, Command};

use crate::global::Global;

/// The line on every page.
const SEE_OPTIONS: &str =
    "Every command has --config, --dir, --json, --quiet and --log-level: see `sealpost help options`.";
/// The command whose page has the options that every command has.
const OPTIONS: &str = "options";

/// `command` and its subcommands, each with a line that leads to the options that every command has.
pub fn with_options_line(command: Command) -> Command {
    if command.get_name() == OPTIONS {
        return command;
    }
    let text = match command.get_after_help() {
        Some(text) => format!("{SEE_OPTIONS}\n\n{text}"),
        None => SEE_OPTIONS.to_owned(),
    };
    command.after_help(text).mut_subcommands(with_options_line)
}

/// The options that every command has, as a page shows them.
pub fn options() -> String {
    let shown = |arg: clap::Arg| arg.hide(false).global(false);
    let mut page = Global::augment_args(Command::new("sealpost"))
        .disable_help_flag(true)
        .mut_args(shown)
        .help_template("{options}");
    format!(
        "Options of every command, before or after its name:\n{}\n\n\
         Example:\n  sealpost account list --config /etc/sealpost.toml --json",
        page.render_help().to_string().trim_end()
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// The pages of all commands with the words that lead to them; hidden ones are for our own scripts.
    fn pages(command: &mut Command, words: &str, pages: &mut Vec<(String, String, bool)>) {
        let is_group = command.has_subcommands();
        pages.push((words.to_owned(), command.render_help().to_string(), is_group));
        for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
        {
            self::pages(sub, &format!("{words} {}", sub.get_name().to_owned()), pages);
        }
    }

    fn all_pages() -> Vec<(String, String, bool)> {
        let mut command = with_options_line(Cli::command());
        command.build();
        let mut found = Vec::new();
        pages(&mut command, "sealpost", &mut found);
        assert!(found.len() > 50, "{}", found.len());
        found
    }

    #[test]
    fn options_of_every_command_are_on_one_page() {
        for (words, page, _) in all_pages() {
            let is_their_page = words == "sealpost options";
            assert_eq!(page.contains("--config <FILE>"), is_their_page, "{words}\n{page}");
            assert!(page.contains("sealpost help options"), "{words}\n{page}");
            assert!(!page.contains("Usage: sealpost options"), "{page}");
        }
    }

    #[test]
    fn every_command_has_an_example_of_itself() {
        for (words, page, is_group) in all_pages() {
            let (_, examples) =
                page.split_once("Example").unwrap_or_else(|| panic!("{words} has no example"));
            let is_shown = is_group || words == "sealpost options" || examples.contains(&words);
            assert!(is_shown, "{words}:{examples}");
        }
    }

    /// The width of pages in a wide terminal: clap's default.
    const COLUMNS: usize = 100;

    /// The lines of examples and lists of a page, which are too wide for it.
    fn too_wide(command: &Command, found: &mut Vec<String>) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let wide = text.lines().filter(|line| line.starts_with(' ') && line.chars().count() > COLUMNS);
        found.extend(wide.map(str::to_owned));
        command.get_subcommands().for_each(|sub| too_wide(sub, found));
    }

    #[test]
    fn no_example_is_wrapped_inside_a_command() {
        let mut found = Vec::new();
        too_wide(&with_options_line(Cli::command()), &mut found);
        assert!(found.is_empty(), "longer than {COLUMNS} columns: {found:#?}");
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}

//! Parses a command line, as pasted from a terminal or a manifest, into settings. Variables, the program and its command may
//! precede the flags, as in a shell. Run-related flags have no effect.

use crate::fields::{PageField, is_of_packet};
use mesh::settings::{self, Setting, SettingRow, Topic};
use mesh::sources::pflag::{self, Flags, PflagWord};
use mesh::{InputProblem, Mesh, sources::Raw};
use std::{ffi::OsString, iter::Peekable, mem};

const PROGRAMS: [&str; 3] = ["sidecar-init", "istio-iptables", "pilot-agent"];

const COMMANDS: [&str; 6] = ["istio-iptables", "apply", "diff", "explain", "lint", "render"];

#[derive(Default)]
pub(crate) struct FieldSettings {
    mesh: Mesh,
    flags: Vec<(Setting, String)>,
    variables: Vec<(String, String)>,
    pub(crate) problems: Vec<(PageField, InputProblem)>,
    without_effect: Vec<String>,
}

impl FieldSettings {
    /// Reads the words of fields; later fields take precedence. A mesh named in any field applies to all fields' flags.
    pub(crate) fn read(fields: &[(PageField, &str)]) -> Self {
        let mut input = Self::default();
        let mut split = Vec::new();
        for (field, text) in fields {
            match split_words(text) {
                Some(words) => split.push((*field, words)),
                None => {
                    let text = "ends within a quote or after a backslash";
                    input.problems.push((*field, InputProblem::of("input", text)));
                }
            }
        }
        let named = split.iter().rev().find_map(|(_, words)| pflag::mesh_of(words));
        input.mesh = named.unwrap_or_default();
        split.into_iter().for_each(|(field, words)| input.words(field, words));
        input
    }

    fn words(&mut self, field: PageField, mut words: Vec<String>) {
        let is_call = matches!(field, PageField::Flags | PageField::FlagsBefore);
        if is_call && let Some(program) = words.iter().position(|word| is_program(word)) {
            // Words that start the program, such as `sudo` or `docker run`, are skipped, except for variables.
            let mut at = 0;
            words.retain(|word| {
                at += 1;
                at > program + 1 || variable(word).is_some()
            });
        }
        let mut words = words.into_iter().peekable();
        let mut command = None;
        if is_call {
            while let Some((name, value)) = words.peek().and_then(|word| variable(word)) {
                let is_taken =
                    |row: &SettingRow| row.variables.contains(&name.as_str()) && !is_without_effect(row);
                if !settings::of(self.mesh).any(is_taken) {
                    self.add_without_effect(name.clone());
                }
                self.variables.push((name, value));
                words.next();
            }
            while let Some(word) = words.next_if(|word| COMMANDS.contains(&word.as_str())) {
                command = Some(word);
            }
        }
        let explains = field == PageField::Packet || command.is_some_and(|command| command == "explain");
        WordParser { flags: flags(self.mesh), field, lacks_destination: explains, input: self }.words(words);
    }

    fn add_without_effect(&mut self, name: String) {
        if !self.without_effect.contains(&name) {
            self.without_effect.push(name);
        }
    }

    /// Omits capture variables beside a manifest: they would belong to another pod.
    pub(crate) fn raw(&self, has_manifest: bool) -> Raw {
        let variable = |name: &str| {
            let found = self.variables.iter().rev().find(|(given, _)| given == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Raw::new(
            self.flags.iter().cloned(),
            |row| {
                let is_of_another_pod = has_manifest && row.key().is_some();
                !is_without_effect(row) && !is_of_another_pod && row.setting.is_for(self.mesh)
            },
            variable,
        )
    }

    pub(crate) fn notes(&self, has_manifest: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.without_effect.is_empty() {
            notes.push(format!("without effect here: {}", self.without_effect.join(", ")));
        }
        let rows = self.flags.iter().map(|(setting, _)| setting.row());
        let overriding = rows.filter(|row| has_manifest && row.topic == Topic::Capture);
        let overriding: Vec<String> = overriding.map(SettingRow::short_option).collect();
        if !overriding.is_empty() {
            notes.push(format!("flags override settings of the manifest: {}", overriding.join(", ")));
        }
        if has_manifest && !self.variables.is_empty() {
            notes.push("variables do not apply to pods of a manifest; use flags".to_owned());
        }
        notes
    }

    pub(crate) fn has_packet(&self) -> bool {
        self.flags.iter().any(|(setting, _)| is_of_packet(setting.row()))
    }
}

/// Returns `None` if a quote is not closed.
pub(crate) fn split_words(text: &str) -> Option<Vec<String>> {
    // A shell removes a backslash together with the following line break; `shlex` reads a separate one as an empty word.
    shlex::split(&text.replace("\\\r\n", "").replace("\\\n", ""))
}

/// True for settings that affect the program's run, not capture.
fn is_without_effect(row: &SettingRow) -> bool {
    match row.topic {
        Topic::Capture | Topic::Packet => false,
        Topic::Facts => row.setting == Setting::IptablesVersion,
        _ => true,
    }
}

/// Flags of a field: a mesh's run flags and the packet flags.
pub(crate) fn flags(mesh: Mesh) -> Flags {
    let is_of_run = |row: &&SettingRow| !row.topic.is_of_one_command() && row.topic != Topic::DropIn;
    Flags::of(settings::of(mesh).filter(|row| is_of_packet(row) || is_of_run(row)))
}

pub(crate) fn is_program(word: &str) -> bool {
    PROGRAMS.contains(&word.rsplit('/').next().unwrap_or_default())
}

pub(crate) fn variable(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

struct WordParser<'a> {
    flags: Flags,
    field: PageField,
    /// True if the next word that is not a flag is the packet's destination.
    lacks_destination: bool,
    input: &'a mut FieldSettings,
}

impl WordParser<'_> {
    fn words(&mut self, mut words: Peekable<impl Iterator<Item = String>>) {
        while let Some(word) = words.next() {
            match pflag::word(&word, &self.flags) {
                PflagWord::End => words.by_ref().for_each(|word| self.bare(word)),
                PflagWord::Flags(given, waiting) => {
                    given.into_iter().for_each(|(row, value)| self.set(row, value));
                    match waiting.map(|row| (row, words.next())) {
                        Some((row, Some(value))) => self.set(row, value),
                        Some((row, None)) => {
                            self.fault(InputProblem::of(&row.option(), pflag::lacks_value(row)));
                        }
                        None => {}
                    }
                }
                PflagWord::Unknown { name, has_value } => {
                    let text = pflag::unknown(&name, &self.flags);
                    self.fault(InputProblem::of(&name, text));
                    // An unknown flag may take a value.
                    words.next_if(|next| !has_value && !next.starts_with('-'));
                }
                PflagWord::Bare => self.bare(word),
            }
        }
    }

    fn bare(&mut self, word: String) {
        if mem::take(&mut self.lacks_destination) {
            return self.set(Setting::Destination.row(), word);
        }
        self.fault(InputProblem::with_item("argument", &word, pflag::stray(&self.flags)));
    }

    fn set(&mut self, row: &'static SettingRow, value: String) {
        if row.setting == Setting::Filename {
            let text = "the page reads no files; paste the manifest into its field";
            self.fault(InputProblem::of(&row.option(), text));
        } else if is_without_effect(row) {
            self.input.add_without_effect(row.option());
        } else {
            self.input.flags.push((row.setting, value));
        }
    }

    fn fault(&mut self, problem: InputProblem) {
        self.input.problems.push((self.field, problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> FieldSettings {
        FieldSettings::read(&[(PageField::Flags, text)])
    }

    #[test]
    fn backslash_continues_a_line_as_in_a_shell() {
        let expected = ["-b", "80,90", "-d", "1"].map(str::to_owned);
        for text in ["-b 80,\\\n90 \\\n  -d 1", "-b \\\r\n80,\\\r\n90 -d 1 \\\n", "-b 80,90\n-d 1"] {
            assert_eq!(split_words(text).as_deref(), Some(&expected[..]), "{text:?}");
        }
    }

    #[test]
    fn words_after_a_double_dash_are_arguments() {
        let input = read("sidecar-init explain -- -b");
        assert!(input.problems.is_empty(), "{:?}", input.problems);
        assert_eq!(input.flags, [(Setting::Destination, "-b".to_owned())]);
        let input = read("-b 80 -- -d 90");
        assert_eq!((input.flags.len(), input.problems.len()), (1, 2), "{:?}", input.problems);
    }

    #[test]
    fn words_without_effect_are_named_once() {
        let input = read("NOPE=1 NOPE=2 DRY_RUN=1 sidecar-init apply --dry-run --dry-run -b 80");
        assert_eq!(input.without_effect, ["NOPE", "DRY_RUN", "--dry-run"]);
    }
}

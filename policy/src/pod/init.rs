//! What an init container says, as settings: by its arguments and its environment, as the drop-in reads them.

use super::expand::{Environment, Expanded};
use super::facts::{Container, Value};
use super::said::Said;
use crate::mesh::Mesh;
use crate::settings::{self, Row, Setting, Topic};
use crate::sources::pflag::{self, Flags, Word};
use crate::sources::{Source, boolean};

/// The container that only validates what a plugin has set.
pub(super) const VALIDATION: &str = "istio-validation";
/// The names that Istio gives such containers.
const NAMES: [&str; 2] = [super::decision::INIT, VALIDATION];
/// Programs and commands behind which such arguments stand.
const COMMANDS: [&str; 2] = ["istio-iptables", "apply"];

/// What an init container that is about capture does.
#[derive(Clone, Debug)]
pub(super) struct Init {
    pub(super) name: String,
    /// Why it sets no rules; `None` if it does.
    pub(super) idle: Option<&'static str>,
    pub(super) said: Said,
}

/// Reads an init container; `None` if it is about something else.
pub(super) fn read(container: &Container, title: &str) -> Option<Init> {
    let words: Vec<&String> = container.command.iter().chain(&container.args).collect();
    let is_command = |word: &str| COMMANDS.contains(&word.rsplit('/').next().unwrap_or_default());
    let start = words.iter().position(|word| is_command(word)).map(|at| at + 1);
    let known = NAMES.contains(&container.name.as_str());
    // Of other programs' `apply` nothing is known.
    let ours = container.name == OWN
        || words
            .iter()
            .any(|word| word.rsplit('/').next().is_some_and(|word| word == COMMANDS[0] || word == OWN));
    if !(known || (start.is_some() && ours)) {
        return None;
    }
    let flags_at = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    let mut reader = Arguments { flags: flags(), container, title, said: Said::by(title), every: Vec::new() };
    let environment = Environment::of(container);
    reader.words(&words[start.unwrap_or(flags_at)..], &environment);
    reader.variables(&environment);
    Some(reader.finish())
}

/// What the binary calls itself.
const OWN: &str = "sidecar-init";

struct Arguments<'a> {
    flags: Flags,
    container: &'a Container,
    title: &'a str,
    said: Said,
    /// All settings that were given, those too that say how to run.
    every: Vec<(Setting, String)>,
}

/// The flags of the drop-in.
fn flags() -> Flags {
    Flags::of(rows().filter(|row| !row.long.is_empty()))
}

fn rows() -> impl Iterator<Item = &'static Row> {
    settings::of(Mesh::Istio).filter(|row| !row.topic.is_of_one_command() && row.setting != Setting::Filename)
}

/// Whether a pod's init container may say this of the pod: what is captured, and not how a container runs.
fn is_of_pod(row: &Row) -> bool {
    matches!(row.topic, Topic::Capture | Topic::Facts) && row.setting != Setting::IptablesVersion
}

impl Arguments<'_> {
    fn source(&self, word: &str) -> Source {
        Source::Container { name: self.container.name.clone(), word: word.to_owned() }
    }

    fn words(&mut self, words: &[&String], environment: &Environment<'_>) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = match environment.expand(word) {
                Expanded::Text(text) => text,
                Expanded::Unknowable(variable) => {
                    // Where the flag itself is known, so is the setting.
                    let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
                    let setting = match pflag::word(name, &self.flags) {
                        Word::Flags(flags) => flags.first().map(|(row, _)| row.setting),
                        Word::NeedsValue(_, row) => Some(row.setting),
                        Word::End | Word::Unknown { .. } | Word::Bare => None,
                    };
                    self.unknowable(setting, name, &variable);
                    continue;
                }
            };
            match pflag::word(&text, &self.flags) {
                Word::End => {
                    for word in words.by_ref() {
                        self.bare(word);
                    }
                }
                Word::Flags(flags) => flags.into_iter().for_each(|(row, value)| self.say(row, value)),
                Word::NeedsValue(flags, row) => {
                    flags.into_iter().for_each(|(row, value)| self.say(row, value));
                    match words.next().map(|word| environment.expand(word)) {
                        Some(Expanded::Text(value)) => self.say(row, value),
                        Some(Expanded::Unknowable(variable)) => {
                            self.unknowable(Some(row.setting), &row.option(), &variable);
                        }
                        None => {
                            let source = self.source(&row.option());
                            let text = "needs a value; write --flag= for an empty one";
                            self.said.fault(Some(row.setting), source, None, text);
                        }
                    }
                }
                Word::Unknown { name, .. } => {
                    let source = self.source(&name);
                    self.said.fault(None, source, None, pflag::unknown(&name, &self.flags));
                }
                Word::Bare => self.bare(&text),
            }
        }
    }

    fn bare(&mut self, word: &str) {
        let source = self.source("argument");
        let text = "is not expected; values of switches are written --dry-run=false";
        self.said.fault(None, source, Some(word), text);
    }

    fn unknowable(&mut self, setting: Option<Setting>, word: &str, variable: &str) {
        let source = self.source(word);
        let otherwise = match setting {
            Some(setting) => format!("; say it with {}", setting.row().option()),
            None => String::new(),
        };
        let text = format!(
            "needs the variable {variable}, which valueFrom or envFrom fills in when the container starts{otherwise}"
        );
        self.said.fault(setting, source, None, text);
    }

    fn say(&mut self, row: &'static Row, value: String) {
        self.every.retain(|(setting, _)| *setting != row.setting);
        self.every.push((row.setting, value.clone()));
        if is_of_pod(row) {
            let source = self.source(&row.option());
            self.said.say(row.setting, value, source);
        }
    }

    /// The variables, for what no flag says. One that is set to nothing counts as not set, but where it is all there is.
    fn variables(&mut self, environment: &Environment<'_>) {
        for row in rows() {
            if self.every.iter().any(|(setting, _)| *setting == row.setting) {
                continue;
            }
            for name in row.variables {
                let source = self.source(name);
                match environment.get(name) {
                    Some(Value::Text(value)) if row.long.is_empty() || !value.is_empty() => {
                        self.every.push((row.setting, value.clone()));
                        if is_of_pod(row) {
                            self.said.say(row.setting, value, source);
                        }
                        break;
                    }
                    Some(Value::Unknowable) if is_of_pod(row) => {
                        self.unknowable(Some(row.setting), name, name);
                        break;
                    }
                    Some(Value::Text(_) | Value::Unknowable) | None => {}
                }
            }
        }
    }

    fn finish(self) -> Init {
        let is_on = |setting: Setting| {
            let given = self.every.iter().find(|(given, _)| *given == setting);
            given.and_then(|(_, value)| boolean(value)).unwrap_or(false)
        };
        let idle = [
            (
                Setting::SkipRuleApply,
                "it validates what a plugin has set, and sets no rules (--skip-rule-apply)",
            ),
            (Setting::DryRun, "it prints the rules and sets none (--dry-run)"),
            (Setting::CleanupOnly, "it removes rules and sets none (--cleanup-only)"),
        ];
        let idle = idle.into_iter().find(|(setting, _)| is_on(*setting)).map(|(_, text)| text);
        debug_assert!(self.said.problems().iter().all(|problem| problem.name.starts_with(self.title)));
        Init { name: self.container.name.clone(), idle, said: self.said }
    }
}

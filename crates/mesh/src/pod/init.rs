//! The settings of an init container: its arguments and its environment, as the drop-in reads them.

use super::expand::{Environment, Expanded};
use super::facts::{Container, Pod, Value};
use super::given::GivenSettings;
use super::mesh::{Argument, Form};
use crate::mesh::Mesh;
use crate::settings::{self, Setting, SettingRow, Topic};
use crate::sources::pflag::{self, Flags, PflagWord};
use crate::sources::{Source, boolean};

/// The container that only validates what a plugin has set.
pub const VALIDATION: &str = "istio-validation";
/// The names that Istio gives such containers.
const NAMES: [&str; 2] = [super::decision::INIT, VALIDATION];
/// Programs and commands that such arguments follow.
const COMMANDS: [&str; 2] = ["istio-iptables", "apply"];

/// What an init container that is about capture does.
#[derive(Clone, Debug)]
pub(super) struct Init {
    pub(super) name: String,
    /// Why it sets no rules; `None` if it does.
    pub(super) idle: Option<&'static str>,
    /// Whether the pod's annotations count for what it leaves open.
    pub(super) reads_annotations: bool,
    /// Whether variables of another object (`envFrom`) may set what it leaves open.
    pub(super) may_have_more: bool,
    pub(super) settings: GivenSettings,
    /// The arguments that could not be read, each with the reason.
    pub(super) unread: Vec<String>,
}

/// Reads an init container; `None` if it is about something else.
pub(super) fn read(container: &Container, pod: &Pod, title: &str) -> Option<Init> {
    let words: Vec<&String> = container.command.iter().chain(&container.args).collect();
    // Of a shell's script, only the program is looked for.
    let script: Option<Vec<String>> = script(&words).map(|script| {
        let words = script.split(|c: char| c.is_whitespace() || ";&|()'\"".contains(c));
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    });
    let words = script.as_ref().map_or(words, |script| script.iter().collect());
    let flags_at = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    let (dialect, start) = spoken(container, &words, flags_at)?;
    let flags = Flags::of(dialect.rows().filter(|row| !row.long.is_empty()));
    let mut reader = Arguments {
        dialect,
        flags,
        container,
        pod,
        title,
        settings: GivenSettings::by(title),
        every: Vec::new(),
        unread: Vec::new(),
    };
    let (ContainerDialect::Of(mesh, _) | ContainerDialect::Ours(mesh)) = dialect;
    if mesh != Mesh::default() {
        let source = reader.source("its program");
        reader.settings.set(Setting::Mesh, mesh.name(), source);
    }
    let environment = Environment::of(container);
    match script {
        Some(_) => reader.unread.push("a script of a shell; the pod's annotations count instead".to_owned()),
        None => reader.words(&words[start.unwrap_or(flags_at)..], &environment),
    }
    reader.variables(&environment);
    if script.is_none() {
        reader.unsaid();
    }
    let init = reader.finish();
    Some(Init { reads_annotations: init.reads_annotations || script.is_some(), ..init })
}

/// The script that a shell is given to run.
fn script<'a>(words: &[&'a String]) -> Option<&'a String> {
    let shell = words.first().and_then(|word| word.rsplit('/').next())?;
    let is_option = |word: &&String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let at = words.iter().position(is_option).filter(|_| ["sh", "ash", "bash", "dash"].contains(&shell))?;
    words.get(at + 1).copied()
}

/// The program in whose words a container speaks.
#[derive(Clone, Copy)]
enum ContainerDialect {
    /// Istio's, or ours.
    Ours(Mesh),
    /// That of another mesh.
    Of(Mesh, &'static Form),
}

impl ContainerDialect {
    fn rows(self) -> Box<dyn Iterator<Item = &'static SettingRow>> {
        match self {
            Self::Ours(mesh) => {
                let is_run = |row: &&SettingRow| !row.topic.is_of_one_command() && row.topic != Topic::DropIn;
                Box::new(settings::of(mesh).filter(is_run).filter(|row| row.setting != Setting::Filename))
            }
            Self::Of(mesh, _) => Box::new(mesh.settings().iter()),
        }
    }
}

/// The mesh whose flags a container has, and where its arguments start, if its program shows it.
fn spoken(
    container: &Container,
    words: &[&String],
    flags_at: usize,
) -> Option<(ContainerDialect, Option<usize>)> {
    let last = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let start = words.iter().position(|word| COMMANDS.contains(&&*last(word))).map(|at| at + 1);
    // Of other programs' `apply` nothing is known.
    let is_ours = |word: &String| [COMMANDS[0], OWN].contains(&&*last(word));
    let ours = container.name == OWN || words.iter().any(|word| is_ours(word));
    for (mesh, form) in Mesh::ALL.iter().filter_map(|mesh| Some((*mesh, mesh.pods()?))) {
        let command = words[..flags_at].iter().rposition(|word| form.commands.contains(&&*last(word)));
        let named = form.init_containers.contains(&&*container.name) && !(ours && start.is_some());
        if named || command.is_some() {
            return Some((ContainerDialect::Of(mesh, form), command.map(|at| at + 1)));
        }
    }
    let known = NAMES.contains(&container.name.as_str());
    (known || (start.is_some() && ours))
        .then(|| (ContainerDialect::Ours(pflag::mesh_of(words).unwrap_or_default()), start))
}

/// What the binary calls itself.
const OWN: &str = "sidecar-init";

struct Arguments<'a> {
    dialect: ContainerDialect,
    flags: Flags,
    container: &'a Container,
    pod: &'a Pod,
    title: &'a str,
    settings: GivenSettings,
    /// All settings that were given, those of how to run included.
    every: Vec<(Setting, String)>,
    unread: Vec<String>,
}

/// Whether a pod's init container may set this for the pod: what is captured, and not how a container runs.
fn is_of_pod(row: &SettingRow) -> bool {
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
                        PflagWord::Flags(flags) => flags.first().map(|(row, _)| row.setting),
                        PflagWord::NeedsValue(_, row) => Some(row.setting),
                        PflagWord::End | PflagWord::Unknown { .. } | PflagWord::Bare => None,
                    };
                    self.unknowable(setting, name, &variable);
                    continue;
                }
            };
            match pflag::word(&text, &self.flags) {
                PflagWord::End => {
                    for word in words.by_ref() {
                        self.bare(word);
                    }
                }
                PflagWord::Flags(flags) => flags.into_iter().for_each(|(row, value)| self.say(row, value)),
                PflagWord::NeedsValue(flags, row) => {
                    flags.into_iter().for_each(|(row, value)| self.say(row, value));
                    match words.next().map(|word| environment.expand(word)) {
                        Some(Expanded::Text(value)) => self.say(row, value),
                        Some(Expanded::Unknowable(variable)) => {
                            self.unknowable(Some(row.setting), &row.option(), &variable);
                        }
                        None => {
                            let source = self.source(&row.option());
                            self.settings.fault(Some(row.setting), source, None, pflag::lacks_value(row));
                        }
                    }
                }
                PflagWord::Unknown { name, has_value } => {
                    // The image may have a patched program.
                    self.unread.push(format!("{name}: {}", pflag::unknown(&name, &self.flags)));
                    if !has_value && words.as_slice().first().is_some_and(|next| !next.starts_with('-')) {
                        words.next();
                    }
                }
                PflagWord::Bare => self.bare(&text),
            }
        }
    }

    fn bare(&mut self, word: &str) {
        let source = self.source("argument");
        let text = pflag::stray(&self.flags);
        self.settings.fault(None, source, Some(word), text);
    }

    fn unknowable(&mut self, setting: Option<Setting>, word: &str, variable: &str) {
        let source = self.source(word);
        let otherwise = match setting {
            Some(setting) => format!("; set it with {}", setting.row().option()),
            None => String::new(),
        };
        let text = format!(
            "needs the variable {variable}, which valueFrom, envFrom or a Service fills in when the container starts{otherwise}"
        );
        self.settings.fault(setting, source, None, text);
    }

    fn say(&mut self, row: &'static SettingRow, value: String) {
        let before = self.every.iter().find(|(setting, _)| *setting == row.setting);
        let value = match (before, row.separator) {
            (Some((_, before)), Some(separator)) => format!("{before}{separator}{value}"),
            _ => value,
        };
        self.every.retain(|(setting, _)| *setting != row.setting);
        self.every.push((row.setting, value.clone()));
        if is_of_pod(row) {
            let source = self.source(&row.option());
            self.settings.set(row.setting, value, source);
        }
    }

    /// The variables, for settings without a flag. One that is set to nothing counts as not set, but where it is all there is.
    fn variables(&mut self, environment: &Environment<'_>) {
        for row in self.dialect.rows() {
            if self.every.iter().any(|(setting, _)| *setting == row.setting) {
                continue;
            }
            for name in row.variables {
                let source = self.source(name);
                match environment.get(name) {
                    Some(Value::Text(value)) if row.long.is_empty() || !value.is_empty() => {
                        self.every.push((row.setting, value.clone()));
                        if is_of_pod(row) {
                            self.settings.set(row.setting, value, source);
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

    /// The program's values for settings that are not given.
    fn unsaid(&mut self) {
        let ContainerDialect::Of(_, form) = self.dialect else { return };
        for (setting, value) in form.unsaid {
            if self.every.iter().all(|(given, _)| given != setting) {
                let source = self.source(&setting.row().option());
                self.settings.set(*setting, *value, source);
            }
        }
    }

    /// Adds what arguments hold beside settings, below what the settings are given.
    fn held(&mut self) {
        let ContainerDialect::Of(_, form) = self.dialect else { return };
        let mut left = std::mem::take(&mut self.every);
        while let Some((setting, value)) = left.pop() {
            let option = setting.row().option();
            match (form.argument)(self.pod, setting, &value, &|key| self.source(&format!("{option}: {key}")))
            {
                Some(Argument::Settings(given, problems)) => {
                    for (setting, given) in given {
                        let is_given = self.every.iter().chain(&left).any(|(other, _)| *other == setting);
                        match is_of_pod(setting.row()) {
                            _ if is_given => {}
                            true => self.settings.set(setting, given.value, given.source),
                            false => left.push((setting, given.value)),
                        }
                    }
                    self.settings.add_problems(problems);
                }
                Some(Argument::Unread(why)) => self.unread.push(format!("{option}: {value:?} {why}")),
                None => {}
            }
            self.every.push((setting, value));
        }
    }

    fn finish(mut self) -> Init {
        self.held();
        let is_on = |setting: Setting| {
            let given = self.every.iter().find(|(given, _)| *given == setting);
            given.and_then(|(_, value)| boolean(value)).unwrap_or(false)
        };
        let ours = [
            (
                Setting::SkipRuleApply,
                "it validates what a plugin has set, and sets no rules (--skip-rule-apply)",
            ),
            (Setting::DryRun, "it prints the rules and sets none (--dry-run)"),
            (Setting::CleanupOnly, "it removes rules and sets none (--cleanup-only)"),
        ];
        let (idle, reads_annotations) = match self.dialect {
            ContainerDialect::Ours(_) => (&ours[..], false),
            ContainerDialect::Of(_, form) => (form.idle, form.init_reads_annotations),
        };
        let idle = idle.iter().find(|(setting, _)| is_on(*setting)).map(|(_, text)| *text);
        let is_open = |row: &'static SettingRow| {
            let is_given = self.every.iter().any(|(given, _)| *given == row.setting);
            is_of_pod(row) && !row.variables.is_empty() && !is_given
        };
        let may_have_more = self.container.has_foreign_env && self.dialect.rows().any(is_open);
        debug_assert!(self.settings.problems().iter().all(|problem| problem.name.starts_with(self.title)));
        let name = self.container.name.clone();
        Init { name, idle, reads_annotations, may_have_more, settings: self.settings, unread: self.unread }
    }
}

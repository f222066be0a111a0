//! Settings of an init container: its arguments and environment, as the drop-in reads them.

use super::facts::{Container, Pod};
use super::given::GivenSettings;
use super::mesh::{Argument, Form};
use crate::mesh::Mesh;
use crate::settings::{self, Setting, SettingRow, Topic};
use crate::sources::pflag::{self, Flags, PflagWord};
use crate::sources::{Given, Raw, Source, boolean};
use std::collections::BTreeMap;

/// Container that only validates a plugin's rules.
pub const VALIDATION: &str = "istio-validation";
const NAMES: [&str; 2] = [super::decision::INIT, VALIDATION];
const COMMANDS: [&str; 2] = ["istio-iptables", "apply"];

#[derive(Clone, Debug, Default)]
pub(super) struct Init {
    pub(super) name: String,
    pub(super) idle: Option<&'static str>,
    pub(super) reads_annotations: bool,
    pub(super) may_have_more: bool,
    pub(super) settings: GivenSettings,
    pub(super) unread: Vec<String>,
}

pub(super) fn read(container: &Container, pod: &Pod) -> Option<Init> {
    let words: Vec<&String> = container.command.iter().chain(&container.args).collect();
    // A shell script is only searched for the program.
    let script: Option<Vec<String>> = script(&words).map(|script| {
        let words = script.split(|c: char| c.is_whitespace() || ";&|()'\"".contains(c));
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    });
    let words = script.as_ref().map_or(words, |script| script.iter().collect());
    let flags_at = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    let (mesh, form, start) = program(container, &words, flags_at)?;
    let is_run = |row: &&SettingRow| {
        !row.topic.is_of_one_command() && row.topic != Topic::DropIn && row.setting != Setting::Filename
    };
    let rows: Vec<&SettingRow> = match form {
        Some(_) => mesh.settings().iter().collect(),
        None => settings::of(mesh).filter(is_run).collect(),
    };
    let mut init = Init { name: container.name.clone(), ..Init::default() };
    if mesh != Mesh::default() {
        init.settings.set(Setting::Mesh, mesh.name(), init.source("its program"));
    }
    let environment = Environment::of(container);
    let flags = match script {
        Some(_) => {
            init.unread.push("a shell script; the pod's annotations apply instead".to_owned());
            Vec::new()
        }
        None => {
            let flags = Flags::of(rows.iter().copied());
            init.words(&words[start.unwrap_or(flags_at)..], &flags, &environment)
        }
    };
    let variable = |name: &str| Some(environment.variables.get(name)?.as_ref()?.into());
    let is_own = |row: &SettingRow| rows.iter().any(|own| own.setting == row.setting);
    let placed = |(setting, given): (Setting, &Given)| {
        let source = init.source(&given.source.to_string());
        (setting, Given { value: given.value.clone(), source })
    };
    let mut given = Raw::of(Raw::new(flags, is_own, variable).iter().map(placed));
    let is_open = |row: &&&SettingRow| is_of_pod(row) && given.get(row.setting).is_none();
    let unknown = |name: &&&str| environment.variables.get(**name).is_some_and(Option::is_none);
    for row in rows.iter().filter(is_open) {
        if let Some(name) = row.variables.iter().find(unknown) {
            init.unknowable(Some(row.setting), name, name);
        }
    }
    if let Some(form) = form {
        for (setting, value) in form.implied.iter().filter(|_| script.is_none()) {
            if given.get(*setting).is_none() {
                init.settings.set(*setting, *value, init.source(&setting.row().option()));
            }
        }
        init.read_configurations(form, pod, &mut given);
    }
    let of_form = |form: &Form| (form.idle, form.init_reads_annotations);
    let (idle, reads_annotations) = form.map_or((IDLE, false), of_form);
    let is_on = |setting| given.get(setting).is_some_and(|given| boolean(&given.value) == Some(true));
    init.idle = idle.iter().find(|(setting, _)| is_on(*setting)).map(|(_, text)| *text);
    init.reads_annotations = reads_annotations || script.is_some();
    let is_open =
        |row: &&SettingRow| is_of_pod(row) && !row.variables.is_empty() && given.get(row.setting).is_none();
    init.may_have_more = container.has_foreign_env && rows.iter().any(is_open);
    for (setting, given) in given.iter().filter(|(setting, _)| is_of_pod(setting.row())) {
        init.settings.set(setting, given.value.clone(), given.source.clone());
    }
    Some(init)
}

fn script<'a>(words: &[&'a String]) -> Option<&'a String> {
    let shell = words.first().and_then(|word| word.rsplit('/').next())?;
    let is_option = |word: &&String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let at = words.iter().position(is_option).filter(|_| ["sh", "ash", "bash", "dash"].contains(&shell))?;
    words.get(at + 1).copied()
}

/// Mesh of a container's flags, the mesh's form if the program is the mesh's own, and the first argument's index.
fn program(
    container: &Container,
    words: &[&String],
    flags_at: usize,
) -> Option<(Mesh, Option<&'static Form>, Option<usize>)> {
    let last = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let start = words.iter().position(|word| COMMANDS.contains(&&*last(word))).map(|at| at + 1);
    // Other programs' `apply` is unknown.
    let is_ours = |word: &String| [COMMANDS[0], OWN].contains(&&*last(word));
    let ours = container.name == OWN || words.iter().any(|word| is_ours(word));
    for (mesh, form) in Mesh::ALL.iter().filter_map(|mesh| Some((*mesh, mesh.pods()?))) {
        let command = words[..flags_at].iter().rposition(|word| form.commands.contains(&&*last(word)));
        let named = form.init_containers.contains(&&*container.name) && !(ours && start.is_some());
        if named || command.is_some() {
            return Some((mesh, Some(form), command.map(|at| at + 1)));
        }
    }
    let known = NAMES.contains(&container.name.as_str());
    let mesh = || pflag::mesh_of(words).unwrap_or_default();
    (known || (start.is_some() && ours)).then(|| (mesh(), None, start))
}

const OWN: &str = "sidecar-init";

const IDLE: &[(Setting, &str)] = &[
    (Setting::SkipRuleApply, "it validates a plugin's rules and sets none (--skip-rule-apply)"),
    (Setting::DryRun, "it prints the rules and sets none (--dry-run)"),
    (Setting::CleanupOnly, "it removes rules and sets none (--cleanup-only)"),
];

fn is_of_pod(row: &SettingRow) -> bool {
    matches!(row.topic, Topic::Capture | Topic::Facts) && row.setting != Setting::IptablesVersion
}

impl Init {
    fn source(&self, word: &str) -> Source {
        Source::Container { name: self.name.clone(), word: word.to_owned() }
    }

    fn words(
        &mut self,
        words: &[&String],
        flags: &Flags,
        environment: &Environment<'_>,
    ) -> Vec<(Setting, String)> {
        let mut given = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let expanded = environment.expand(word);
            // A known flag identifies the setting even if its value is unknown.
            let text = expanded.as_deref().unwrap_or(word.split('=').next().unwrap_or_default());
            let read = pflag::word(text, flags);
            if let Err(variable) = &expanded {
                let setting = match read {
                    PflagWord::Flags(_, Some(row)) => Some(row.setting),
                    PflagWord::Flags(found, None) => found.first().map(|(row, _)| row.setting),
                    PflagWord::End | PflagWord::Unknown { .. } | PflagWord::Bare => None,
                };
                self.unknowable(setting, text, variable);
                continue;
            }
            let (found, waiting) = match read {
                PflagWord::Flags(found, waiting) => (found, waiting),
                PflagWord::End => {
                    words.by_ref().for_each(|word| self.bare(word, flags));
                    break;
                }
                PflagWord::Unknown { name, has_value } => {
                    // The image may contain a patched program.
                    self.unread.push(format!("{name}: {}", pflag::unknown(&name, flags)));
                    if !has_value && words.as_slice().first().is_some_and(|next| !next.starts_with('-')) {
                        words.next();
                    }
                    continue;
                }
                PflagWord::Bare => {
                    self.bare(text, flags);
                    continue;
                }
            };
            given.extend(found.into_iter().map(|(row, value)| (row.setting, value)));
            let Some(row) = waiting else { continue };
            match words.next().map(|word| environment.expand(word)) {
                Some(Ok(value)) => given.push((row.setting, value)),
                Some(Err(variable)) => self.unknowable(Some(row.setting), &row.option(), variable),
                None => {
                    let source = self.source(&row.option());
                    self.settings.fault(Some(row.setting), source, None, pflag::lacks_value(row));
                }
            }
        }
        given
    }

    fn bare(&mut self, word: &str, flags: &Flags) {
        self.settings.fault(None, self.source("argument"), Some(word), pflag::stray(flags));
    }

    fn unknowable(&mut self, setting: Option<Setting>, word: &str, variable: &str) {
        let otherwise = setting.map(|setting| format!("; give {} instead", setting.row().option()));
        let text = format!(
            "needs the variable {variable}, set only at container start by valueFrom, envFrom or a Service{}",
            otherwise.unwrap_or_default()
        );
        self.settings.fault(setting, self.source(word), None, text);
    }

    /// Reads arguments with several settings, such as a whole configuration; single settings override them.
    fn read_configurations(&mut self, form: &Form, pod: &Pod, given: &mut Raw) {
        for (setting, Given { value, .. }) in given.clone().iter() {
            let option = setting.row().option();
            match (form.argument)(pod, setting, value, &|key| self.source(&format!("{option}: {key}"))) {
                Some(Argument::Settings(found, problems)) => {
                    *given = std::mem::take(given).over(Raw::of(found));
                    self.settings.add_problems(problems);
                }
                Some(Argument::Unread(why)) => self.unread.push(format!("{option}: {value:?} {why}")),
                None => {}
            }
        }
        for (setting, Given { value, .. }) in given.iter() {
            if let Some([why, _]) = setting.row().refused.filter(|_| boolean(value) == Some(true)) {
                self.unread.push(format!("{}: {value:?} {why}", setting.row().option()));
            }
        }
    }
}

/// A container's variables, each expanded with earlier ones. Kubernetes expands arguments with them: `$(NAME)` becomes the
/// value, and `$$` becomes `$` (`third_party/forked/golang/expansion/expand.go`).
struct Environment<'a> {
    /// `None` if the value is unknown before the container starts.
    variables: BTreeMap<&'a str, Option<String>>,
    has_foreign_env: bool,
}

impl<'a> Environment<'a> {
    fn of(container: &'a Container) -> Self {
        let mut environment = Self { variables: BTreeMap::new(), has_foreign_env: container.has_foreign_env };
        for variable in &container.env {
            let text = variable.value.as_ref().and_then(|text| environment.expand(text).ok());
            environment.variables.insert(&variable.name, text);
        }
        environment
    }

    /// Expands references; one to an unset variable stays; a variable with an unknown value is the error.
    fn expand<'t>(&self, text: &'t str) -> Result<String, &'t str> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(tail) = rest.strip_prefix('$') {
                expanded.push('$');
                rest = tail;
                continue;
            }
            let reference = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'));
            let Some((name, tail)) = reference else {
                expanded.push('$');
                continue;
            };
            match self.variables.get(name) {
                Some(Some(value)) => expanded.push_str(value),
                None if !self.has_foreign_env && !is_of_service(name) => {
                    expanded.push_str(&format!("$({name})"));
                }
                Some(None) | None => return Err(name),
            }
            rest = tail;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }
}

/// True if the kubelet may set a variable for a Service in the namespace; `enableServiceLinks: false` disables all except
/// `KUBERNETES_*` (`FromServices` in `pkg/kubelet/envvars`).
fn is_of_service(name: &str) -> bool {
    let has = |part: &str| name.find(part).is_some_and(|at| at > 0);
    let is_of_port = |part: &str| {
        name.split_once(part).is_some_and(|(service, port)| {
            !service.is_empty()
                && (port.is_empty() || port.starts_with(|c: char| c == '_' || c.is_ascii_digit()))
        })
    };
    has("_SERVICE_HOST") || is_of_port("_SERVICE_PORT") || is_of_port("_PORT_") || name.ends_with("_PORT")
}

#[cfg(test)]
mod tests {
    use super::super::facts::Variable;
    use super::*;

    #[test]
    fn references_expand_as_in_kubernetes() {
        let text =
            |name: &str, value: &str| Variable { name: name.to_owned(), value: Some(value.to_owned()) };
        let secret = Variable { name: "SECRET".to_owned(), value: None };
        let env = vec![text("A", "1"), text("B", "$(A)2$(C)"), secret, text("D", "$(SECRET)")];
        let mut container = Container { env, ..Container::default() };
        let check = |container: &Container, word: &str, expected: &str| {
            let expanded = Environment::of(container).expand(word);
            assert_eq!(expanded.unwrap_or_else(|name| format!("unknowable {name}")), expected, "{word:?}");
        };
        check(&container, "$(A),$(B)", "1,12$(C)");
        check(&container, "$$(A) $$$(A) $A $ $(A", "$(A) $1 $A $ $(A");
        check(&container, "$(none)", "$(none)");
        check(&container, "x$(SECRET)", "unknowable SECRET");
        check(&container, "$(D)", "unknowable D");
        check(&container, "$()é$(A)", "$()é1");
        for of_service in
            ["KUBERNETES_SERVICE_HOST", "DB_SERVICE_PORT", "DB_SERVICE_PORT_HTTP", "DB_PORT_80_TCP_ADDR"]
        {
            check(&container, &format!("x$({of_service})"), &format!("unknowable {of_service}"));
        }
        check(&container, "$(_SERVICE_HOST) $(DB_PORTS)", "$(_SERVICE_HOST) $(DB_PORTS)");
        container.has_foreign_env = true;
        check(&container, "$(none)", "unknowable none");
    }
}

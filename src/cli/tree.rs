//! The command tree, built from the tables of commands and settings, for help and completions. Calls are parsed without it
//! ([`super::arguments`]), so it can describe each option in full.

use super::command::{COMMANDS, CommandEntry, is_global};
use crate::cni;
use clap::{Arg, ArgAction, Command, ValueHint, builder::PossibleValuesParser};
use command_line::columns;
use command_line::sections::{Exits, described};
use command_line::topics::{HELP, HELP_ABOUT, pointer};
use mesh::settings::{self, Setting, SettingKind, SettingRow, Topic, mapping};
use mesh::{Mesh, quoted};

pub(super) const VERSION: &str = "version";
pub(super) const ABOUT: &str = "Sets the rules that send a pod's traffic through its service mesh proxy";
pub(super) const CNI_ABOUT: &str = "Serve a container runtime as a CNI plugin";
pub(super) const PROGRAM: &str = "sidecar-init";
/// Start of help for flags without effect.
const NO_EFFECT: &str = "No effect";
pub(super) const BASIC: [(&str, &str); 2] = [(HELP, HELP_ABOUT), (VERSION, "Print the version")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The most common options, one line each.
    Summary,
    Full,
    All,
    /// Like [`Extent::All`], without upstream's logging flags that have no effect.
    Proposed,
}

pub(super) const PLUGIN: &str = "A plugin of the Container Network Interface, chained after the plugins that give a container its \
                                 interface and addresses. A container runtime calls it by the name sidecar-cni, or with \
                                 CNI_COMMAND set; it takes no flags. ADD sets a container's rules, CHECK compares them, \
                                 DEL removes them, GC forgets deleted containers, STATUS checks whether ADD would work, VERSION \
                                 lists the supported versions of the specification.\n\nA pod's annotations select the captured \
                                 traffic, if the runtime passes them; else the network configuration does.";
pub(super) const PLUGIN_EXAMPLES: &[&str] = &["sidecar-init cni install --watch"];
pub(super) const PLUGIN_EXITS: &Exits =
    &[("0", "done"), ("1", "failed; the error is on standard output, in the specification's format")];

pub(super) fn tree(mesh: Mesh, extent: Extent) -> Command {
    let of = |group| {
        let entries = COMMANDS.iter().filter(move |entry| entry.within().0 == group);
        entries.map(move |entry| command(entry, mesh, extent))
    };
    let globals = settings::of(mesh).filter(|row| is_global(row));
    let basic = BASIC.map(|(name, about)| Command::new(name).about(about));
    Command::new(PROGRAM)
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .term_width(columns::of_help())
        .subcommands(of(None))
        .subcommand(
            Command::new(cni::COMMAND)
                .about(CNI_ABOUT)
                .long_about(described(PLUGIN, PLUGIN_EXAMPLES, PLUGIN_EXITS, columns::of_help()))
                .subcommands(of(Some(cni::COMMAND)))
                .arg(help_flag())
                .after_help(cni::help()),
        )
        .subcommands(basic)
        .arg(help_flag())
        .args(globals.map(|row| argument(row, row.short, extent).global(true)))
        .after_help(pointer(PROGRAM))
}

fn help_flag() -> Arg {
    Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::SetTrue)
        .help("Print help; -h is a summary, --help-all adds flags without effect")
}

pub(super) fn command(entry: &CommandEntry, mesh: Mesh, extent: Extent) -> Command {
    let about = described(entry.long_about, entry.examples, entry.exits, columns::of_help());
    let mut command =
        Command::new(entry.within().1).about(entry.about).long_about(about).disable_help_flag(true);
    let environment: String = entry.rows(mesh).filter(|row| row.long.is_empty()).map(only_variable).collect();
    if !environment.is_empty() {
        command = command.after_long_help(format!("Only in the environment:\n{environment}"));
    }
    let more = if entry.repeats { "..." } else { "" };
    let words: String = entry.words().map(|word| format!(" [{}]{more}", name_of(word))).collect();
    let trailing = entry.trailing.map(|(name, _)| format!(" [-- <{name}>...]")).unwrap_or_default();
    if !words.is_empty() {
        command = command.override_usage(format!("sidecar-init {} [OPTIONS]{words}{trailing}", entry.name));
    }
    let trailing = entry.trailing.map(|(name, help)| {
        Arg::new(name).help(help).last(true).num_args(0..).value_hint(ValueHint::AnyPath)
    });
    let arguments = rows(entry, mesh)
        .into_iter()
        .map(|row| argument(row, entry.short(row), extent).global(is_global(row)));
    let words = ["first", "second"].into_iter().zip(entry.words());
    let words = words.map(|(name, word)| valued(Arg::new(name), word.row()).hide(true));
    command.args(trailing).arg(help_flag()).args(arguments).args(words)
}

/// Flags of a command for a mesh in the order of help: the command's own first, global ones last. Among the capture flags, flags
/// that a pod can set precede flags that are the same for all pods of a mesh.
pub(super) fn rows(entry: &CommandEntry, mesh: Mesh) -> Vec<&'static SettingRow> {
    let mut rows: Vec<&SettingRow> = entry.rows(mesh).filter(|row| !row.long.is_empty()).collect();
    let headings: Vec<&str> = rows.iter().map(|row| row.topic.heading()).collect();
    let place = |row: &SettingRow| headings.iter().position(|heading| *heading == row.topic.heading());
    let is_of_pods = |row: &SettingRow| row.topic != Topic::Capture || pod_source(row).is_some();
    rows.sort_by_key(|row| (!row.topic.is_of_one_command(), is_global(row), place(row), !is_of_pods(row)));
    rows
}

pub(super) fn name_of(word: Setting) -> String {
    word.row().long.to_ascii_uppercase()
}

fn only_variable(row: &SettingRow) -> String {
    let mut text = format!("  {}\n", row.variables.join(", "));
    for line in described_setting(row, None) {
        text.push_str(&format!("      {line}\n"));
    }
    text
}

fn argument(row: &SettingRow, short: Option<char>, extent: Extent) -> Arg {
    valued(Arg::new(row.long), row)
        .long(row.long)
        .short(short)
        .action(ArgAction::Set)
        .help(row.help)
        .long_help(described_setting(row, short).join("\n"))
        .help_heading(row.topic.heading())
        .hide_short_help(matches!(row.topic, Topic::Validation | Topic::Logging | Topic::Compatibility))
        .hide(match extent {
            Extent::Summary | Extent::Full => row.help.starts_with(NO_EFFECT),
            Extent::All => false,
            Extent::Proposed => row.topic == Topic::Compatibility,
        })
}

/// An argument with a setting's values, for completions. Its help lists them in a sentence.
fn valued(argument: Arg, row: &SettingRow) -> Arg {
    let argument = argument.hide_possible_values(true);
    match row.kind {
        SettingKind::Value(name) => argument
            .value_name(name)
            .num_args(1)
            .allow_hyphen_values(true)
            .value_parser(PossibleValuesParser::new(row.values)),
        SettingKind::Switch => argument
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .value_parser(PossibleValuesParser::new(["true", "false"])),
    }
}

fn described_setting(row: &SettingRow, short: Option<char>) -> Vec<String> {
    let has_both = !row.long.is_empty() && !row.variables.is_empty();
    let lines = [
        Some(row.help.to_owned()),
        has_both.then(|| format!("Variable: {}", row.variables.join(", "))),
        pod_source(row).map(|source| format!("Pod: {source}")),
        example(row, short).map(|example| format!("Example: {example}")),
    ];
    lines.into_iter().flatten().collect()
}

fn pod_source(row: &SettingRow) -> Option<String> {
    if !row.annotations.is_empty() {
        return Some(row.annotations.join(", "));
    }
    let mut of_proxy = mapping::FIELDS.iter().chain(mapping::VARIABLES);
    let (name, _) = of_proxy.find(|(_, setting)| *setting == row.setting)?;
    Some(format!("{name} of the container {}", mapping::PROXY))
}

fn example(row: &SettingRow, short: Option<char>) -> Option<String> {
    // The help of a setting with few values names all of them and the default.
    let is_named = |example: &&str| {
        let (_, default) = row.help.split_once("[default: ").unwrap_or_default();
        !row.values.is_empty() || default.trim_end_matches(']') == *example
    };
    if row.topic == Topic::Compatibility {
        return None;
    }
    let value = quoted(row.example.filter(|example| !is_named(example))?);
    Some(match (short, row.long) {
        (Some(short), _) => format!("-{short} {value}"),
        (None, "") => format!("{}={value}", row.variables[0]),
        (None, long) => format!("--{long} {value}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_tree_is_consistent() {
        for mesh in Mesh::ALL {
            tree(*mesh, Extent::All).debug_assert();
        }
    }
}

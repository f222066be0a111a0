//! Completions for zsh, in the words of its own `_arguments`.

use super::proposals::{DROP_IN, Flag, PROGRAM, Values, commands, flags, global_flags, groups, other_meshes};
use crate::cli::command::{COMMANDS, Entry};
use mesh::Mesh;

/// The script: a file `_sidecar-init` of a folder in `fpath`, or for `source`.
pub(super) fn script() -> String {
    let mut text = format!(
        "#compdef {PROGRAM} {DROP_IN}\n# What zsh completes for sidecar-init. Printed by: sidecar-init completions zsh\n\n"
    );
    text.push_str(MESH);
    for entry in COMMANDS {
        text.push_str(&function(entry));
    }
    for group in groups() {
        text.push_str(&dispatcher(&format!("_{PROGRAM}-{group}"), Some(group), &[]));
    }
    text.push_str(&dispatcher(&format!("_{PROGRAM}-commands"), None, &global_flags()));
    text.push_str(&format!(
        "_{PROGRAM}() {{\n    if [[ $service == {DROP_IN} ]]; then\n        _{PROGRAM}-{DROP_IN}\n    else\n        \
         _{PROGRAM}-commands\n    fi\n}}\n\nif [[ $funcstack[1] == _{PROGRAM} ]]; then\n    _{PROGRAM} \"$@\"\nelse\n    \
         compdef _{PROGRAM} {PROGRAM} {DROP_IN}\nfi\n"
    ));
    text
}

/// What finds the mesh that the words name.
const MESH: &str = r#"_sidecar-init-mesh() {
    local i
    REPLY=''
    for ((i = 2; i <= $#words; i++)); do
        case $words[i] in
        --mesh=*) REPLY=${words[i]#--mesh=} ;;
        --mesh) REPLY=${words[i + 1]-} ;;
        esac
    done
}

"#;

/// The function of a command, which is given the words from its name on.
fn function(entry: &Entry) -> String {
    let call = |mesh| {
        let mut lines: Vec<String> = flags(entry, mesh).iter().flat_map(specs).collect();
        lines.push(HELP.to_owned());
        if let Some(word) = entry.word {
            let row = word.row();
            lines.push(format!("'1:{}:{}'", row.long, action(Values::of(row))));
        }
        arguments("-s -S", &lines)
    };
    let others: String = other_meshes(entry).map(|mesh| format!("    {mesh}) {} ;;\n", call(mesh))).collect();
    let usual = call(Mesh::default());
    match others.is_empty() {
        true => format!("{}() {{\n    {usual}\n}}\n\n", name(entry)),
        false => format!(
            "{}() {{\n    local REPLY\n    _{PROGRAM}-mesh\n    case $REPLY in\n{others}    *) {usual} ;;\n    esac\n}}\n\n",
            name(entry)
        ),
    }
}

/// A function that finds the command among the words, and hands over to the command's.
fn dispatcher(function: &str, group: Option<&str>, globals: &[Flag]) -> String {
    let mut lines: Vec<String> = globals.iter().flat_map(specs).collect();
    lines.push(HELP.to_owned());
    if group.is_none() {
        lines.push("'(-V --version)'{-V,--version}'[Print the version]'".to_owned());
    }
    lines.extend(["'1:command:->command'".to_owned(), "'*:: :->words'".to_owned()]);
    let list: String = commands(group)
        .iter()
        .map(|(name, about)| format!("            '{name}:{}'\n", quoted(about)))
        .collect();
    let of = COMMANDS.iter().filter(|entry| entry.within().0 == group);
    let mut cases: String =
        of.map(|entry| format!("        {}) {} ;;\n", entry.within().1, name(entry))).collect();
    if group.is_none() {
        cases.extend(groups().map(|group| format!("        {group}) _{PROGRAM}-{group} ;;\n")));
    }
    format!(
        "{function}() {{\n    local context state state_descr line\n    local -a commands\n    typeset -A opt_args\n    {}\n    \
         case $state in\n    command)\n        commands=(\n{list}        )\n        _describe command commands\n        ;;\n    \
         words)\n        case $line[1] in\n{cases}        esac\n        ;;\n    esac\n}}\n\n",
        arguments("-s -S -C", &lines),
    )
}

const HELP: &str = "'(-h --help)'{-h,--help}'[Print help]'";

fn name(entry: &Entry) -> String {
    format!("_{PROGRAM}-{}", entry.name.replace(' ', "-"))
}

fn arguments(options: &str, lines: &[String]) -> String {
    format!("_arguments {options} \\\n        {}", lines.join(" \\\n        "))
}

/// The specifications of a flag for `_arguments`, a line for each of its forms: they exclude each other.
fn specs(flag: &Flag) -> Vec<String> {
    let help = quoted(flag.help).replace('[', "\\[").replace(']', "\\]");
    let both: Vec<String> = flag.forms().collect();
    let both = both.join(" ");
    let (value, action) = (flag.value.replace([':', '[', ']'], " "), action(flag.values));
    let tail = |short, long| match flag.values {
        // Only behind an equals sign, or not at all.
        Values::Switch => format!("[{help}]"),
        _ if short => format!("+[{help}]:{value}:{action}"),
        _ => format!("{long}[{help}]:{value}:{action}"),
    };
    let short = flag.short.map(|short| format!("'({both})-{short}{}'", tail(true, "")));
    let long = match flag.values {
        Values::Switch => format!("'({both})--{}=-[{help}]::{value}:(true false)'", flag.long),
        _ => format!("'({both})--{}{}'", flag.long, tail(false, "=")),
    };
    short.into_iter().chain([long]).collect()
}

fn action(values: Values) -> String {
    match values {
        Values::Switch => "(true false)".to_owned(),
        Values::Closed(all) => format!("({})", all.join(" ")),
        Values::File => "_files".to_owned(),
        Values::Folder => "_files -/".to_owned(),
        Values::Free => " ".to_owned(),
    }
}

/// Within single quotes, where a colon ends a part.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "'\\''").replace(':', "\\:")
}

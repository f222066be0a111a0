//! Completions for bash, without the package of that name.
//!
//! bash takes `--flag=value` for three words, and compares prefixes itself.

use super::proposals::{DROP_IN, Flag, PROGRAM, Values, commands, flags, global_flags, groups, other_meshes};
use crate::cli::command::COMMANDS;
use mesh::Mesh;

const START: &str = r#"# What bash completes for sidecar-init. Printed by: sidecar-init completions bash
_sidecar_init() {
    local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} joined='' command='' mesh='' before='' i
    local words='' flags='-h --help' values='' kind='' other=''
    COMPREPLY=()
    # --flag=value comes as three words.
    if [[ $current == = ]]; then
        current='' joined=1
    elif [[ $flag == = ]]; then
        flag=${COMP_WORDS[COMP_CWORD - 2]} joined=1
    fi
"#;

/// Over the words: the mesh is the word behind --mesh, the command's name the one that a case below knows.
const WALK: &str = r#"    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} != = ]]; then
            if [[ $before == --mesh ]]; then mesh=${COMP_WORDS[i]}; fi
            before=${COMP_WORDS[i]}
        fi
        case "$command ${COMP_WORDS[i]}" in
"#;

const END: &str = r#"    if [[ -n $joined && -z $kind ]]; then
        kind=closed values='true false'
    fi
    if [[ -z $kind && $current != -* ]]; then
        kind=$other
    fi
    case $kind in
    closed) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current") ;;
    file)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        ;;
    folder)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        ;;
    free) ;;
    *)
        if [[ $current == -* || -z $words ]]; then words=$flags; fi
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        ;;
    esac
}
"#;

/// The script.
pub(super) fn script() -> String {
    let mut text = START.to_owned();
    let names = |group| commands(group).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    text.push_str(&format!("    if [[ ${{COMP_WORDS[0]##*/}} == {DROP_IN} ]]; then command={DROP_IN}; fi\n"));
    text.push_str(WALK);
    let patterns = |before: &str, names: &[&str]| {
        names.iter().map(|name| format!("'{before} {name}'")).collect::<Vec<_>>().join(" | ")
    };
    text.push_str(&format!("        {}) command=${{COMP_WORDS[i]}} ;;\n", patterns("", &names(None))));
    for group in groups() {
        let patterns = patterns(group, &names(Some(group)));
        text.push_str(&format!("        {patterns}) command=\"{group} ${{COMP_WORDS[i]}}\" ;;\n"));
    }
    text.push_str("        esac\n    done\n    case $command/$mesh in\n");
    let root = format!("        flags+=' -V --version' words='{}'\n", names(None).join(" "));
    text.push_str(&case("/*", &(root + &proposals(&global_flags()))));
    for group in groups() {
        text.push_str(&case(
            &format!("{group}/*"),
            &format!("        words='{}'\n", names(Some(group)).join(" ")),
        ));
    }
    for entry in COMMANDS {
        let word = match entry.word.map(|setting| Values::of(setting.row())) {
            Some(Values::Closed(all)) => format!("        words='{}'\n", all.join(" ")),
            Some(Values::Folder) => "        other=folder\n".to_owned(),
            Some(Values::File) => "        other=file\n".to_owned(),
            Some(Values::Free | Values::Switch) | None => String::new(),
        };
        for mesh in other_meshes(entry) {
            let pattern = format!("'{}/{mesh}'", entry.name);
            text.push_str(&case(&pattern, &(word.clone() + &proposals(&flags(entry, mesh)))));
        }
        let pattern = format!("'{}/'*", entry.name);
        text.push_str(&case(&pattern, &(word + &proposals(&flags(entry, Mesh::default())))));
    }
    text.push_str("    esac\n");
    text.push_str(END);
    text.push_str(&format!("complete -F _sidecar_init {PROGRAM} {DROP_IN}\n"));
    text
}

fn case(pattern: &str, body: &str) -> String {
    format!("    {pattern})\n{body}        ;;\n")
}

/// The flags, and by flag what may follow it.
fn proposals(flags: &[Flag]) -> String {
    let names: Vec<String> = flags.iter().flat_map(Flag::forms).collect();
    let mut text = format!("        flags+=' {}'\n        case $flag in\n", names.join(" "));
    let mut branch = |flags: &mut dyn Iterator<Item = &Flag>, what: &str| {
        let forms: Vec<String> = flags.flat_map(Flag::forms).collect();
        if !forms.is_empty() {
            text.push_str(&format!("        {}) {what} ;;\n", forms.join(" | ")));
        }
    };
    for flag in flags {
        if let Values::Closed(all) = flag.values {
            branch(&mut std::iter::once(flag), &format!("kind=closed values='{}'", all.join(" ")));
        }
    }
    for (values, kind) in [(Values::File, "file"), (Values::Folder, "folder"), (Values::Free, "free")] {
        branch(&mut flags.iter().filter(|flag| flag.values == values), &format!("kind={kind}"));
    }
    text.push_str("        esac\n");
    text
}

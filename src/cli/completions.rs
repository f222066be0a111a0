//! `sidecar-init completions`: scripts for shells, and the proposals that they request.
//!
//! A script passes the words of a line to `sidecar-init completions SHELL -- WORD..`, so the parser of calls decides what may
//! come next, for the mesh and the command of the line. Flags without effect are not proposed.

use super::arguments::{Next, Parser, Read, with_command};
use super::command::COMMANDS;
use super::{Exit, logging::Stdout, report, run, start_logging, tree};
use crate::cni;
use mesh::settings::{Kind, Row, Topic};
use mesh::sources::{Raw, Reader, text};
use mesh::{Problem, Problems, Setting};
use std::ffi::OsString;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// What can complete a line.
enum Proposals {
    /// Words, and what each is for.
    Words(Vec<(String, &'static str)>),
    Files,
    Folders,
}

/// Runs the command, on the words of a line where there are any.
pub(super) fn run(raw: &Raw, mut problems: Vec<Problem>, line: &[OsString]) -> Result<Exit, Problems> {
    if raw.get(Setting::Shell).is_none() {
        problems.push(Problem::of("completions", "needs the name of a shell: bash, zsh or fish"));
    }
    let mut reader = Reader::new(raw, problems);
    let (_, logging) = run::read(&mut reader);
    let shell = run::one_of(&mut reader, Setting::Shell, &[Shell::Bash, Shell::Zsh, Shell::Fish]);
    reader.finish()?;
    start_logging(raw, &logging, Stdout::Answer)?;
    Ok(match (shell, line) {
        (None, _) => Exit::Done,
        (Some(shell), []) => report::text(shell.script()),
        (Some(shell), line) => report::text(&shell.answer(line.to_vec())),
    })
}

impl Shell {
    fn script(self) -> &'static str {
        match self {
            Self::Bash => BASH,
            Self::Zsh => ZSH,
            Self::Fish => FISH,
        }
    }

    /// The answer to a script: on the first line what kind it is, then the words.
    fn answer(self, line: Vec<OsString>) -> String {
        // bash takes --flag=value for three words.
        let line = if self == Self::Bash { joined(line) } else { line };
        match proposals(line, self == Self::Fish) {
            Proposals::Files => "files\n".to_owned(),
            Proposals::Folders => "folders\n".to_owned(),
            Proposals::Words(words) => {
                let word = |(word, about): (String, &str)| match self {
                    Self::Bash => format!("{word}\n"),
                    Self::Zsh => format!("{}:{about}\n", word.replace(':', "\\:")),
                    Self::Fish => format!("{word}\t{about}\n"),
                };
                "words\n".to_owned() + &words.into_iter().map(word).collect::<String>()
            }
        }
    }
}

fn joined(line: Vec<OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut goes_on = false;
    for word in line {
        let is_sign = word == "=";
        match words.last_mut() {
            Some(last) if is_sign || goes_on => last.push(word),
            Some(_) | None => words.push(word),
        }
        goes_on = is_sign;
    }
    words
}

/// The completions of the last word. Where `whole` words are needed, a value comes with its `--flag=`.
fn proposals(line: Vec<OsString>, whole: bool) -> Proposals {
    let mut words = with_command(line);
    let last = words.pop().map(|word| text(&word)).unwrap_or_default();
    let mut parser = Parser::new(&words);
    if words.iter().skip(1).any(|word| matches!(parser.read(word), Read::ForClap(_))) {
        return Proposals::Words(Vec::new());
    }
    match parser.next {
        Next::Value(row) => return values(row, "", &last),
        Next::Behind => return Proposals::Files,
        Next::Any | Next::UnknownValue | Next::Argument => {}
    }
    if let Some((flag, value)) = last.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
        let row = parser.flags.rows().find(|row| row.option() == flag);
        let before = if whole { format!("{flag}=") } else { String::new() };
        return row.map_or(Proposals::Words(Vec::new()), |row| values(row, &before, value));
    }
    let mut words = flags(&parser);
    if !last.starts_with('-') {
        match parser.argument().map(|setting| values(setting.row(), "", &last)) {
            Some(Proposals::Words(values)) if values.is_empty() => {}
            Some(proposals) => return proposals,
            None if parser.entry.is_none() => words = commands(parser.group.as_deref()),
            None => {}
        }
    }
    words.retain(|(word, _)| word.starts_with(&last));
    Proposals::Words(words)
}

/// The values of a setting that begin so, each behind `before`.
fn values(row: &Row, before: &str, start: &str) -> Proposals {
    let of = |words: &[&str]| {
        let words = words.iter().filter(|word| word.starts_with(start));
        Proposals::Words(words.map(|word| (format!("{before}{word}"), "")).collect())
    };
    match row.kind {
        Kind::Switch => of(&["true", "false"]),
        Kind::Value("DIR") => Proposals::Folders,
        Kind::Value("FILE" | "PATH") => Proposals::Files,
        Kind::Value(_) => of(row.values),
    }
}

/// The flags that may come next, in each of their forms.
fn flags(parser: &Parser) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for (row, short) in &parser.flags.0 {
        if !row.long.is_empty() && row.topic != Topic::Compatibility {
            let about = row.help.split(" [default").next().unwrap_or(row.help);
            found.extend(short.map(|short| (format!("-{short}"), about)));
            found.push((row.option(), about));
        }
    }
    let mut add = |words: [&str; 2], about| found.extend(words.map(|word| (word.to_owned(), about)));
    add(["-h", "--help"], "Print help");
    if parser.entry.is_none() && parser.group.is_none() {
        add(["-V", "--version"], "Print the version");
    }
    found
}

/// The commands of a group, or those of no group.
fn commands(group: Option<&str>) -> Vec<(String, &'static str)> {
    let of = COMMANDS.iter().filter(|entry| entry.within().0 == group);
    let mut found: Vec<_> = of.map(|entry| (entry.within().1.to_owned(), entry.about)).collect();
    if group.is_none() {
        found.push((cni::COMMAND.to_owned(), tree::GROUP));
        found.push((tree::VERSION.to_owned(), tree::VERSION_ABOUT));
    }
    found
}

const BASH: &str = r#"# What bash completes for sidecar-init. Printed by: sidecar-init completions bash
_sidecar_init() {
    local current=${COMP_WORDS[COMP_CWORD]} answer
    if [[ $current == = ]]; then current=''; fi
    mapfile -t answer < <(sidecar-init completions bash -- "${COMP_WORDS[@]:0:COMP_CWORD + 1}" 2>/dev/null)
    case ${answer[0]-} in
    files)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        ;;
    folders)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        ;;
    *) COMPREPLY=("${answer[@]:1}") ;;
    esac
}
complete -F _sidecar_init sidecar-init istio-iptables
"#;

/// A file `_sidecar-init` of a folder in `fpath`, or for `source`.
const ZSH: &str = r#"#compdef sidecar-init istio-iptables
# What zsh completes for sidecar-init. Printed by: sidecar-init completions zsh
_sidecar-init() {
    local -a answer proposals
    answer=("${(@f)$(sidecar-init completions zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ $words[CURRENT] == --*=* ]]; then compset -P '*='; fi
    case $answer[1] in
    files) _files ;;
    folders) _files -/ ;;
    *)
        proposals=("${(@)answer[2,-1]}")
        _describe proposal proposals
        ;;
    esac
}

if [[ $funcstack[1] == _sidecar-init ]]; then
    _sidecar-init "$@"
else
    compdef _sidecar-init sidecar-init istio-iptables
fi
"#;

const FISH: &str = r#"# What fish completes for sidecar-init. Printed by: sidecar-init completions fish
function __sidecar_init_proposals
    set -l current (commandline -ct)
    set -l answer (sidecar-init completions fish -- (commandline -opc) "$current" 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
        case words
            set -e answer[1]
            printf '%s\n' $answer
    end
end
for name in sidecar-init istio-iptables
    complete -c $name -f -a '(__sidecar_init_proposals)'
end
"#;

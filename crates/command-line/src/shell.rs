//! Completion scripts for shells, and the shells' proposal formats.
//!
//! A script passes the words of a line to `PROGRAM completions SHELL -- WORD..`, so the program itself completes them. The
//! first line of the output is its kind: `words`, `files` or `folders`.

use std::ffi::{OsStr, OsString};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposals {
    Words(Vec<(String, String)>),
    Files,
    Folders,
}

impl Shell {
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shell| shell.name() == name)
    }

    /// Script for a program with several names: completes each name, and runs the first.
    pub fn script(self, names: &[&str]) -> String {
        let script = match self {
            Self::Bash => BASH,
            Self::Zsh => ZSH,
            Self::Fish => FISH,
        };
        let program = names.first().copied().unwrap_or_default();
        script
            .replace("@NAMES@", &names.join(" "))
            .replace("@FUNCTION@", &program.replace('-', "_"))
            .replace("@PROGRAM@", program)
    }

    /// Words of a line as the program parses them: bash splits `--flag=value` into three.
    pub fn words(self, line: Vec<OsString>) -> Vec<OsString> {
        if self == Self::Bash { joined(line) } else { line }
    }

    /// True if the shell replaces the whole word, so a value must include its `--flag=`.
    pub fn replaces_whole_words(self) -> bool {
        self == Self::Fish
    }

    pub fn answer(self, proposals: Proposals) -> String {
        let word = |(word, about): (String, String)| match self {
            Self::Bash => format!("{word}\n"),
            Self::Zsh => format!("{}:{about}\n", word.replace(':', "\\:")),
            Self::Fish => format!("{word}\t{about}\n"),
        };
        match proposals {
            Proposals::Files => "files\n".to_owned(),
            Proposals::Folders => "folders\n".to_owned(),
            Proposals::Words(words) => {
                "words\n".to_owned() + &words.into_iter().map(word).collect::<String>()
            }
        }
    }
}

impl Proposals {
    pub fn starting<W: Into<String> + AsRef<str>>(
        words: impl IntoIterator<Item = W>,
        start: &str,
        before: &str,
    ) -> Self {
        let words = words.into_iter().filter(|word| word.as_ref().starts_with(start));
        Self::Words(words.map(|word| (before.to_owned() + word.as_ref(), String::new())).collect())
    }
}

fn joined(line: Vec<OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut goes_on = false;
    for word in line {
        let is_sign = word == OsStr::new("=");
        match words.last_mut() {
            Some(last) if is_sign || goes_on => last.push(word),
            Some(_) | None => words.push(word),
        }
        goes_on = is_sign;
    }
    words
}

const BASH: &str = r#"# bash completions for @PROGRAM@. Printed by: @PROGRAM@ completions bash
_@FUNCTION@() {
    local current=${COMP_WORDS[COMP_CWORD]} answer
    if [[ $current == = ]]; then current=''; fi
    mapfile -t answer < <(@PROGRAM@ completions bash -- "${COMP_WORDS[@]:0:COMP_CWORD + 1}" 2>/dev/null)
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
complete -F _@FUNCTION@ @NAMES@
"#;

/// Saved as `_PROGRAM` in a folder of zsh's `fpath`, or read by `source`.
const ZSH: &str = r#"#compdef @NAMES@
# zsh completions for @PROGRAM@. Printed by: @PROGRAM@ completions zsh
_@PROGRAM@() {
    local -a answer proposals
    answer=("${(@f)$(@PROGRAM@ completions zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
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

if [[ $funcstack[1] == _@PROGRAM@ ]]; then
    _@PROGRAM@ "$@"
else
    compdef _@PROGRAM@ @NAMES@
fi
"#;

const FISH: &str = r#"# fish completions for @PROGRAM@. Printed by: @PROGRAM@ completions fish
function __@FUNCTION@_proposals
    set -l current (commandline -ct)
    set -l answer (@PROGRAM@ completions fish -- (commandline -opc) "$current" 2>/dev/null)
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
for name in @NAMES@
    complete -c $name -f -a '(__@FUNCTION@_proposals)'
end
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_the_program_everywhere() {
        for shell in Shell::ALL {
            let script = shell.script(&["sidecar-init", "istio-iptables"]);
            assert!(!["@PROGRAM@", "@NAMES@", "@FUNCTION@"].iter().any(|mark| script.contains(mark)));
            assert!(script.contains(&format!("sidecar-init completions {}", shell.name())));
            assert!(script.contains("istio-iptables"), "{script}");
            assert_eq!(Shell::named(shell.name()), Some(shell));
        }
    }
}

//! A program's command line as users see it: refusals, completions in real shells, the manual in mandoc.

use crate::folder::Folder;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::fs::symlink,
    process::{Command, Stdio},
    thread,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn shown(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} is not in\n{}", self.stdout);
        self
    }

    #[track_caller]
    pub fn tells(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is not in\n{}", self.stderr);
        self
    }

    #[track_caller]
    pub fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.shown());
        self
    }
}

#[cfg(feature = "cluster")]
impl Ended {
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub fn ended(command: &mut Command) -> Ended {
    ended_with(command, "")
}

pub fn ended_with(command: &mut Command, input: &str) -> Ended {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = thread::scope(|scope| {
        // A program may end before it has read all its input.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().expect("the program ends")
    });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub struct Program {
    pub path: &'static str,
    pub name: &'static str,
}

impl Program {
    pub fn refused(&self, call: &str) -> String {
        let words: Vec<&str> = call.split_whitespace().collect();
        let ended = self.run(&words);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{call}: {ended:?}");
        ended.stderr
    }

    pub fn run(&self, words: &[&str]) -> Ended {
        self.run_with(words, "")
    }

    pub fn run_with(&self, words: &[&str], input: &str) -> Ended {
        ended_with(Command::new(self.path).args(words).env_remove("NODE_NAME").env_remove("NO_COLOR"), input)
    }

    #[track_caller]
    pub fn printed(&self, words: &[&str]) -> String {
        self.run(words).with(0).stdout
    }

    /// A shell that has loaded the program's script, in a folder with a file `pod.yaml` and a folder `folder`.
    pub fn shell(&self, name: &'static str) -> Shell {
        let folder = Folder::new("completions");
        for inner in ["bin", "folder"] {
            fs::create_dir(folder.join(inner)).expect("an empty folder");
        }
        // Scripts call the program by its name.
        symlink(self.path, folder.join("bin").join(self.name)).expect("a link");
        folder.write("pod.yaml", "");
        folder.write("start", ZSH_START);
        folder.write("setup", ZSH_SETUP);
        folder.write("script", &self.printed(&["completions", name]));
        Shell { name, folder, function: self.name.replace('-', "_") }
    }

    /// Writes the manual, checks it with mandoc, and returns its formatted pages by name.
    pub fn manual(&self) -> Vec<(String, String)> {
        let folder = Folder::new("manual");
        let folder = folder.join("share/man1");
        output(Command::new(self.path).arg("man").arg(&folder));
        let entries = fs::read_dir(&folder).expect("the folder is made");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        let page = |name: String| {
            let lint = Command::new("mandoc")
                .args(["-T", "lint", "-W", "warning", &name])
                .current_dir(&folder)
                .output()
                .expect("mandoc");
            let lint = String::from_utf8_lossy(&lint.stdout).into_owned();
            // A generated page has no date.
            let faults: Vec<&str> = lint.lines().filter(|line| !line.contains("missing date")).collect();
            assert_eq!(faults, [""; 0], "{name}");
            let mut show = Command::new("mandoc");
            let shown = output(show.args(["-T", "ascii", "-O", "width=78", &name]).current_dir(&folder));
            // Backspaces overprint bold and underlined letters.
            let plain = shown.split('\u{8}').fold(String::new(), |mut text, part| {
                text.pop();
                text + part
            });
            (name, plain)
        };
        names.into_iter().map(page).collect()
    }
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];

pub struct Shell {
    name: &'static str,
    folder: Folder,
    /// Name of the script's function in bash, without the leading underscore.
    function: String,
}

impl Shell {
    /// Fails unless exactly these words are proposed for the last word of a line.
    pub fn proposes(&self, line: &str, expected: impl IntoIterator<Item = impl Into<String>>) {
        let expected: BTreeSet<String> = expected.into_iter().map(Into::into).collect();
        assert_eq!(self.proposed(line), expected, "{}: {line:?}", self.name);
    }

    fn proposed(&self, line: &str) -> BTreeSet<String> {
        // readline and zsh append the slash to a folder's name.
        let slash = |word: &str| match self.folder.join(word).is_dir() {
            true => format!("{word}/"),
            false => word.to_owned(),
        };
        match self.name {
            "bash" => {
                // bash splits words at spaces and around an equals sign.
                let words = line.replace('=', " = ");
                let last = if words.ends_with(' ') && !words.ends_with("= ") { "''" } else { "" };
                let function = &self.function;
                let call = format!(
                    "source ./script; complete -p {} >/dev/null; compopt() {{ :; }}; COMP_WORDS=({words}{last}); \
                     COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _{function}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                    line.split(' ').next().unwrap_or_default()
                );
                let printed = self.run(&["bash", "--norc", "--noprofile", "-uc", &call]);
                printed.lines().filter(|word| !word.is_empty()).map(slash).collect()
            }
            "fish" => {
                let call = format!("source ./script; complete -C \"{line}\"");
                let printed = self.run(&["fish", "--no-config", "-c", &call]);
                let words = printed.lines().filter_map(|line| line.split('\t').next());
                // fish proposes the whole word.
                words.map(|word| word.rsplit_once('=').map_or(word, |(_, value)| value).to_owned()).collect()
            }
            _ => {
                let printed = self.run(&["zsh", "-f", "-c", ZSH, "zsh", line]);
                let (_, printed) =
                    printed.split_once("<<<").unwrap_or_else(|| panic!("no answer: {printed:?}"));
                let printed = printed.split(">>>").next().unwrap_or_default();
                printed.lines().map(str::trim).filter(|word| !word.is_empty()).map(slash).collect()
            }
        }
    }

    /// Fails unless the shell's terminal displays `until` after a line is typed.
    pub fn displays(&self, typed: &str, until: &str) {
        let (call, setup) = match self.name {
            "bash" => ("bash --norc --noprofile -i", "source ./script; echo REA''DY"),
            "fish" => ("fish --no-config -i", "source ./script; echo REA''DY"),
            _ => ("zsh -f -i", "source ./start"),
        };
        let shown = self.run(&["zsh", "-f", "-c", TERMINAL, "zsh", call, setup, typed, until]);
        assert!(shown.contains(until), "{}: {shown}", self.name);
    }

    fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "60"]).args(words).current_dir(&*self.folder).env_clear();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        ended(command.env("HOME", &*self.folder).env("LC_ALL", "C.UTF-8")).shown()
    }
}

const TERMINAL: &str = r#"
export TERM=xterm
zmodload zsh/zpty
zpty shell "$1"
zpty -w shell "$2"
while zpty -r shell part; do [[ $part == *READY* ]] && break; done
zpty -n -w shell "$3"
while zpty -r shell part; do print -rn -- $part; [[ $part == *"$4"* ]] && break; done
zpty -d shell
"#;

/// A zsh in a separate terminal, which prints the proposed words instead of displaying them.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source ./setup"
while zpty -r shell part; do [[ $part == *READY* ]] && break; done
zpty -n -w shell "$1"$'\t'
while zpty -r shell part; do print -rn -- $part; [[ $part == *'>>>'* ]] && break; done
zpty -d shell
"#;

/// Characters typed before zsh's editor starts may be lost, so the editor reports its start.
const ZSH_START: &str = "
autoload -Uz compinit && compinit -u -C -d ./dump
source ./script
zle-line-init() { print READY }
zle -N zle-line-init
";

const ZSH_SETUP: &str = r#"
PROMPT= RPROMPT=
source ./start
compadd() {
    # Some calls do not add but only ask what would fit.
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a found
    builtin compadd -A found "$@"
    proposed+=("${found[@]}")
    builtin compadd "$@"
}
before() { proposed=() }
after() { print -r -- "<<<"; print -rl -- "${proposed[@]}"; print -r -- ">>>"; exit }
compprefuncs=(before)
comppostfuncs=(after)
bindkey "^I" complete-word
"#;

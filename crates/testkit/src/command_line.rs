//! A program's command line as a user meets it: refusals, completions in real shells, the manual in mandoc.

use crate::folder::Folder;
use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    thread,
};

/// How a program ended, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Both streams, the errors last.
    pub fn shown(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The same, if this text is on standard output.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} is not in\n{}", self.stdout);
        self
    }

    /// The same for standard error.
    #[track_caller]
    pub fn tells(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is not in\n{}", self.stderr);
        self
    }

    /// The same, if it ended so.
    #[track_caller]
    pub fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.shown());
        self
    }
}

#[cfg(feature = "cluster")]
impl Ended {
    /// The document that it printed.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs a command to its end.
pub fn ended(command: &mut Command) -> Ended {
    ended_with(command, "")
}

/// The same with this standard input.
pub fn ended_with(command: &mut Command, input: &str) -> Ended {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = thread::scope(|scope| {
        // A program that ends before it has read everything, ends.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().expect("it ends")
    });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// What is completed before the last word of a line, and what is proposed for it.
pub type Case = (&'static str, &'static [&'static str]);

/// A program, by its path and its name.
pub struct Program {
    pub path: &'static str,
    pub name: &'static str,
}

impl Program {
    /// What the program prints of a call that it refuses as invalid.
    pub fn refused(&self, call: &str) -> String {
        let words: Vec<&str> = call.split_whitespace().collect();
        let ended = self.run(&words);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{call}: {ended:?}");
        ended.stderr
    }

    /// Runs it with these words.
    pub fn run(&self, words: &[&str]) -> Ended {
        self.run_with(words, "")
    }

    /// The same with this standard input.
    pub fn run_with(&self, words: &[&str], input: &str) -> Ended {
        ended_with(Command::new(self.path).args(words).env_remove("NODE_NAME").env_remove("NO_COLOR"), input)
    }

    /// What it prints with these words.
    #[track_caller]
    pub fn printed(&self, words: &[&str]) -> String {
        self.run(words).with(0).stdout
    }

    /// Completes lines in bash, fish and zsh as their scripts do, each shell in a folder with a file `pod.yaml`.
    pub fn completes(&self, cases: &[Case]) {
        let folder = Folder::new("completions");
        fs::create_dir(folder.join("bin")).expect("a folder");
        symlink(self.path, folder.join("bin").join(self.name)).expect("a link");
        folder.write("pod.yaml", "");
        for shell in ["bash", "fish", "zsh"] {
            let script = output(Command::new(self.path).args(["completions", shell]));
            folder.write(&format!("script.{shell}"), &script);
            for (line, expected) in cases {
                let line = format!("{} {line}", self.name);
                let mut found = self.proposed(shell, &line, &folder);
                found.sort();
                let mut expected: Vec<String> = expected.iter().map(|&word| word.to_owned()).collect();
                expected.sort();
                assert_eq!(found, expected, "{shell}: {line:?}");
            }
        }
    }

    fn proposed(&self, shell: &str, line: &str, folder: &Path) -> Vec<String> {
        let function = self.name.replace('-', "_");
        // bash takes words apart around an equals sign.
        let words = if shell == "bash" { line.replace('=', " = ") } else { line.to_owned() };
        let words = words + if line.ends_with(' ') { "''" } else { "" };
        let call = match shell {
            "bash" => format!(
                "source ./script.bash; compopt() {{ :; }}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
                 _{function}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            ),
            "fish" => format!("source ./script.fish; complete -C \"{line}\""),
            // What the script would describe is what it proposes; files are those of the folder.
            _ => format!(
                "compdef() {{ :; }}; _files() {{ ls *.yaml; }}; \
                 _describe() {{ print -rl -- ${{(@P)2%%:*}}; }}; compset() {{ :; }}; source ./script.zsh; \
                 words=({words}); CURRENT=${{#words}}; _{}",
                self.name
            ),
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(shell);
        command.args(if shell == "fish" { &["--no-config", "-c"][..] } else { &["-fc"] }).arg(call);
        let path = format!("{}:{path}", folder.join("bin").display());
        let text = output(command.env("PATH", path).env("HOME", folder).current_dir(folder));
        let word = |line: &str| {
            let word = line.split('\t').next().unwrap_or_default();
            word.rsplit_once('=').map_or(word, |(_, value)| value).to_owned()
        };
        text.lines().map(word).filter(|word| !word.is_empty()).collect()
    }

    /// Writes the manual, which mandoc has to find correct, and returns its pages as they are shown, by name.
    pub fn manual(&self) -> Vec<(String, String)> {
        let folder = Folder::new("manual");
        output(Command::new(self.path).arg("man").arg(&*folder));
        let entries = fs::read_dir(&*folder).expect("the folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        let page = |name: String| {
            let lint = Command::new("mandoc")
                .args(["-T", "lint", "-W", "warning", &name])
                .current_dir(&*folder)
                .output()
                .expect("mandoc");
            let lint = String::from_utf8_lossy(&lint.stdout).into_owned();
            let faults: Vec<&str> = lint.lines().filter(|line| !line.contains("missing date")).collect();
            assert_eq!(faults, [""; 0], "{name}");
            let mut show = Command::new("mandoc");
            let shown = output(show.args(["-T", "ascii", "-O", "width=78", &name]).current_dir(&*folder));
            // Bold and underlined letters are printed over each other.
            let plain = shown.split('\u{8}').fold(String::new(), |mut text, part| {
                text.pop();
                text + part
            });
            (name, plain)
        };
        names.into_iter().map(page).collect()
    }
}

/// What a program prints, which has to succeed.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success() || output.stderr.is_empty(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

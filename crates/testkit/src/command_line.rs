//! A program's command line as a user meets it: refusals, completions in real shells, the manual in mandoc.

use crate::folder::Folder;
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

/// What is completed before the last word of a line, and what is proposed for it.
pub type Case = (&'static str, &'static [&'static str]);

/// A program, by its path and its name.
pub struct Program {
    pub path: &'static str,
    pub name: &'static str,
}

impl Program {
    /// What the program prints of a call that it refuses as invalid.
    ///
    /// # Panics
    /// Where the call is not refused.
    pub fn refused(&self, call: &str) -> String {
        let output = Command::new(self.path)
            .args(call.split_whitespace())
            .env_remove("NODE_NAME")
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{call}: {output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    /// Completes lines in bash, fish and zsh as their scripts do, each shell in a folder with a file `pod.yaml`.
    ///
    /// # Panics
    /// Where other words are proposed.
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
    ///
    /// # Panics
    /// Where a page is not correct.
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

//! Shell sessions with their output. A file has sections: files in the user's folder, and sessions. A shell runs a session's
//! lines after `$ `; below each is its output on both streams, and its exit code if not 0.

use crate::{
    command_line::{Program, ended},
    folder::Folder,
    sections,
};
use std::{env, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// Output without the times in log lines: the timestamp, and the duration of a change.
fn untimed(output: &str) -> String {
    let is_time = |text: &str| text.len() == 26 && text.contains('T');
    let line = |line: &str| {
        let line = line
            .split_once("Z ")
            .filter(|(time, _)| is_time(time))
            .map_or(line, |(_, rest)| rest.trim_start());
        line.split(" milliseconds=").next().unwrap_or_default().to_owned() + "\n"
    };
    output.lines().map(line).collect()
}

fn is_session(section: &str) -> bool {
    section.starts_with("$ ")
}

impl Program {
    /// Compares a file's sessions with the current output, which `UPDATE_GOLDENS=1` writes first. Each session starts in a new
    /// folder with the files above it, whose scripts are on `PATH`. Values of `variables` differ between runs and are shown as
    /// the variable's name; times in log lines are omitted.
    #[track_caller]
    pub fn sessions(&self, file: impl AsRef<Path>, variables: &[(&str, &str)]) {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, text) in sections::read(&file) {
            let shown = if is_session(&text) { self.shown(&found, &text, variables) } else { text };
            found.push((name, shown));
        }
        sections::golden(file, found);
    }

    /// A session's commands with their output, in a folder with the files of the sections above it.
    fn shown(&self, above: &[(String, String)], session: &str, variables: &[(&str, &str)]) -> String {
        let folder = Folder::new("session");
        for (name, text) in above.iter().filter(|(_, text)| !is_session(text)) {
            let path = folder.write(name, text);
            let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
        }
        let programs = Path::new(self.path).parent().expect("a folder").display();
        let path = format!("{}:{programs}:{}", folder.display(), env::var("PATH").unwrap_or_default());
        let mut text = String::new();
        for line in session.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let mut shell = Command::new("bash");
            shell.args(["-o", "pipefail", "-c", &format!("exec 2>&1\n{line}")]).current_dir(&*folder);
            for name in ["NODE_NAME", "NO_COLOR", "KUBECTL", "KUBECONFIG"] {
                shell.env_remove(name);
            }
            shell.env("PATH", &path).env("HOME", &*folder).env("LC_ALL", "C.UTF-8");
            let ended = ended(shell.envs(variables.iter().copied()));
            text += &format!("$ {line}\n");
            text += &variables.iter().fold(untimed(&ended.stdout), |shown, (name, value)| {
                shown.replace(value, &format!("${name}"))
            });
            match ended.code {
                Some(0) => {}
                code => text += &format!("[exit {}]\n", code.expect("no signal")),
            }
        }
        text
    }
}

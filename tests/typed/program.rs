//! The program, and others that read what it prints.

use std::{
    env, fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

/// The commands by their words, as help lists them.
pub(crate) fn commands() -> Vec<String> {
    // Two are no commands of ours, and one starts those of two words.
    let others = ["help", "version", "cni"];
    let names = |words: &[&str]| {
        let help = stdout(&[words, &["--help"]].concat());
        let list = help.split_once("\nCommands:\n").expect("a list").1.to_owned();
        let list = list.split("\n\n").next().expect("its end").to_owned();
        let first =
            |line: &str| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')).map(str::to_owned);
        let names = list.lines().filter_map(|line| Some(first(line)?.split(' ').next()?.to_owned()));
        names.filter(|name| !others.contains(&name.as_str())).collect::<Vec<_>>()
    };
    let mut found = names(&[]);
    found.extend(names(&["cni"]).iter().map(|name| format!("cni {name}")));
    assert!(found.len() >= 12, "{found:?}");
    found
}

/// The long flags of a command by its help, each with what stands for its value; switches have none.
pub(crate) fn flags(command: &str) -> Vec<(String, Option<String>)> {
    let words: Vec<&str> = command.split(' ').collect();
    let help = stdout(&[&words[..], &["--help"]].concat());
    crate::support::flags::listed(&help)
}

/// What the program prints, which must succeed.
pub(crate) fn stdout(arguments: &[&str]) -> String {
    let output = output(arguments, Path::new("."));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub(crate) fn output(arguments: &[&str], folder: &Path) -> Output {
    output_with(&[], arguments, folder)
}

/// The same with these variables.
pub(crate) fn output_with(variables: &[(&str, &str)], arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidecar-init"))
        .args(arguments)
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .envs(variables.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

/// What another program says, in one piece.
pub(crate) fn said_by(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("LC_ALL", "C.UTF-8")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("starting {program} failed ({error}): run scripts/setup --checks"));
    String::from_utf8(output.stdout).expect("UTF-8") + &String::from_utf8_lossy(&output.stderr)
}

/// A folder that goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("sidecar-init-typed-{}-{number}", process::id()));
        fs::create_dir(&path).expect("a folder of our own");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.join(name);
        fs::write(&path, text).expect("a file in a folder of our own");
        path.to_str().expect("UTF-8").to_owned()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

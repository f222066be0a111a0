//! The pictures of the documentation. `UPDATE_GOLDENS=1` writes them instead of comparing them.

use crate::support::program::Run;
use std::{fs, path::Path, process::Command};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn rows() -> Vec<(String, String)> {
    let readme = fs::read_to_string(Path::new(ROOT).join("docs/pictures/README.md")).expect("README.md");
    let rows = readme.lines().filter(|line| line.starts_with("- ["));
    let rows: Vec<(String, String)> = rows
        .map(|row| {
            let file = row.split(['[', ']']).nth(1).expect("a file");
            let command = row.split('`').nth(1).expect("a command");
            (file.to_owned(), command.to_owned())
        })
        .collect();
    assert!(rows.len() >= 8, "the documentation shows pictures");
    rows
}

#[test]
fn pictures_of_the_documentation_are_what_their_commands_print() {
    let binary = Path::new(crate::support::program::BINARY).parent().expect("a folder").display();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
    for (file, command) in rows() {
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(ROOT)
            .env("PATH", &path)
            .env_remove("CLICOLOR_FORCE")
            .outcome();
        assert!(output.succeeded(), "{command}: {}", output.stderr);
        testkit::golden(Path::new(ROOT).join("docs/pictures").join(file), &output.stdout);
    }
}

#[test]
fn no_picture_lies_there_without_a_command() {
    let rows = rows();
    for entry in fs::read_dir(Path::new(ROOT).join("docs/pictures")).expect("the folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        // tests/cli/recording records the terminal.
        let is_other = ["README.md", "terminal.svg"].contains(&name.as_str());
        assert!(is_other || rows.iter().any(|(file, _)| *file == name), "{name}");
    }
}

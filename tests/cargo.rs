//! The commands of cargo that CONTRIBUTING.md begins with, as a newcomer types them. A program of its own: they link the program of the
//! package again, which other tests use.

use std::{fs, path::Path, process::Command};

#[test]
fn commands_of_cargo_succeed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let blocks = guide.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<&str> = blocks.flat_map(str::lines).filter(|line| line.starts_with("cargo ")).collect();
    assert_eq!(commands.first(), Some(&"cargo run -- sandbox"), "CONTRIBUTING.md begins with it");
    for command in commands {
        let words = command.split(' ').skip(1);
        let output = Command::new(env!("CARGO")).args(words).current_dir(root).output().expect("cargo");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command}: {text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("All 7 connections went as the rules say"), "{command}: {text}");
    }
}

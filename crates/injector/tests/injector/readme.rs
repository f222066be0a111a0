//! Every injector command in README and docs works, and commands that need a cluster have valid flags.

use crate::PROGRAM;
use std::{fs, path::Path, process::Command};
use testkit::{command_line::ended, folder::Folder};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// README and all documents in docs: path and text, with continuation lines joined.
fn documents() -> Vec<(String, String)> {
    let docs = fs::read_dir(Path::new(ROOT).join("docs")).expect("docs");
    let names = docs.map(|entry| format!("docs/{}", entry.expect("an entry").file_name().to_string_lossy()));
    let mut paths: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    paths.push("README.md".to_owned());
    paths.sort();
    let read = |path: &String| fs::read_to_string(Path::new(ROOT).join(path)).expect("a document");
    paths.iter().map(|path| (path.clone(), read(path).replace("\\\n", ""))).collect()
}

fn calls<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let mark = format!("```{mark}\n");
    let blocks = text.split(mark.as_str()).skip(1);
    let lines = blocks.flat_map(|rest| rest.split("```").next().unwrap_or_default().lines());
    lines
        .filter(|line| line.starts_with("sidecar-injector ") || line.contains("| sidecar-injector "))
        .collect()
}

#[test]
fn commands_succeed() {
    let folder = Path::new(PROGRAM.path).parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut seen = 0;
    for (document, text) in documents() {
        for command in calls(&text, "sh") {
            let ended = ended(Command::new("sh").args(["-c", command]).current_dir(ROOT).env("PATH", &path));
            // `explain` exits with 3 for pods without injection.
            assert!(matches!(ended.code, Some(0 | 3)), "{document}: {command}: {}", ended.stderr);
            seen += 1;
            if let Some((_, shown)) = text.split_once(&format!("{command}\n```\n\n```text\n")) {
                let shown = shown.split("```").next().expect("an end");
                let is_printed = shown.split("...\n").all(|part| ended.stdout.contains(part));
                assert!(is_printed, "{document}: {command} prints {}", ended.stdout);
            }
        }
    }
    assert!(seen > 2, "too few commands in documents: {seen}");
}

#[test]
fn flags_of_commands_that_are_not_run_exist() {
    let mut seen = 0;
    for (document, text) in documents() {
        for line in calls(&text, "text") {
            let (_, call) = line.split_once("sidecar-injector ").expect("a call");
            let call = call.split('|').next().unwrap_or_default();
            let words: Vec<&str> = call.split_whitespace().collect();
            let is_name = |word: &&str| {
                word.starts_with(|c: char| c.is_ascii_lowercase())
                    && !word.contains(|c: char| c != '-' && !c.is_ascii_lowercase())
            };
            let nested = words.first() == Some(&"environment");
            let name: Vec<&str> =
                words.iter().copied().take_while(is_name).take(if nested { 2 } else { 1 }).collect();
            let help = PROGRAM.printed(&[&name[..], &["--help"]].concat());
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap_or_default();
                assert!(help.contains(flag), "{document}: {line}: {flag} is not a flag of {name:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "too few flags in documents: {seen}");
}

/// Each example in docs/templates.md works unchanged for a pod that selects it.
#[test]
fn templates_of_the_document_inject() {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/templates.md")).expect("a document");
    let folder = Folder::new("templates");
    let (_, values) = text.split_once("echo '").expect("values");
    let values = values.split('\'').next().expect("their end");
    let examples = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let pod = fs::read_to_string(Path::new(ROOT).join("docker/web.yaml")).expect("a manifest");
    let examples: Vec<&str> = examples.collect();
    assert_eq!(examples.len(), 2, "{examples:?}");
    for (example, asks) in examples.into_iter().zip(["guard", "sidecar,quiet"]) {
        let pod =
            pod.replace("annotations:", &format!("annotations:\n        inject.istio.io/templates: {asks}"));
        let file = folder.write("pod.yaml", &pod);
        let (config, values) = (folder.write("config.yaml", example), folder.write("values.yaml", values));
        let ended = PROGRAM.run(&["inject", "-f", &file, "--inject-config", &config, "--values", &values]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{asks}");
        let printed = ended.stdout;
        assert!(printed.len() > pod.len() + 100, "{asks}: {printed}");
    }
}

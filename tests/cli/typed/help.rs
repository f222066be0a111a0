//! Help fits into 80 columns, lists its groups in order of interest, and covers each option.

use crate::cli::typed::program::{commands, output, stdout};
use mesh::Mesh;
use mesh::settings::{self, Topic};
use std::path::Path;

fn help(command: &str, flag: &str) -> String {
    stdout(&command.split(' ').filter(|word| !word.is_empty()).chain([flag]).collect::<Vec<_>>())
}

#[test]
fn help_fits_into_80_columns() {
    for command in commands().iter().map(String::as_str).chain(["", "cni"]) {
        for flag in ["-h", "--help", "--help-all"] {
            for line in help(command, flag).lines() {
                // Unbreakable lines: an example, a long name, and keys of the network configuration with their meaning.
                let is_whole = command == "cni"
                    || line.trim_start().starts_with("sidecar-init ")
                    || !line.trim().contains(' ');
                assert!(is_whole || line.chars().count() <= 80, "{command} {flag}: {line}");
            }
        }
    }
}

#[test]
fn each_option_has_its_variable_annotation_and_example() {
    let text = help("istio-iptables", "--help");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut printed = 0;
    for row in settings::of(Mesh::default())
        .filter(|row| text.contains(&format!("--{}", row.long)) || row.long.is_empty())
    {
        if row.topic.is_of_one_command() {
            continue;
        }
        let has = |word: &str| assert!(flat.contains(word), "{}: {word} is missing", row.name());
        row.variables.iter().for_each(|name| has(name));
        for name in row.annotations {
            has(name);
        }
        let example = row.example.filter(|_| row.topic != Topic::Compatibility);
        if let Some(example) = example {
            has(example);
            printed += 1;
        }
    }
    assert!(printed > 30, "only {printed} examples");
    assert!(!help("istio-iptables", "-h").contains("Example: "), "the summary stays short");
}

#[test]
fn flags_without_effect_are_only_in_help_all() {
    for command in commands() {
        assert!(!help(&command, "--help").contains("No effect"), "{command}");
        assert!(help(&command, "--help-all").contains("  --vklog"), "{command}");
    }
}

/// `help COMMAND` and `COMMAND --help` print the same; other words are topics.
#[test]
fn help_takes_commands_and_topics() {
    for command in commands().iter().map(String::as_str).chain(["cni", "version"]) {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(stdout(&[&["help"], &words[..]].concat()), help(command, "--help"), "{command}");
    }
    assert_eq!(stdout(&["help"]), help("", "--help"));
    let of_kuma = stdout(&["help", "apply", "--mesh", "kuma"]);
    assert_eq!(of_kuma, stdout(&["apply", "--mesh", "kuma", "--help"]));
    let topics = stdout(&["help", "topics"]);
    let names: Vec<&str> =
        topics.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(names.len() > 20 && names.contains(&"exit-codes"), "{topics}");
    assert_eq!(stdout(&["help", "conntrack"]), stdout(&["help", "conntrack-is-full"]));
    let refused = |words: &[&str], text: &str| {
        let said = output(words, Path::new(".")).with(2, text).stderr;
        assert_eq!(said, format!("error: {text}\n"));
    };
    refused(&["help", "exit-cods"], "unknown topic exit-cods; did you mean exit-codes?");
    refused(&["help", "zzz"], "unknown topic zzz (see sidecar-init help topics)");
    refused(&["help", "tproxi"], "unknown topic tproxi; did you mean tproxy-captures-nothing?");
    refused(
        &["help", "connection"],
        "unknown topic connection; did you mean connection-refused-while-the-pod-starts or connections-are-reset?",
    );
    refused(&["clen"], "unknown command clen; did you mean clean?");
    refused(&["cni", "repai"], "unknown command cni repai; did you mean cni repair?");
    refused(&["zzz", "--flag"], "unknown command zzz (see --help)");
    refused(&["--bogus"], "unknown flag --bogus (see --help)");
    let unchanged = |words: &[&str], text: &str| refused(words, &format!("{text}; nothing was changed"));
    let joined = "separate values with commas: --istio-inbound-ports=80,443";
    unchanged(&["apply", "-b", "80", "443"], &format!("argument: \"443\" is not expected; {joined}"));
    unchanged(
        &["apply", "--dual-stack", "true"],
        "argument: \"true\" is not expected; write --dual-stack=true",
    );
    refused(
        &["-b", "*", "apply"],
        "-b: belongs after a command: sidecar-init COMMAND -b; nothing was changed",
    );
    refused(&["version", "x"], "argument: \"x\" is not expected; version takes no arguments");
}

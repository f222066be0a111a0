//! Help: it fits, groups come in the order of interest, and each option says all that there is to say of it.

use crate::typed::program::{commands, stdout};
use mesh::Mesh;
use mesh::settings::{self, Topic};

fn help(command: &str, flag: &str) -> String {
    stdout(&command.split(' ').filter(|word| !word.is_empty()).chain([flag]).collect::<Vec<_>>())
}

#[test]
fn help_fits_into_80_columns() {
    for command in commands().iter().map(String::as_str).chain(["", "cni"]) {
        for flag in ["-h", "--help"] {
            for line in help(command, flag).lines() {
                // What can't be broken: an example, a long name, and keys of the network configuration with their meaning.
                let is_whole = command == "cni"
                    || line.trim_start().starts_with("sidecar-init ")
                    || !line.trim().contains(' ');
                assert!(is_whole || line.chars().count() <= 80, "{command} {flag}: {line}");
            }
        }
    }
}

#[test]
fn groups_come_in_the_order_of_interest() {
    let help = help("explain", "--help");
    let headings: Vec<&str> =
        help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(
        headings,
        [
            "Examples:",
            "Options:",
            "The packet:",
            "This command:",
            "Capture:",
            "Operation:",
            "Manifest:",
            "Facts of the host:",
            "Validation:",
            "Logging:",
            "Accepted for compatibility, without effect:",
            "Only in the environment:",
        ]
    );
}

#[test]
fn each_option_says_its_variable_what_of_a_pod_says_it_and_an_example() {
    let text = help("istio-iptables", "--help");
    // A name that is broken at a hyphen is the same name.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut printed = 0;
    for row in settings::of(Mesh::default())
        .filter(|row| text.contains(&format!("--{}", row.long)) || row.long.is_empty())
    {
        if row.topic.is_of_one_command() {
            continue;
        }
        let has = |word: &str| assert!(flat.contains(word), "{}: {word} is not told", row.name());
        row.variables.iter().for_each(|name| has(name));
        for name in row.annotations {
            has(name);
        }
        // What has no effect needs no example.
        let example = row.example.filter(|_| row.topic != Topic::Compatibility);
        if let Some(example) = example {
            has(example);
            printed += 1;
        }
    }
    assert!(printed > 30, "only {printed} examples");
    assert!(!help("istio-iptables", "-h").contains("Example: "), "the summary stays short");
}

//! Output in a terminal: colours on request, and lines that fit.

use crate::support::namespace;
use crate::support::program::{BINARY, Outcome, Run};
use crate::support::terminal::displayed;

use diagnose::plain;
use namespace::Namespace;
use std::process::Command;

const ESCAPE: char = '\u{1b}';

const CALLS: [(&[&str], &str); 3] = [
    (
        &["explain", "--pod-ips", "10.1.2.3", "-i", "*", "-b", "*", "10.0.0.5:443"],
        "\u{1b}[1m\u{1b}[34mcaptured: ",
    ),
    (&["explain", "--pod-ips", "10.1.2.3", "-i", "*", "-b", "*"], "\u{1b}[33mnot captured"),
    (&["lint", "--pod-ips", "10.1.2.3", "-i", "*", "-b", "80,443", "-d", "15090"], "\u{1b}[33mwarning"),
];

fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(BINARY);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command.args(arguments).env("TERM", "xterm-256color").envs(variables.iter().copied());
    command
}

fn piped(arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    command(arguments, variables).outcome()
}

fn in_terminal(columns: u16, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    displayed(columns, command(arguments, variables)).0
}

#[test]
fn only_terminals_get_colours() {
    for (call, painted) in CALLS {
        let shown = in_terminal(200, call, &[]);
        assert!(shown.contains(painted), "{call:?}: {shown:?}");
        for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")], [("CLICOLOR", "0")]] {
            let shown = in_terminal(200, call, &variables);
            assert!(!shown.contains(ESCAPE), "{variables:?}: {shown:?}");
        }
        let output = piped(call, &[]);
        let text = output.stdout;
        assert!(!text.contains(ESCAPE) && !text.is_empty(), "{text:?}");
        let forced = piped(call, &[("CLICOLOR_FORCE", "1")]).stdout;
        assert!(forced.contains(painted), "{forced:?}");
        assert_eq!(plain(&forced), text);
    }
}

#[test]
fn machine_readable_output_has_no_colours() {
    let pod = ["--pod-ips", "10.1.2.3", "-i", "*", "-b", "*", "-d", "15090"];
    for call in [
        &["explain", "10.0.0.5:443", "--output", "json"][..],
        &["explain", "--live", "10.0.0.5:443", "--output", "json"],
        &["lint", "--output", "json"],
        &["render"],
        &["render", "--output", "nft"],
        &["istio-iptables", "--dry-run"],
        &["lint", "--log_as_json"],
    ] {
        let output = piped(&[call, &pod[..]].concat(), &[("CLICOLOR_FORCE", "1")]);
        let printed = if call.contains(&"--log_as_json") { output.stderr } else { output.stdout };
        assert!(!printed.contains(ESCAPE), "{call:?}: {printed:?}");
    }
}

#[test]
fn lines_fit_the_terminal_and_hang_below_their_heads() {
    for columns in [60, 80] {
        for (call, _) in CALLS {
            let shown = plain(&in_terminal(columns, call, &[]));
            let width = usize::from(columns);
            let too_long = shown.lines().find(|line| line.chars().count() > width);
            assert_eq!(too_long, None, "{call:?} at {columns}");
            let piped = piped(call, &[]).stdout;
            if call.last() != Some(&"*") {
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                assert_eq!(words(&shown), words(&piped));
                assert!(shown.lines().count() > piped.lines().count(), "nothing was folded: {shown}");
            }
        }
    }
}

#[test]
fn differences_and_errors_are_in_colour() {
    let pod = Namespace::new();
    pod.ip("address add 10.1.2.3/32 dev lo");
    let path = pod.path();
    let call = ["diff", "--rules", "--network-namespace", &path, "-i", "*", "-b", "*"];
    let shown = in_terminal(200, &call, &[]);
    assert!(shown.contains("\u{1b}[1m@@ table"), "{shown:?}");
    assert!(shown.contains("\u{1b}[2m# missing\u{1b}[0m"), "{shown:?}");
    assert!(shown.contains("\u{1b}[1mRules differ: "), "{shown:?}");
    let quiet = in_terminal(200, &call, &[("NO_COLOR", "1")]);
    assert_eq!(plain(&shown), quiet);
    let shown = in_terminal(60, &["diff", "--tproxy-mark", "no"], &[]);
    assert!(shown.starts_with("\u{1b}[1m\u{1b}[31merror: \u{1b}[0m"), "{shown:?}");
    assert!(plain(&shown).lines().all(|line| line.chars().count() <= 60), "{shown}");
}

/// A terminal gets a log only on request or from drop-ins.
#[test]
fn a_terminal_gets_sentences_instead_of_log_lines() {
    let pod = Namespace::new();
    pod.ip("address add 10.1.2.3/32 dev lo");
    let path = pod.path();
    let calls = |command: &str, more: &[&str]| {
        let flags: &[&str] = if command == "clean" { &[] } else { &["-i", "*", "-b", "*", "--drop-invalid"] };
        plain(&in_terminal(200, &[&[command, "--network-namespace", &path], flags, more].concat(), &[]))
    };
    let applied = calls("apply", &[]);
    assert!(
        applied.starts_with("Applied ") && applied.contains(" rules with nftables for IPv4 in "),
        "{applied}"
    );
    let again = calls("apply", &[]);
    assert!(
        again.starts_with("Nothing to change: ") && again.ends_with(" in place with nftables for IPv4.\n"),
        "{again}"
    );
    let checked = calls("diff", &[]);
    assert!(checked.ends_with(" to flags:\nRules are in place (nftables)\n"), "{checked}");
    let logged = calls("apply", &["--log_output_level", "info"]);
    assert!(logged.contains(" INFO iptables: rules are in place backend="), "{logged}");
    let warned = calls("apply", &["-b", "80", "-d", "90"]);
    assert!(warned.ends_with(" (SI007)\n"), "{warned}");
    assert_eq!(calls("clean", &[]), "Removed the rules of Istio's sidecar.\n");
    assert_eq!(calls("clean", &[]), "Nothing to remove.\n");
    let flags = ["istio-iptables", "--network-namespace", &path, "-i", "*", "-b", "*"];
    let shown = plain(&in_terminal(200, &flags, &[]));
    assert!(shown.contains(" INFO iptables: rules are in place "), "{shown}");
}

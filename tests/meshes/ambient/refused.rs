//! Bad input in a pod and on the host: refused by name, with the item and the form that is expected, all at once, and with
//! nothing touched.

use crate::support::namespace::Namespace;
use crate::support::program::{Outcome, Run, binary};
use mesh::Mesh;
use mesh::settings::{self, Topic};

const BOOLEAN: &str = "is not a boolean; expected true or false";

const ON_HOSTS: [(&str, &str, &str); 14] = [
    ("add", "10.0.0.1,10.0.0.2/24", "\"10.0.0.2/24\" is not an IP address"),
    ("add", "10.0.0.1,10.0.0.300", "\"10.0.0.300\" is not an IP address"),
    (
        "add",
        "10.0.0.1,0.0.0.0",
        "\"0.0.0.0\" is not the address of a pod; expected one by which others call it",
    ),
    ("add", "fd00::1,ff02::1", "\"ff02::1\" is not the address of a pod"),
    ("add", "127.0.0.1", "\"127.0.0.1\" is not the address of a pod"),
    ("add", "::ffff:10.0.0.1", "\"::ffff:10.0.0.1\" is not the address of a pod"),
    ("remove", "10.0.0.1,pod", "\"pod\" is not an IP address"),
    ("remove", "::1", "\"::1\" is not the address of a pod"),
    ("clean", "perhaps", BOOLEAN),
    ("probe-address", "10.0.0.1,10.0.0.2", "is of the same family as 10.0.0.1"),
    ("probe-address", "::1", "can't be where calls of the host come from"),
    ("HOST_PROBE_SNAT_IP", "fd00::1", "is of the other family; expected an address of IPv4"),
    ("HOST_PROBE_SNAT_IPV6", "10.0.0.1", "is of the other family; expected an address of IPv6"),
    ("format", "xml", "is not a format"),
];

/// Variables are told by their capitals.
fn call(namespace: &Namespace, command: &[&str], given: &[(&str, &str)]) -> Outcome {
    let path = namespace.path();
    let mut program = binary(&[]);
    program.args(command).args(["--network-namespace", &path]);
    for (name, value) in given {
        match is_variable(name) {
            true => program.env(name, value),
            false => program.arg(format!("--{name}={value}")),
        };
    }
    program.outcome()
}

fn is_variable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn refused(namespace: &Namespace, command: &[&str], given: &[(&str, &str)]) -> String {
    let output = call(namespace, command, given);
    let Outcome { stdout, stderr, .. } = output.with(2, &format!("{command:?} {given:?}"));
    assert!(stderr.contains(" in the input") && stdout.is_empty(), "{given:?}: {stderr}");
    stderr
}

fn named(name: &str) -> String {
    if is_variable(name) { format!("{name}: ") } else { format!("--{name}: ") }
}

fn is_untouched(namespace: &Namespace) {
    assert_eq!(namespace.stdout("nft", &["list", "ruleset"]), "");
    for family in ["-4", "-6"] {
        let routing = namespace.stdout("ip", &[family, "rule"]);
        assert!(!routing.contains("32764"), "{routing}");
    }
}

#[test]
fn on_hosts_every_flag_and_variable_refuses_what_it_can_not_mean() {
    let namespace = Namespace::new();
    for (name, value, says) in ON_HOSTS {
        let printed = refused(&namespace, &["ambient-host"], &[(name, value)]);
        let problem = printed.lines().find(|line| line.trim_start().starts_with(&named(name)));
        let problem = problem.unwrap_or_else(|| panic!("no word of {name}: {printed}"));
        assert!(problem.contains(says), "{problem}");
    }
    is_untouched(&namespace);
    for row in settings::of(Mesh::Ambient).filter(|row| row.topic == Topic::AmbientHost) {
        assert!(ON_HOSTS.iter().any(|(name, ..)| *name == row.long), "{} refuses nothing", row.long);
    }
}

#[test]
fn all_problems_are_told_at_once_by_every_command() {
    let namespace = Namespace::new();
    let given = [
        ("ingress", "maybe"),
        ("dns-capture", "yes"),
        ("ipv6", "6"),
        ("reroute-virtual-interfaces", "a b,vm0"),
        ("probe-address", "10.0.0.1,10.0.0.2"),
        ("HOST_PROBE_SNAT_IPV6", "10.0.0.1"),
        ("no-such-flag", "1"),
    ];
    for command in ["apply", "diff", "render", "lint"] {
        let printed = refused(&namespace, &[command, "--mesh", "ambient"], &given);
        assert!(printed.contains("7 problems in the input"), "{command}: {printed}");
        for (name, _) in given {
            let lines = printed.lines().map(|line| line.trim_start().trim_start_matches("unknown flag "));
            let count = lines.filter(|line| line.starts_with(named(name).trim_end_matches(": "))).count();
            assert_eq!(count, 1, "{command}: {name}: {printed}");
        }
    }
    let given = [
        ("add", "10.0.0.1,x"),
        ("remove", "10.0.0.1,::"),
        ("probe-address", "y"),
        ("HOST_PROBE_SNAT_IP", "fd00::1"),
        ("format", "xml"),
        ("ad", "10.0.0.1"),
    ];
    let printed = refused(&namespace, &["ambient-host", "--clean", "10.0.0.9"], &given);
    for text in [
        "--add: \"x\" is not an IP address",
        "--remove: \"::\" is not the address of a pod",
        "--remove: \"10.0.0.1\" is in --add too; give it to one of them",
        "--add: \"10.0.0.1,x\" has no place beside --clean",
        "--remove: \"10.0.0.1,::\" has no place beside --clean",
        "--probe-address: \"y\" is not an IP address",
        "HOST_PROBE_SNAT_IP: \"fd00::1\" is of the other family",
        "--format: \"xml\" is not a format",
        "unknown flag --ad; did you mean --add?",
        "argument: \"10.0.0.9\" is not expected",
    ] {
        assert!(printed.contains(text), "no {text:?} in {printed}");
    }
    is_untouched(&namespace);
}

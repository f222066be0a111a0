//! Bad input, flag by flag: refused with the flag, the item and the form that is expected, all at once, and with nothing
//! touched.

use crate::{Namespace, call, listed};
use policy::mesh::Mesh;
use policy::settings::{Kind, Topic};

const GOOD: [&str; 5] = ["linkerd-init", "-p", "4143", "-o", "4140"];

/// For each flag, what it refuses and what it says then.
const REFUSED: [(&str, &str, &str); 26] = [
    ("incoming-proxy-port", "0", "is no port; expected a number from 1 to 65535"),
    ("incoming-proxy-port", "", "is no port"),
    ("outgoing-proxy-port", "65536", "is no port; expected a number from 1 to 65535"),
    ("outgoing-proxy-port", "4143", "the proxy needs a port for each"),
    ("proxy-uid", "-2", "expected a number from 0 to 4294967294, or -1 for none"),
    ("proxy-uid", "4294967295", "is no user"),
    ("proxy-gid", "linkerd", "is no group; expected a number from 0 to 4294967294, or -1 for none"),
    ("ports-to-redirect", "80-90", "is no port to capture; expected a number from 1 to 65535"),
    ("ports-to-redirect", "0", "is no port to capture"),
    ("inbound-ports-to-ignore", "9-1", "is a range whose end lies before its start; expected a port"),
    ("inbound-ports-to-ignore", "80;443", "is no port; expected a port from 1 to 65535 or a range"),
    ("outbound-ports-to-ignore", "1-65536", "is no port; expected a port from 1 to 65535 or a range"),
    ("subnets-to-ignore", "10.0.0.0", "expected a network such as 10.0.0.0/8"),
    ("subnets-to-ignore", "10.0.0.0/33", "expected a network such as 10.0.0.0/8"),
    ("ipv6", "2", "is no boolean; expected true or false"),
    ("simulate", "maybe", "is no boolean; expected true or false"),
    ("netns", "/nowhere/at/all", "expected a name of ip netns"),
    ("use-wait-flag", "5", "is no boolean; expected true or false"),
    ("timeout-close-wait-secs", "1h", "is no time; expected a number of seconds"),
    ("timeout-close-wait-secs", "-1", "is no time; expected a number of seconds"),
    ("log-format", "xml", "is no format of log lines; expected plain or json"),
    ("log-level", "loud", "is no level; expected panic, fatal, error, warn, warning, info, debug or trace"),
    ("iptables-mode", "auto", "is no mode of iptables; expected legacy, nft or plain"),
    ("firewall-bin-path", "/sbin/iptables-nft", "expected iptables-legacy, iptables-nft or iptables"),
    ("firewall-save-bin-path", "a\nb", "contains a line break"),
    ("no-such-flag", "1", "no such flag"),
];

#[test]
fn every_flag_refuses_what_it_can_not_mean_and_nothing_is_touched() {
    let pod = Namespace::new();
    for (flag, value, says) in REFUSED {
        let flag = format!("--{flag}");
        let ended = call(Some(&pod), &[&GOOD[..], &[&format!("{flag}={value}")]].concat()).with(1);
        let problem = ended.stderr.lines().find(|line| line.trim_start().starts_with(&flag));
        let problem = problem.unwrap_or_else(|| panic!("no word of {flag}: {}", ended.stderr));
        assert!(problem.contains(says), "{problem}");
        assert!(ended.stderr.contains("nothing was changed"), "{}", ended.stderr);
        assert_eq!(ended.stdout, "", "{flag}");
    }
    for program in ["iptables-legacy", "iptables-nft", "ip6tables-legacy", "ip6tables-nft"] {
        assert!(!listed(&pod, program).iter().any(|line| line.contains("PROXY_INIT")), "{program}");
    }
}

#[test]
fn no_flag_is_left_out_above() {
    let rows = policy::settings::of(Mesh::Linkerd)
        .filter(|row| row.setting.mesh().is_some() && [Topic::Capture, Topic::DropIn].contains(&row.topic));
    let mut count = 0;
    for row in rows {
        count += 1;
        assert!(REFUSED.iter().any(|(flag, ..)| *flag == row.long), "--{} refuses nothing", row.long);
        assert!(!matches!(row.kind, Kind::Value("")), "{}", row.long);
    }
    assert_eq!(count, 18);
}

#[test]
fn all_problems_are_told_at_once_and_missing_ports_are_some() {
    let ended = call(None, &["linkerd-init", "--proxy-uid=x", "--log-level=loud", "word", "--ipv=1"]).with(1);
    for says in [
        "--incoming-proxy-port: is missing",
        "--outgoing-proxy-port: is missing",
        "--proxy-uid",
        "--log-level",
        "\"word\"",
        "did you mean --ipv6?",
    ] {
        assert!(ended.stderr.contains(says), "no {says}: {}", ended.stderr);
    }
    assert!(ended.stderr.contains("6 problems in the input; nothing was changed"), "{}", ended.stderr);
}

#[test]
fn problems_are_data_where_log_lines_are() {
    let ended = call(None, &["linkerd-init", "--log-format=json", "-p", "4143"]).with(1);
    let told: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON");
    assert_eq!(told["error"]["exit_code"], 1);
    assert_eq!(told["problems"][0]["option"], "--outgoing-proxy-port");
}

#[test]
fn what_breaks_a_pod_is_told_though_it_is_valid() {
    let check = |uid: &str, says: &str| {
        let ended = call(None, &[&GOOD[..], &["--simulate", "--proxy-uid", uid]].concat()).with(0);
        assert_eq!(ended.stderr.matches("WARN").count(), usize::from(!says.is_empty()), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    };
    check("-1", "its calls come back to it; give --proxy-uid");
    check("0", "--proxy-uid: whatever runs as root in the pod passes the proxy by");
    check("2102", "");
}

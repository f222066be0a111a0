//! Bad input, flag by flag: refused with the flag, the item and the form that is expected, all at once, and with nothing
//! touched.

use crate::{
    meshes::linkerd::{Namespace, call, listed},
    support::flags,
};
use mesh::Mesh;
use mesh::settings::{SettingRow, Topic};

const GOOD: [&str; 5] = ["linkerd-init", "-p", "4143", "-o", "4140"];

/// For each flag that is not of the capture, and for one that is, what it refuses and what it says then.
const REFUSED: [(&str, &str, &str); 17] = [
    ("timeout", "soon", "is not a time limit; expected 100ms to 10m"),
    ("subnets-to-ignore", "10.0.0.0", "expected a network such as 10.0.0.0/8"),
    ("simulate", "maybe", "is not a boolean; expected true or false"),
    ("netns", "/nowhere/at/all", "expected a name of ip netns"),
    ("use-wait-flag", "5", "is not a boolean; expected true or false"),
    ("timeout-close-wait-secs", "1h", "is not a time; expected a number of seconds"),
    ("timeout-close-wait-secs", "-1", "is not a time; expected a number of seconds"),
    ("log-format", "xml", "is not a log format; expected plain or json"),
    (
        "log-level",
        "loud",
        "is not a log level; expected panic, fatal, error, warn, warning, info, debug or trace",
    ),
    ("iptables-mode", "auto", "is not an iptables mode; expected legacy, nft or plain"),
    ("firewall-bin-path", "/sbin/iptables-nft", "expected iptables-legacy, iptables-nft or iptables"),
    ("firewall-save-bin-path", "a\nb", "contains a line break"),
    ("native-nftables", "maybe", "is not a boolean; expected true or false"),
    ("log_output_level", "loud", "names no log level"),
    ("log_as_json", "maybe", "is not a boolean; expected true or false"),
    ("log_target", "/nowhere/at/all", "can't be written"),
    ("no-such-flag", "1", "unknown flag"),
];

/// What has no effect takes any text.
const NO_EFFECT: [&str; 7] = [
    "log_caller",
    "log_stacktrace_level",
    "log_rotate",
    "log_rotate_max_age",
    "log_rotate_max_backups",
    "log_rotate_max_size",
    "vklog",
];

#[test]
fn every_flag_refuses_what_it_can_not_mean_and_nothing_is_touched() {
    let pod = Namespace::new();
    let no_text = NO_EFFECT.map(|flag| (flag, "a\nb", "contains a line break"));
    for (flag, value, says) in REFUSED.into_iter().chain(no_text) {
        let flag = format!("--{flag}");
        let ended = call(Some(&pod), &[&GOOD[..], &[&format!("{flag}={value}")]].concat()).with(1, "linkerd");
        let own = |line: &&str| line.trim_start().trim_start_matches("unknown flag ").starts_with(&flag);
        let problem = ended.stderr.lines().find(own);
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
    let help = call(None, &["linkerd-init", "--help-all"]).with(0, "linkerd");
    let taken = flags::listed(&help.stdout);
    assert!(taken.len() >= 28, "{taken:?}");
    for (flag, _) in taken {
        let is_of_capture = |row: &SettingRow| row.long == flag && row.topic == Topic::Capture;
        let is_tried = REFUSED.iter().any(|(tried, ..)| *tried == flag)
            || Mesh::Linkerd.settings().iter().any(is_of_capture);
        assert!(is_tried || NO_EFFECT.contains(&&*flag), "--{flag} refuses nothing");
    }
}

#[test]
fn all_problems_are_told_at_once_and_missing_ports_are_some() {
    let ended = call(None, &["linkerd-init", "--proxy-uid=x", "--log-level=loud", "word", "--ipv=1"])
        .with(1, "linkerd");
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
fn whatever_is_wrong_with_a_call_ends_with_one() {
    let check = |words: &[&str], says: &str| {
        let ended = call(None, &[&GOOD[..], words].concat()).with(1, "linkerd");
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{words:?}: {}", ended.stderr);
    };
    let stray = "is not expected; values of switches are written --ipv6=false";
    check(&["--ipv6", "false"], &format!("\"false\" {stray}"));
    check(&["--", "--simulate"], &format!("\"--simulate\" {stray}"));
    check(&["--version"], "unknown flag --version");
    check(&["-V"], "unknown flag -V");
    check(&["-wZ"], "unknown flag -Z");
    check(&["--proxy-uid"], "--proxy-uid: needs a value");
}

#[test]
fn problems_are_data_where_log_lines_are() {
    let ended = call(None, &["linkerd-init", "--log-format=json", "-p", "4143"]).with(1, "linkerd");
    let printed: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON");
    assert_eq!(printed["error"]["exit_code"], 1);
    assert_eq!(printed["problems"][0]["option"], "--outgoing-proxy-port");
}

#[test]
fn what_breaks_a_pod_is_told_though_it_is_valid() {
    let check = |uid: &str, says: &str| {
        let ended = call(None, &[&GOOD[..], &["--simulate", "--proxy-uid", uid]].concat()).with(0, "linkerd");
        assert_eq!(ended.stderr.matches("WARN").count(), usize::from(!says.is_empty()), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    };
    check("-1", "--proxy-uid: names no user, so that the proxy's own calls return to it");
    check("0", "--proxy-uid: root is the proxy's user, so no process that runs as root is captured");
    check("2102", "");
}

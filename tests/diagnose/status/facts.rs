//! Each fact has the same code and level in text, in JSON, in the overview and in the exit code.

use crate::support::namespace::{Namespace, run, succeed};
use crate::support::program::{BINARY, PATH};
use crate::support::wait;
use nix::unistd::{Uid, setfsuid};
use serde_json::Value;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use testkit::running::Running;

/// A row: flags of `apply`, listeners with their users, the user of a process, the headline, the findings, the exit code.
type Row<'a> = (&'a [&'a str], &'a [(u16, u32)], Option<&'a str>, &'a str, &'a [(&'a str, &'a str)], i32);

const BOTH: [&str; 7] = ["--pod-ips", "10.77.0.2,fd77::2", "--dual-stack", "-i", "*", "-b", "*"];
const LINKERD: [&str; 6] = ["--mesh", "linkerd", "--proxy-uid", "2102", "--pod-ips", "10.77.0.2,fd77::2"];
const PROXY: [(u16, u32); 2] = [(15001, 1337), (15006, 1337)];

#[test]
fn every_view_shows_the_same_facts() {
    let rows: [Row<'_>; 7] = [
        (&BOTH, &PROXY, None, "Outbound and inbound traffic is captured over IPv4 and IPv6", &[], 0),
        (
            &BOTH,
            &[],
            None,
            "Outbound and inbound traffic is captured over IPv4 and IPv6",
            &[("failure", "SI056"), ("failure", "SI056")],
            1,
        ),
        // The proxy's calls to its own pod do not count as pod traffic.
        (&["--pod-ips", "10.77.0.2,fd77::2", "--dual-stack"], &[], None, "Nothing is captured", &[], 3),
        (
            &["--pod-ips", "10.77.0.2", "-i", "*", "-b", "*"],
            &PROXY,
            None,
            "Outbound and inbound traffic is captured over IPv4,",
            &[("warning", "SI005")],
            0,
        ),
        // The proxy may be identified by its group, so another user's process may be the proxy.
        (&LINKERD, &[(4140, 2102), (4143, 4711)], None, "Outbound and inbound", &[("warning", "SI058")], 0),
        (&BOTH, &PROXY, Some("1337"), "Outbound and inbound", &[("warning", "SI028")], 0),
        (&BOTH, &PROXY, Some("4711"), "Outbound and inbound", &[], 0),
    ];
    for (flags, listeners, process, headline, expected, code) in rows {
        let pod = Namespace::new();
        pod.eth0("10.77.0.2/24");
        pod.ip("addr add fd77::2/64 dev eth0 nodad\nlink set far up");
        succeed(&pod, &[&["apply"], flags].concat());
        let _listeners: Vec<TcpListener> =
            listeners.iter().map(|(port, uid)| listen(&pod, *uid, *port)).collect();
        let _process = process.map(|uid| sleeper(&pod, uid));
        let text = run(&pod, &["status"]).with(code, headline).stdout;
        assert_eq!(run(&pod, &["doctor"]).with(code, headline).stdout, text, "its former name");
        assert!(text.starts_with(headline), "{flags:?}: {text}");
        let of_text: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.split_once(" SI"))
            .map(|(level, rest)| (level.trim(), rest.split(' ').next().unwrap_or_default()))
            .collect();
        let expected_digits: Vec<(&str, &str)> =
            expected.iter().map(|(level, code)| (*level, code.trim_start_matches("SI"))).collect();
        assert_eq!(of_text, expected_digits, "{flags:?}: {text}");
        let json = run(&pod, &["status", "--output", "json"]).with(code, headline).stdout;
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(codes(&json), expected, "{flags:?}: {json:#}");
        assert_eq!(json["capturing"], code != 3, "{flags:?}");
        let name = "facts";
        let script = format!(
            "mkdir -p /run/netns && mount -t tmpfs none /run/netns && touch /run/netns/{name} && mount --bind {} /run/netns/{name} && \
             {BINARY} status --all --output json",
            pod.path()
        );
        let overview = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
        let overview = overview.expect("unshare is installed").stdout;
        let overview: Value = serde_json::from_slice(&overview).expect("JSON");
        let row = overview["namespaces"].as_array().expect("rows").iter().find(|row| row["name"] == name);
        assert_eq!(codes(row.expect("a row")), expected, "{flags:?}: {overview:#}");
    }
}

fn codes(document: &Value) -> Vec<(&str, &str)> {
    let findings = document["findings"].as_array().expect("a list").iter();
    findings
        .map(|one| (one["level"].as_str().expect("a word"), one["code"].as_str().expect("a code")))
        .collect()
}

/// A listener owned by a user: a socket belongs to the user that creates it.
fn listen(pod: &Namespace, uid: u32, port: u16) -> TcpListener {
    pod.run(|| {
        setfsuid(Uid::from_raw(uid));
        TcpListener::bind(format!("[::]:{port}")).unwrap_or_else(|error| panic!("{port}: {error}"))
    })
}

fn sleeper(namespace: &Namespace, uid: &str) -> Running {
    let mut command = Command::new("setpriv");
    command.env("PATH", PATH).args(["--reuid", uid, "--clear-groups", "--", "sleep", "600"]);
    let sleeper = Running(namespace.run(|| command.stdin(Stdio::null()).spawn()).expect("setpriv starts"));
    let name = format!("/proc/{}/comm", sleeper.id());
    wait::until("setpriv starts sleep", || std::fs::read_to_string(&name).expect("the process") == "sleep\n");
    sleeper
}

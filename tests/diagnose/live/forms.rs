//! Every rule form that nft produces, set by another program before the mesh's rules: `explain --live` reports the packet's real
//! verdict or "unknown". The rules are in a table that iptables-nft-save prints, or another.

use super::{namespace::Namespace, pod_with};
use crate::support::program::{Run, binary};
use crate::support::scope;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use serde_json::Value;
use std::{
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

const USER: u32 = 1000;
const DESTINATION: &str = "10.0.0.5:443";

struct Form {
    text: &'static str,
    is_known: bool,
    is_nat: bool,
}

fn forms() -> (Vec<Form>, Vec<&'static str>) {
    let (mut forms, mut objects) = (Vec::new(), Vec::new());
    for line in include_str!("forms.txt").lines() {
        match line.split_once(' ') {
            Some(("+", object)) => objects.push(object),
            Some((sign @ ("=" | "?" | "n=" | "n?"), text)) => {
                forms.push(Form { text, is_known: sign.ends_with('='), is_nat: sign.starts_with('n') });
            }
            _ => assert!(line.is_empty() || line.starts_with('#'), "{line}"),
        }
    }
    (forms, objects)
}

#[test]
fn rule_forms_in_tables_with_any_name() {
    let (forms, objects) = forms();
    // Both tests use the same parser, so a sample is sufficient here.
    let filter = forms.iter().filter(|form| !form.is_nat).step_by(3).collect();
    check(filter, &objects, "inet t", "c", "type filter hook output priority -180");
    let nat = forms.iter().filter(|form| form.is_nat).collect();
    check(nat, &objects, "ip t", "c", "type nat hook output priority -150");
}

#[test]
fn forms_of_tables_that_iptables_prints() {
    let (forms, objects) = forms();
    let (one, other) = forms.iter().filter(|form| !form.is_nat).partition::<Vec<_>, _>(|form| form.is_known);
    let hook = "type route hook output priority -150";
    thread::scope(|scope| {
        for half in [one, other] {
            scope.spawn(|| check(half, &objects, "ip mangle", "OUTPUT", hook));
        }
    });
}

fn check(forms: Vec<&Form>, objects: &[&str], table: &str, chain: &str, hook: &str) {
    let pod = pod_with("nftables", &["-i", "*", "-b", "*"]);
    pod.ip("link set far up\nneigh add 10.0.0.5 lladdr 02:00:00:00:00:01 dev eth0");
    pod.load(COUNTERS);
    let mut wrong = Vec::new();
    assert!(forms.len() > 30, "only {} forms", forms.len());
    for Form { text, is_known, .. } in scope::of(forms, 25) {
        let name = |object: &str| object.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_named = |object: &&&str| {
            let words: Vec<&str> = text.split(' ').collect();
            words.contains(&format!("@{}", name(object)).as_str())
                || words.windows(2).any(|pair| pair == ["name", &name(object)])
        };
        let objects: Vec<&str> = objects.iter().filter(is_named).copied().collect();
        pod.load(&format!(
            "table {table} {{\n{}\nchain sub {{\ndrop\n}}\nchain keep {{\nmeta mark 77 drop\n}}\n\
                 chain redir {{\nmeta l4proto tcp meta mark != 77 {}\n}}\n\
                 chain {chain} {{ {hook}; {text}\n}}\n}}\n",
            objects.join("\n"),
            if hook.contains("nat") { "redirect to :9999" } else { "continue" },
        ));
        let printed = answer(&pod);
        let done = done(&pod);
        if printed != done && (*is_known || printed != "unknown") {
            wrong.push(format!("{text}: reported {printed}, observed {done}"));
        }
        pod.load(&format!("delete table {table}"));
    }
    assert!(wrong.is_empty(), "{table}: {}", wrong.join("\n"));
}

const COUNTERS: &str = "table inet seen {\n\
    counter out { }\n counter loop { }\n counter proxy { }\n counter other { }\n counter same { }\n\
    chain post { type filter hook postrouting priority 2147483646;\n\
      tcp flags & (syn | rst) == syn oifname != \"lo\" counter name out\n\
      tcp flags & (syn | rst) == syn oifname \"lo\" counter name loop\n }\n\
    chain in { type filter hook input priority 2147483646;\n\
      tcp flags & (syn | rst | ack) == syn tcp dport 15001 counter name proxy\n\
      tcp flags & (syn | rst | ack) == syn tcp dport { 9000-9010, 9999 } counter name other\n\
      tcp flags & (syn | rst | ack) == syn tcp dport 443 counter name same\n }\n}\n";

fn answer(pod: &Namespace) -> String {
    let (path, user) = (pod.path(), USER.to_string());
    let call =
        ["explain", "--live", "--output", "json", "--network-namespace", &path, "--uid", &user, DESTINATION];
    let output = binary(&call).outcome().success();
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    match (text("verdict").as_str(), report["port"].as_u64()) {
        ("captured", Some(15001)) => "proxy".to_owned(),
        ("captured", Some(443)) => "same".to_owned(),
        ("captured", Some(9000..=9999)) => "other".to_owned(),
        (verdict, _) => verdict.to_owned(),
    }
}

fn done(pod: &Namespace) -> &'static str {
    let reset = || pod.stdout("nft", &["reset", "counters", "table", "inet", "seen"]);
    reset();
    pod.run(|| {
        setfsuid(Uid::from_raw(USER));
        setfsgid(Gid::from_raw(USER));
        let to: SocketAddr = DESTINATION.parse().expect("an address");
        // Nothing answers: one packet is sufficient.
        let _ = TcpStream::connect_timeout(&to, Duration::from_millis(2));
    });
    let listed = reset();
    let counted = |name: &str| {
        let counter =
            listed.split(&format!("counter {name} {{")).nth(1).unwrap_or_else(|| panic!("{listed}"));
        !counter.trim_start().starts_with("packets 0")
    };
    match ["proxy", "other", "same", "out"].into_iter().find(|name| counted(name)) {
        Some("out") => "not_captured",
        Some(other) => other,
        None => "dropped",
    }
}

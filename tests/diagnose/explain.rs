//! `explain`, `lint` and `render` as people call them: the questions that everybody asks, and their answers.

use crate::support::program::{Run, bare, stdout_of};
use diagnose::{explain::VerdictKind, picture::TrafficReport};
use serde_json::Value;

/// A usual pod: everything is captured, but the proxy's own ports.
const POD: [&str; 8] = ["--pod-ips", "10.44.0.7", "-i", "*", "-b", "*", "-d", "15090"];

fn by_flags(text: &str) -> &str {
    text.strip_prefix("by the flags given:\n").unwrap_or_else(|| panic!("it goes by flags: {text}"))
}

#[test]
fn several_packets_are_answered_in_order() {
    let words = ["explain", "8080", "10.0.0.5:443", "15090", "--expect", "captured"];
    let call =
        |more: &[&str]| bare(&[&words, &POD[..], more].concat()).outcome().with(3, "15090 passes").stdout;
    let text = call(&[]);
    let answers: Vec<&str> = by_flags(&text).split("== ").filter(|answer| !answer.is_empty()).collect();
    let heads: Vec<&str> = answers.iter().filter_map(|answer| answer.lines().next()).collect();
    assert_eq!(heads, ["8080", "10.0.0.5:443", "15090"], "{text}");
    for (answer, verdict) in answers.iter().zip(["captured: ", "captured: ", "not captured: "]) {
        assert!(answer.lines().nth(1).is_some_and(|line| line.starts_with(verdict)), "{text}");
    }
    let document: Value = serde_json::from_str(&call(&["--format", "json"])).expect("JSON");
    let ports: Vec<(Option<&str>, Option<u64>)> = document["answers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|answer| (answer["object"].as_str(), answer["answer"]["destination_port"].as_u64()))
        .collect();
    assert_eq!(
        ports,
        [(Some("8080"), Some(8080)), (Some("10.0.0.5:443"), Some(443)), (Some("15090"), Some(15090))]
    );
    let refused = bare(&["explain", "8080", "x", "99999"]).outcome().with(2, "two are wrong").stderr;
    assert!(
        refused.contains("2 problems") && refused.contains("\"x\"") && refused.contains("\"99999\""),
        "{refused}"
    );
}

#[track_caller]
fn because(flags: &[&str], reason: &str) {
    let text = stdout_of(&[&["explain", "--pod-ips", "10.44.0.7"], flags].concat());
    let line = by_flags(&text).lines().next().unwrap_or_default();
    assert!(line.ends_with(&format!(", because {reason}")), "{flags:?}: {line}");
}

#[test]
fn which_list_lacks_it() {
    let check = because;
    check(&["8080", "-b", "80,443"], "-b captures only 80,443");
    check(&["8080", "-b", "80,443", "-m", "TPROXY"], "-b captures only 80,443");
    check(&["8080", "-b", "1,2,3,4,5,6,7"], "-b captures only 3,4,5,6,7 and 2 more");
    check(&["8080", "-b", ""], "-b captures no port");
    check(&["10.0.0.5:443", "-i", ""], "-i captures no network");
    check(
        &["10.0.0.5:443", "-i", "10.1.0.0/16", "-q", "8443"],
        "-i captures only 10.1.0.0/16 and -q captures only 8443",
    );
}

#[test]
fn all_traffic_is_no_packet() {
    let all =
        |more: &[&str]| bare(&[&["explain", "--pod-ips", "10.44.0.7", "-b", "*"], more].concat()).outcome();
    assert_eq!(all(&["--matrix"]).success().stdout, all(&[]).success().stdout, "its former flag");
    let text = all(&["--expect", "captured"]).with(2, "no packet").stderr;
    assert!(text.contains("--expect: is about a packet; name its destination"), "{text}");
    let report: TrafficReport =
        serde_json::from_str(&all(&["--format", "json"]).success().stdout).expect("JSON");
    let captured = report.rows.iter().find(|row| row.verdict == VerdictKind::Captured).expect("a row");
    assert_eq!(
        (&*captured.part, captured.port, captured.option.as_deref()),
        ("inbound", Some(15006), Some("-b"))
    );
    // kubectl's letter of a namespace is upstream's of a dry run.
    let mixed = all(&["-n", "shop", "web"]).with(2, "names of a cluster").stderr;
    assert!(mixed.contains("kubectl capture explain POD PORT -n NAMESPACE"), "{mixed}");
    let alone = bare(&["explain", "-b", "*", "--as", "proxy", "8080"]).outcome().with(2, "no address").stderr;
    assert!(
        alone.contains("\"8080\" is a port alone, which a call from outside (--as external) has"),
        "{alone}"
    );
}

/// Rules of iptables hold fifteen ports each, and a range is many.
#[test]
fn of_a_long_list_the_nearest_items_are_named_and_the_others_counted() {
    let check = because;
    let ports: Vec<String> = (1000..1200).step_by(2).map(|port| port.to_string()).collect();
    let ports = ports.join(",");
    let more = format!("{ports},2000-2999");
    let networks: Vec<String> = (1..=100).map(|net| format!("10.{net}.0.0/16")).collect();
    let networks = networks.join(",");
    for mode in ["REDIRECT", "TPROXY"] {
        let check = |flags: &[&str], reason: &str| check(&[&["-m", mode], flags].concat(), reason);
        check(&["-b", &ports, "8080"], "-b captures only 1190,1192,1194,1196,1198 and 95 more");
        check(&["-b", &ports, "1051"], "-b captures only 1046,1048,1050,1052,1054 and 95 more");
        check(&["-b", &more, "3100"], "-b captures only 1192,1194,1196,1198,2000-2999 and 96 more");
        check(&["-b", &more, "999"], "-b captures only 1000,1002,1004,1006,1008 and 1,095 more");
    }
    check(
        &["-i", &networks, "10.101.0.1:443"],
        "-i captures only 10.96.0.0/16,10.97.0.0/16,10.98.0.0/16,10.99.0.0/16,10.100.0.0/16 and 95 more",
    );
    check(
        &["-q", &ports, "10.0.0.5:1011"],
        "-i captures no network and -q captures only 1006,1008,1010,1012,1014 and 95 more",
    );
    // Of fifteen ports in one rule, the reason is about the one that was asked for.
    check(&["-b", &ports, "1010"], "-b lists port 1010");
    check(&["-b", "*", "-d", &more, "1010"], "-d leaves port 1010 alone");
}

#[test]
fn a_listing_of_another_program() {
    let listing = "*nat\n-A OUTPUT -p tcp -m set --match-set mesh dst -j REDIRECT --to-ports 4140\nCOMMIT\n";
    let ask = ["explain", "--pod-ips", "10.44.0.7", "--from-save", "-", "--destination"];
    let output = bare(&[&ask[..], &["10.0.0.5:443"]].concat()).write_stdin(listing).outcome().success();
    let text = output.stdout;
    let expected = "unknown: the verdict can't be determined, because rule 1 of OUTPUT in table nat (-p tcp -m \
                    set --match-set mesh dst -j REDIRECT --to-ports 4140) is not understood and could decide";
    assert_eq!(text.lines().next(), Some("by the rules of the listing:"), "{text}");
    assert_eq!(text.lines().nth(1), Some(expected), "{text}");
    let v6 = ["explain", "--pod-ips", "fd00::7", "--from-save", "-", "--expect", "captured", "8080"];
    let output =
        bare(&v6).write_stdin("*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports 15006\nCOMMIT\n").outcome();
    assert!(
        output
            .stdout
            .contains("unknown: the verdict can't be determined, because the listing does not show IPv6")
    );
    assert!(output.code == Some(3) && output.stderr.contains("IPv4 is assumed"), "{}", output.stderr);
}

#[test]
fn a_pod_is_asked_about_as_its_own_users() {
    let pod = |users: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: web, annotations: {{sidecar.istio.io/status: '{{}}'}}}}, spec: {{\
             initContainers: [{{name: istio-init, args: [istio-iptables, -u, '1337', -i, '*', -b, '*']}}], \
             containers: [{users}]}}}}"
        )
    };
    let explain = |users: &str, to: &str| {
        bare(&["explain", "-f", "-", "--expect", "captured", to]).write_stdin(pod(users)).outcome()
    };
    let same = explain(
        "{name: a, securityContext: {runAsUser: 1337}}, {name: b, securityContext: {runAsUser: 5}}",
        "192.0.2.1:80",
    );
    for part in
        ["== Pod web: user 1337, group 0 (a)\nnot captured", "== Pod web: user 5, group 0 (b)\ncaptured"]
    {
        assert!(same.code == Some(3) && same.stdout.contains(part), "{}", same.stdout);
    }
    let none = explain("{name: a}, {name: b, securityContext: {runAsUser: 5}}", "8080");
    assert!(none.code == Some(0) && !none.stdout.contains("user"), "{}", none.stdout);
    let unset = explain("{name: a}", "192.0.2.1:80").stdout;
    assert!(unset.contains("from user 1000 (assumed: the manifest sets no runAsUser)"), "{unset}");
    let all = bare(&["explain", "-f", "-"]).write_stdin(pod("{name: a}")).outcome().stdout;
    assert!(all.contains("app is user 1000 (assumed: the manifest sets no runAsUser)"), "{all}");
}

#[test]
fn what_the_manifest_does_not_tell_is_said() {
    let pod = |about: &str, spec: &str| {
        format!("{{kind: Pod, metadata: {{name: web, {about}}}, spec: {{{spec} containers: [{{name: a}}]}}}}")
    };
    let kata = pod("annotations: {sidecar.istio.io/status: '{}'}", "runtimeClassName: kata-qemu,");
    let ran = bare(&["explain", "-f", "-", "8080", "--expect", "captured"]).write_stdin(kata).outcome();
    let text = ran.stdout.replace("\n  ", " ");
    assert!(ran.code == Some(3) && text.contains("; not sure: runtimeClassName kata-qemu gives"), "{text}");
    let named = "kuma.io/sidecar-injection: enabled, traffic.kuma.io/transparent-proxy-configmap-name: own";
    let kuma = pod(&format!("annotations: {{{named}}}"), "");
    for words in [&["explain", "8080"][..], &["render"], &["lint"]] {
        let ran = bare(&[words, &["-f", "-"]].concat()).write_stdin(kuma.as_str()).outcome();
        let all = ran.stdout.replace("\n  ", " ") + &ran.stderr;
        assert_eq!(
            all.matches("configmap-name is \"own\", a ConfigMap that is not read").count(),
            1,
            "{all}"
        );
    }
}

#[test]
fn apply_warns_of_what_lint_finds_and_the_drop_in_does_not() {
    let odd = ["--dry-run", "--pod-ips", "10.44.0.7", "-i", "*", "-b", "80", "-d", "90"];
    let stderr = |name: &str, flags: &[&str]| {
        let output = bare(&[&[name], flags].concat()).outcome().success();
        output.stderr
    };
    let text = stderr("apply", &odd);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(" WARN lint: --istio-local-exclude-ports: has no effect"), "{text}");
    assert_eq!(stderr("istio-iptables", &odd), "");
    let usual = [&["--dry-run"], &POD[..]].concat();
    assert_eq!(stderr("apply", &usual), "", "notes are for those who ask");
}

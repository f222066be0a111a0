//! Input that is refused: nothing is printed as rules, and each complaint names who said what, and what
//! would have been right.

use super::{apart, preview, settings};
use crate::support::program::{BINARY, Outcome};
use mesh::settings::SettingKind;
use std::path::Path;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

const LISTED_PORT: &str = "expected a port from 1 to 65535 or a range such as 8000-9000";

/// Flags, what each of them refuses, and the end of the complaint. Other words are in the refusals of `crates/mesh`.
type Refused = (&'static [&'static str], &'static [&'static str], &'static str);
const REFUSED: [Refused; 14] = [
    (
        &[
            "istio-inbound-ports",
            "istio-local-exclude-ports",
            "istio-outbound-ports",
            "istio-local-outbound-ports-exclude",
        ],
        &["abc", "70000", "-1", "80 -j ACCEPT", "0x50", "80;81", "+80", "٨٠", "9000:8000"],
        LISTED_PORT,
    ),
    (&["istio-local-exclude-ports"], &["*"], LISTED_PORT),
    (
        &["envoy-port", "inbound-capture-port"],
        &["0", "abc", "65536", "15001 -j ACCEPT", "-1"],
        "is not a port to listen on; expected a port from 1 to 65535 or a range",
    ),
    (
        &["inbound-tunnel-port", "iptables-probe-port"],
        &["0", "abc", "65536", "15001 -j ACCEPT", "-1"],
        "expected a number from 1 to 65535",
    ),
    (
        &["istio-service-cidr", "istio-service-exclude-cidr"],
        &["10.0.0.0/8 -j ACCEPT", "localhost/8", "10.0.0.0/255.0.0.0", "!10.0.0.0/8", "10.0.0/8"],
        "expected a network such as 10.0.0.0/8",
    ),
    (
        &["istio-exclude-interfaces", "kube-virt-interfaces"],
        &["abcdefghijklmnop", "eth 0", "eth/0", "..", ".", "+", "-j", "!eth0", "a+b", "eth0\"", "ä"],
        "expected an interface name of 1 to 15 letters",
    ),
    (
        &["proxy-uid", "proxy-gid"],
        &["1337x", "4294967295", "-1", "0x539", "no-such-owner"],
        "expected a number from 0 to 4294967294, or the name of a",
    ),
    (
        &["istio-inbound-tproxy-mark", "istio-inbound-tproxy-route-table"],
        &["x", "0", "-1", "4294967296", "1337/0xff", "0x"],
        "expected a number from 1 to 4294967295",
    ),
    (&["istio-inbound-interception-mode"], &["REDIRECT -j ACCEPT", "*"], "expected REDIRECT, TPROXY or NONE"),
    (&["probe-timeout"], &["5", "-5s", "5 s", "9223372036854775807s"], "such as 5s, 250ms or 1m30s"),
    (&["timeout"], &["soon", "30", "0s", "99ms", "11m"], "expected 100ms to 10m, such as 30s"),
    (&["force-iptables-binary"], &["nftables"], "expected legacy or nft"),
    (&["iptables-version"], &["new"], "expected one such as 1.8.9"),
    (&["log_output_level"], &["default:loud"], "expected SCOPE:LEVEL"),
];

fn check_told(ended: &Outcome, printed: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("nothing was changed"), "{}", ended.stderr);
    for part in printed {
        assert!(ended.stderr.contains(part), "no {part:?} in {}", ended.stderr);
    }
}

fn check(long: &str, value: &str, item: &str, form: &str) {
    let row = settings().find(|row| row.long == long).expect("a flag");
    let flag = format!("--{long}={value}");
    check_told(&preview::<_, &str>(&[flag], &[]), &[&format!("--{long}: {item:?} "), form]);
    for variable in row.variables {
        let ended = preview::<&str, _>(&[], &[(variable, value)]);
        check_told(&ended, &[&format!("{variable}: {item:?} "), form]);
    }
}

#[test]
fn what_a_setting_can_not_mean_is_refused_by_flag_and_variable() {
    for (flags, values, form) in REFUSED {
        for (long, value) in flags.iter().flat_map(|long| values.iter().map(move |value| (long, value))) {
            check(long, value, value, form);
        }
    }
    for row in settings().filter(|row| row.kind == SettingKind::Switch && row.long != "dry-run") {
        check(row.long, "yes", "yes", "is not a boolean; expected true or false");
    }
    check("istio-outbound-ports", "443, +80 ,8080", "+80", LISTED_PORT);
    // Of every setting, tests/cli/hostile.rs shows it.
    let lines = "80\n-A OUTPUT -j ACCEPT";
    let complaint = "contains a line break, a control character or bytes that are not UTF-8; remove them";
    check("istio-inbound-ports", lines, lines, complaint);
}

#[test]
fn a_dry_run_that_is_not_clearly_asked_for() {
    for value in ["yes", "on", "2", "tRUE"] {
        let ended = apart(&[], Path::new(BINARY), &super::POD, &[("DRY_RUN", OsStr::new(value))]);
        check_told(&ended, &[&format!("DRY_RUN: {value:?} is not a boolean; expected true or false")]);
    }
}

#[test]
fn a_variable_that_is_no_text() {
    for (name, value) in [("DRY_RUN", &b"tru\xff"[..]), ("ISTIO_INBOUND_PORTS", b"80\xff")] {
        check_told(&apart(&[], Path::new(BINARY), &super::POD, &[(name, OsStr::from_bytes(value))]), &[name]);
    }
}

#[test]
fn an_argument_that_is_no_text() {
    let ended = preview::<_, &str>(&[OsStr::new("-x"), OsStr::from_bytes(b"10.0.0.0/8\xff")], &[]);
    check_told(&ended, &["--istio-service-exclude-cidr"]);
}

#[test]
fn names_of_owners_in_cni_mode() {
    for (flag, name) in [("-u", "--proxy-uid"), ("-g", "--proxy-gid")] {
        let ended = preview::<_, &str>(&["--cni-mode", flag, "root"], &[]);
        check_told(&ended, &[&format!("{name}: \"root\" is no"), "give the number"]);
    }
    let ended = preview(&["--cni-mode"], &[("ISTIO_OUTBOUND_OWNER_GROUPS", "root")]);
    check_told(&ended, &["ISTIO_OUTBOUND_OWNER_GROUPS: \"root\" is not a group number"]);
}

#[test]
fn an_unknown_letter_is_not_looked_for_in_values() {
    for value in ["-mTPROXY", "-m=TPROXY"] {
        let ended = preview::<_, &str>(&[value, "-T"], &[]);
        check_told(&ended, &["1 problem in the input", "unknown flag -T"]);
    }
}

#[test]
fn everything_at_once() {
    let arguments =
        ["-p", "0", "-b", "80,abc,99999", "-x", "*", "-c", "eth/0", "--nope", "-m", "TPROXI", "-u", "x"];
    let variables = [("IPTABLES_PROBE_PORT", "70000"), ("DROP_INVALID", "yes")];
    let printed = [
        "10 problems in the input",
        "--envoy-port: \"0\"",
        "--istio-inbound-ports: \"abc\"",
        "--istio-inbound-ports: \"99999\"",
        "--istio-service-exclude-cidr: \"*\"",
        "--istio-exclude-interfaces: \"eth/0\"",
        "unknown flag --nope",
        "--istio-inbound-interception-mode: \"TPROXI\"",
        "--proxy-uid: \"x\"",
        "IPTABLES_PROBE_PORT: \"70000\"",
        "DROP_INVALID: \"yes\"",
    ];
    check_told(&preview(&arguments, &variables), &printed);
}

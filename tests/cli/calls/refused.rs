//! Input that is refused: nothing is printed as rules, and each complaint names who said what, and what
//! would have been right.

use super::{apart, preview, settings};
use crate::support::program::{BINARY, Outcome, Run, bare};
use crate::support::scope;
use mesh::settings::SettingKind;
use std::path::Path;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

const LISTED_PORT: &str = "expected a port from 1 to 65535 or a range such as 8000-9000";
const LISTENER: &str = "is not a port to listen on; expected a port from 1 to 65535 or a range";
const PORT: &str = "expected a number from 1 to 65535";
const NETWORK: &str = "expected a network such as 10.0.0.0/8";
const INTERFACE: &str = "expected an interface name of 1 to 15 letters";
const ID: &str = "expected a number from 0 to 4294967294, or the name of a";

fn check_told(ended: &Outcome, printed: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("nothing was changed"), "{}", ended.stderr);
    for part in printed {
        assert!(ended.stderr.contains(part), "no {part:?} in {}", ended.stderr);
    }
}

/// The value is refused as a flag and as a variable, and the complaint about `item` has this `form`.
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
fn items_of_port_lists() {
    let lists = ["istio-inbound-ports", "istio-local-exclude-ports", "istio-outbound-ports"];
    for long in lists.into_iter().chain(["istio-local-outbound-ports-exclude"]) {
        for item in ["abc", "70000", "-1", "80 -j ACCEPT", "0x50", "80;81", "+80", "٨٠"] {
            check(long, item, item, LISTED_PORT);
            check(long, &format!("443, {item} ,8080"), item, LISTED_PORT);
        }
        check(long, "9000-8000", "9000-8000", "is a range whose end lies before its start");
        check(long, "9000:8000", "9000:8000", LISTED_PORT);
        check(long, "0-80", "0-80", "is port 0, which no connection uses");
    }
    check("istio-inbound-ports", "80,*", "80,*", "write * alone, or the items without it");
    check("istio-local-exclude-ports", "80,*", "*", LISTED_PORT);
}

#[test]
fn ports_of_the_proxy() {
    for value in ["0", "abc", "65536", "15001 -j ACCEPT", "-1"] {
        check("envoy-port", value, value, LISTENER);
        check("inbound-capture-port", value, value, LISTENER);
        check("inbound-tunnel-port", value, value, PORT);
        check("iptables-probe-port", value, value, PORT);
    }
    check("iptables-probe-port", "70000", "70000", PORT);
}

#[test]
fn networks() {
    for long in ["istio-service-cidr", "istio-service-exclude-cidr"] {
        check(long, "10.0.0.0/33", "10.0.0.0/33", "has no prefix length from 0 to 32");
        check(long, "2001:db8::/129", "2001:db8::/129", "has no prefix length from 0 to 128");
        check(long, "10.0.0.1", "10.0.0.1", "write 10.0.0.1/32 for the single address");
        for item in ["10.0.0.0/8 -j ACCEPT", "localhost/8", "10.0.0.0/255.0.0.0", "!10.0.0.0/8", "10.0.0/8"] {
            check(long, &format!("192.168.0.0/16,{item}"), item, NETWORK);
        }
    }
    check("istio-service-exclude-cidr", "*", "*", "would leave everything alone");
    check("istio-service-cidr", "*,10.0.0.0/8", "*,10.0.0.0/8", "write * alone");
}

#[test]
fn interfaces() {
    for long in ["istio-exclude-interfaces", "kube-virt-interfaces"] {
        for item in
            ["abcdefghijklmnop", "eth 0", "eth/0", "..", ".", "+", "-j", "!eth0", "a+b", "eth0\"", "ä"]
        {
            check(long, &format!("eth1,{item}"), item, INTERFACE);
        }
    }
}

#[test]
fn users_groups_and_marks() {
    for item in ["1337x", "4294967295", "-1", "0x539", "no-such-owner"] {
        check("proxy-uid", &format!("0,{item}"), item, ID);
        check("proxy-gid", &format!("0,{item}"), item, ID);
    }
    for value in ["x", "0", "-1", "4294967296", "1337/0xff", "0x"] {
        check("istio-inbound-tproxy-mark", value, value, "expected a number from 1 to 4294967295");
        check("istio-inbound-tproxy-route-table", value, value, "expected a number from 1 to 4294967295");
    }
    check(
        "istio-inbound-tproxy-route-table",
        "254",
        "254",
        "except 253 (default), 254 (main) and 255 (local)",
    );
}

#[test]
fn modes_switches_and_the_rest() {
    let mode = "expected REDIRECT, TPROXY or NONE";
    for value in ["TPROXI", "REDIRECT -j ACCEPT", "*"] {
        check("istio-inbound-interception-mode", value, value, mode);
    }
    for row in settings().filter(|row| row.kind == SettingKind::Switch && row.long != "dry-run") {
        check(row.long, "yes", "yes", "is not a boolean; expected true or false");
    }
    for value in ["5", "soon", "-5s", "5 s"] {
        check("probe-timeout", value, value, "such as 5s, 250ms or 1m30s");
    }
    check("force-iptables-binary", "nftables", "nftables", "expected legacy or nft");
    check("lock-wait", "soon", "soon", "expected a number of seconds");
    for timeout in ["soon", "30", "0s", "99ms", "11m"] {
        check("timeout", timeout, timeout, "expected 100ms to 10m, such as 30s");
    }
    check("iptables-version", "new", "new", "expected one such as 1.8.9");
    check("pod-ips", "10.0.0.1,pod", "pod", "expected one such as 10.0.0.1 or 2001:db8::1");
    check("dns-servers", "10.0.0.53/32", "10.0.0.53/32", "is not an IP address");
    check("log_output_level", "default:loud", "default:loud", "expected SCOPE:LEVEL");
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
fn a_line_break_in_any_value() {
    for row in settings() {
        let values = vec!["80\n-A OUTPUT -j ACCEPT", "\n", "80\r", "true\n", "eth0\u{85}", "\u{1b}[31m"];
        for value in scope::of(values, 2) {
            let flag = format!("--{}={value}", row.long);
            let complaint = format!(
                "{value:?} contains a line break, a control character or bytes that are not UTF-8; remove them"
            );
            if !row.long.is_empty() {
                let ended = preview::<_, &str>(&[flag], &[]);
                check_told(&ended, &[&format!("--{}: {complaint}", row.long)]);
            }
            // The preview is asked for by flag, which would hide the variable.
            for variable in row.variables.iter().filter(|name| **name != "DRY_RUN") {
                check_told(
                    &preview::<&str, _>(&[], &[(variable, value)]),
                    &[&format!("{variable}: {complaint}")],
                );
            }
        }
    }
}

#[test]
fn values_that_live_in_the_environment_alone() {
    let check = |name: &str, value: &str, printed: &[&str]| {
        let ended = preview::<&str, _>(&[], &[(name, value)]);
        check_told(&ended, printed);
        assert!(ended.stderr.contains(&format!("{name}: ")), "{}", ended.stderr);
    };
    for name in ["ISTIO_OUTBOUND_OWNER_GROUPS", "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"] {
        check(name, "0,no-such-group", &["\"no-such-group\" is not a known group", ID]);
    }
    check("ISTIO_OUTBOUND_OWNER_GROUPS", "*,0", &["write * alone"]);
    let many: Vec<String> = (0..65).map(|id| id.to_string()).collect();
    check("ISTIO_OUTBOUND_OWNER_GROUPS", &many.join(","), &["names 65 groups; at most 64"]);
    for value in ["10.0.0.0/8", "127.0.0.0/7", "127.0.0.1", "::1/128", "127.0.0.1/33"] {
        check("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", value, &[&format!("{value:?}"), "within 127.0.0.0/8"]);
    }
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
fn calls_that_are_not_well_formed() {
    let check =
        |arguments: &[&str], printed: &[&str]| check_told(&preview::<_, &str>(arguments, &[]), printed);
    check(&["--no-such-flag"], &["unknown flag --no-such-flag (see --help)"]);
    check(&["--no-such-flag=1", "-Z", "x"], &["unknown flag --no-such-flag", "unknown flag -Z"]);
    check(&["--dry-run", "false"], &["argument: \"false\" is not expected"]);
    check(&["-b"], &["--istio-inbound-ports: needs a value; write --istio-inbound-ports= for an empty one"]);
    check(&["--istio-inbound-ports"], &["--istio-inbound-ports: needs a value"]);
    check(&["--dry-run="], &["--dry-run: \"\" is not a boolean; expected true or false"]);
}

#[test]
fn an_unknown_letter_is_not_looked_for_in_values() {
    for value in ["-mTPROXY", "-m=TPROXY"] {
        let ended = preview::<_, &str>(&[value, "-T"], &[]);
        check_told(&ended, &["1 problem in the input", "unknown flag -T"]);
    }
}

#[test]
fn an_unknown_flag_before_the_command() {
    for arguments in [&["--no-such-flag"][..], &["--no-such-flag", "istio-iptables", "-n", "-p", "1"]] {
        let ended = bare(arguments).outcome();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains("--no-such-flag"), "{arguments:?}: {}", ended.stderr);
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

#[test]
fn what_tproxy_can_not_use_is_named_as_its_author_wrote_it() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], printed: &[&str]| {
        let arguments = [&["-m", "TPROXY"], arguments].concat();
        check_told(&preview(&arguments, variables), printed);
    };
    check(&["-z", "15006-15010"], &[], &["--inbound-capture-port: \"15006-15010\"", "give one port"]);
    check(&["-t", "0x53a"], &[], &["--istio-inbound-tproxy-mark: \"0x53a\"", "give another"]);
    let mark = "ISTIO_INBOUND_TPROXY_MARK";
    check(&[], &[(mark, "1338")], &["ISTIO_INBOUND_TPROXY_MARK: \"1338\"", "give another"]);
    check(&[], &[("INBOUND_CAPTURE_PORT", "1-2")], &["INBOUND_CAPTURE_PORT: ", "give one port"]);
}

#[test]
fn a_time_beyond_all_clocks() {
    for value in ["9223372036854775807s", "18446744073709551615s", "2562048h"] {
        check("probe-timeout", value, value, "is not a duration");
    }
}

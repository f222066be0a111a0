//! How flags and variables may be written, by which names the program may be called, and which of several
//! values wins.

use super::{POD, Preview, link, preview, rules};
use crate::support::folder::Folder;
use crate::support::program::Run;
use assert_cmd::Command;

fn check(arguments: &[&str], variables: &[(&str, &str)], lines: &[&str], absent: &[&str]) {
    let ended = preview(arguments, variables);
    let rules: Vec<&str> = ended.rules().lines().collect();
    for line in lines {
        assert!(rules.contains(line), "{arguments:?} {variables:?}: no {line:?} in {rules:#?}");
    }
    for line in absent {
        assert!(!rules.contains(line), "{arguments:?} {variables:?}: {line:?} in {rules:#?}");
    }
}

const TO_15101: &str = "-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15101";
const IN_15101: &str = "-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15101";
const IN_15102: &str = "-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15102";
const IN_DEFAULT: &str = "-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006";
const DROP_INVALID: &str = "-A PREROUTING -m conntrack --ctstate INVALID -j ISTIO_DROP";
const DNS: &str = "-A ISTIO_OUTPUT_DNS -p udp --dport 53 -j REDIRECT --to-ports 15053";
const V6: &str = "# ip6tables-restore";

#[test]
fn values_of_nothing() {
    let none = rules(&[]);
    for short in ["-b", "-d", "-c", "-i", "-x", "-q", "-o", "-k", "-u", "-g"] {
        for value in ["", " ", ",", " , ,"] {
            assert_eq!(rules(&[short, value]), none, "{short} {value:?}");
        }
        assert_eq!(rules(&[&format!("{short}=")]), none, "{short}");
    }
    check(&["-x", "", "-b", "*"], &[], &["-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT"], &[]);
}

#[test]
fn switches() {
    for on in ["", "=1", "=t", "=T", "=TRUE", "=true", "=True"] {
        check(&[&format!("--drop-invalid{on}")], &[], &[DROP_INVALID], &[]);
    }
    for off in ["=0", "=f", "=F", "=FALSE", "=false", "=False"] {
        check(&[&format!("--drop-invalid{off}")], &[], &[], &[DROP_INVALID]);
    }
    check(&["--drop-invalid", "--drop-invalid=false"], &[], &[], &[DROP_INVALID]);
    check(&["--drop-invalid=false", "--drop-invalid"], &[], &[DROP_INVALID], &[]);
}

#[test]
fn lists() {
    let lines = [
        "-A ISTIO_INBOUND -p tcp --dport 80 -j ISTIO_IN_REDIRECT",
        "-A ISTIO_INBOUND -p tcp --dport 8000:9000 -j ISTIO_IN_REDIRECT",
    ];
    for list in ["80,8000-9000", " 80 ,\t8000:9000 ", ",80,,8000-9000,"] {
        check(&["-b", list], &[], &lines, &[]);
    }
}

/// For a Service called `envoy`, Kubernetes puts `ENVOY_PORT` into every pod of its namespace.
#[test]
fn a_link_to_a_service_is_no_setting() {
    let link = "tcp://10.0.0.1:80";
    check(&["-b", "80"], &[("ENVOY_PORT", link), ("INBOUND_CAPTURE_PORT", link)], &[IN_DEFAULT], &[]);
    check(&[], &[("ENVOY_PORT", "15101")], &[], &[TO_15101]);
}

#[test]
fn the_command_line_wins_over_the_environment_and_it_over_defaults() {
    let port = ("INBOUND_CAPTURE_PORT", "15102");
    check(&["-b", "80"], &[port], &[IN_15102], &[]);
    check(&["-b", "80", "-z", "15101"], &[port], &[IN_15101], &[IN_15102]);
    check(&["--drop-invalid=false"], &[("DROP_INVALID", "true")], &[], &[DROP_INVALID]);
    check(&["-b", "80", "-z", "15101"], &[("INBOUND_CAPTURE_PORT", "abc")], &[IN_15101], &[]);
    check(&["-b", ""], &[("ISTIO_INBOUND_PORTS", "*")], &[], &["-A PREROUTING -p tcp -j ISTIO_INBOUND"]);
}

#[test]
fn the_second_name_of_a_variable_counts_where_the_first_is_missing() {
    let all = ["--capture-all-dns"];
    check(&all, &[("ISTIO_META_DNS_CAPTURE", "true")], &[DNS], &[]);
    check(&all, &[("REDIRECT_DNS", "false"), ("ISTIO_META_DNS_CAPTURE", "true")], &[], &[DNS]);
    check(&all, &[("REDIRECT_DNS", ""), ("ISTIO_META_DNS_CAPTURE", "true")], &[DNS], &[]);
    check(&[], &[("INVALID_DROP", "1")], &[DROP_INVALID], &[]);
    check(&[], &[("DROP_INVALID", "0"), ("INVALID_DROP", "1")], &[], &[DROP_INVALID]);
    let pod = ["--pod-ips", "10.1.2.3,2001:db8::1"];
    check(&pod, &[("ISTIO_DUAL_STACK", "true")], &[V6], &[]);
    check(&pod, &[("DUAL_STACK", "false"), ("ISTIO_DUAL_STACK", "true")], &[], &[V6]);
    check(&pod, &[], &[], &[V6]);
}

#[test]
fn names_that_upstream_calls_it_by() {
    let folder = Folder::new("cli");
    let (istio_iptables, pilot_agent) = (link(&folder, "istio-iptables"), link(&folder, "pilot-agent"));
    let expected = rules(&["-b", "*"]);
    for (program, command) in [
        (istio_iptables.clone(), &[][..]),
        (istio_iptables, &["--log_output_level=default:debug"]),
        (pilot_agent.clone(), &["istio-iptables"]),
        (pilot_agent, &["--log_output_level=default:debug", "istio-iptables"]),
    ] {
        let mut call = Command::new(&program);
        call.env_clear().args(command).args(POD).args(["-n", "-b", "*"]);
        let ended = call.outcome();
        assert_eq!(ended.rules(), expected, "{program:?} {command:?}");
    }
}

#[test]
fn owners_by_name_and_by_the_greatest_number() {
    check(&["-u", "root"], &[], &["-A ISTIO_OUTPUT -m owner --uid-owner 0 -j RETURN"], &[]);
    check(&["-g", "root"], &[], &["-A ISTIO_OUTPUT -m owner --gid-owner 0 -j RETURN"], &[]);
    let greatest = "-A ISTIO_OUTPUT -m owner --uid-owner 4294967294 -j RETURN";
    check(&["-u", "4294967294"], &[], &[greatest], &[]);
    check(&[], &[("ENVOY_USER", "root")], &["-A ISTIO_OUTPUT -m owner --uid-owner 0 -j RETURN"], &[]);
    let groups = ("ISTIO_OUTBOUND_OWNER_GROUPS", "root,1001");
    let rule = "-A ISTIO_OUTPUT -m owner ! --gid-owner 0 -m owner ! --gid-owner 1001 -j RETURN";
    check(&[], &[groups], &[rule], &[]);
}

#[test]
fn no_names_are_looked_up_in_cni_mode() {
    let user = ("ENVOY_USER", "root");
    let rule = "-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN";
    check(&["--cni-mode"], &[user], &[rule], &[]);
}

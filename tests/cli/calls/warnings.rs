//! Input that is odd but harmless: it works, and standard error says what was made of it.

use super::{POD, Preview, pipe, preview, settings};
use crate::support::folder::Folder;
use crate::support::program::{Run, bare, stdout_of};
use serde_json::Value;

/// The call works and warns once, of this.
fn check(arguments: &[&str], variables: &[(&str, &str)], warning: &str) {
    let ended = preview(arguments, variables);
    ended.rules();
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(" WARN ") && ended.stderr.contains(warning), "{}", ended.stderr);
}

#[test]
fn host_bits() {
    let text = "10.1.2.3/8 has host bits set and is taken as the network 10.0.0.0/8";
    check(&["-i", "10.1.2.3/8"], &[], &format!("--istio-service-cidr: {text}"));
    check(&["-x", "10.1.2.3/8"], &[], &format!("--istio-service-exclude-cidr: {text}"));
    check(&[], &[("ISTIO_SERVICE_CIDR", "10.1.2.3/8")], &format!("ISTIO_SERVICE_CIDR: {text}"));
}

#[test]
fn networks_of_a_family_that_is_not_captured() {
    let text = "2001:db8::/32 has no effect, because IPv6 is not captured";
    check(&["-i", "2001:DB8::/32"], &[], &format!("--istio-service-cidr: {text}"));
    check(&["-x", "2001:db8::/32"], &[], &format!("--istio-service-exclude-cidr: {text}"));
    let variable = "ISTIO_SERVICE_EXCLUDE_CIDR";
    check(&[], &[(variable, "2001:db8::/32")], &format!("{variable}: {text}"));
    // That loopback is captured counts for both families.
    let ended = preview::<_, &str>(&["-i", "::1/128"], &[]);
    assert_ne!(ended.rules(), preview::<&str, &str>(&[], &[]).rules());
    assert_eq!(ended.stderr, "");
}

#[test]
fn port_0() {
    for (short, long) in [
        ("-b", "istio-inbound-ports"),
        ("-d", "istio-local-exclude-ports"),
        ("-q", "istio-outbound-ports"),
        ("-o", "istio-local-outbound-ports-exclude"),
    ] {
        check(&[short, "0,80"], &[], &format!("--{long}: port 0 is dropped; no connection uses it"));
    }
}

#[test]
fn dns() {
    check(&["--redirect-dns"], &[], "DNS is not captured: no DNS server is known");
    check(&["--capture-all-dns"], &[], "--capture-all-dns has no effect without --redirect-dns");
}

#[test]
fn all_flags_for_compatibility_are_taken_in_silence() {
    let arguments = [
        "--log_caller=all",
        "--log_stacktrace_level=default:none",
        "--log_rotate=/nowhere/x",
        "--log_rotate_max_age=1",
        "--log_rotate_max_backups=1",
        "--log_rotate_max_size=1",
        "--vklog=9",
    ];
    let ended = preview::<_, &str>(&arguments, &[]);
    ended.rules();
    assert_eq!(ended.stderr, "");
}

#[test]
fn levels_choose_which_lines_there_are() {
    for (levels, expected) in [
        ("default:info", 1),
        ("default:error", 0),
        ("all:none", 0),
        ("none", 0),
        ("default:none,config:warn", 1),
        ("config:error", 0),
        ("other:error", 1),
        ("trace", 1),
    ] {
        let ended = preview::<_, &str>(&["-b", "0", "--log_output_level", levels], &[]);
        ended.rules();
        assert_eq!(ended.stderr.lines().count(), expected, "{levels}: {}", ended.stderr);
    }
}

#[test]
fn lines_can_be_json() {
    let ended = preview::<_, &str>(&["-b", "0", "-d", "0", "-i", "10.1.2.3/8", "--log_as_json"], &[]);
    ended.rules();
    let lines: Vec<Value> =
        ended.stderr.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert_eq!(line["level"], "WARN", "{line}");
        assert!(line["message"].as_str().is_some_and(|text| text.starts_with("--istio-")), "{line}");
    }
}

#[test]
fn lines_never_mix_with_rules() {
    let plain = preview::<_, &str>(&["-b", "0"], &[]);
    let both = preview::<_, &str>(&["-b", "0", "--log_target", "stdout"], &[]);
    assert_eq!(both.rules(), plain.rules());
    assert!(both.stderr.contains("port 0 is dropped"), "{}", both.stderr);
    let named_twice = preview::<_, &str>(&["-b", "0", "--log_target", "stdout,stderr"], &[]);
    assert_eq!(named_twice.stderr.lines().count(), plain.stderr.lines().count(), "{}", named_twice.stderr);
}

#[test]
fn lines_never_mix_with_an_answer() {
    for command in [
        &["explain", "--format", "json", "--destination", "10.0.0.1:80"][..],
        &["render", "--format", "json"],
        &["lint", "--format", "json"],
    ] {
        let flags = ["-b", "0", "-i", "10.1.2.3/8", "--log_target", "stdout"];
        let output = bare(command).args(POD).args(flags).outcome().success();
        serde_json::from_str::<Value>(&output.stdout).unwrap_or_else(|error| panic!("{command:?}: {error}"));
    }
}

/// It would wait for a reader for ever.
#[test]
fn a_pipe_that_nobody_reads_is_refused() {
    let folder = Folder::new("cli");
    let ended = preview::<_, &str>(&["--log_target", &pipe(&folder)], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("can't be written: "), "{}", ended.stderr);
}

#[test]
fn lines_can_go_to_a_file_and_to_standard_error() {
    let folder = Folder::new("cli");
    let file = folder.join("log");
    let targets = format!("{},stderr", file.display());
    let ended = preview::<_, &str>(&["-b", "0", "--log_target", &targets], &[]);
    ended.rules();
    assert_eq!(std::fs::read_to_string(&file).expect("the log"), ended.stderr);
    let nowhere = folder.join("missing/log");
    let ended = preview::<_, &str>(&["--log_target", nowhere.to_str().expect("UTF-8")], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(
        ended.stderr.contains("--log_target: ") && ended.stderr.contains("expected stderr, stdout or a path")
    );
}

#[test]
fn help_lists_every_flag_and_variable() {
    let help = stdout_of(&[&["istio-iptables", "--help-all"], &POD[..]].concat());
    for row in settings() {
        assert!(help.contains(&format!("--{}", row.long)), "{}", row.long);
        assert!(row.variables.iter().all(|name| help.contains(name)), "{:?}", row.variables);
    }
}

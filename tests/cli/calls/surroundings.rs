//! What a preview needs of the machine, which is nothing, and what happens when it can't be printed.

use super::{POD, Preview, apart, pipe, preview, rules};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, Outcome, Run, bare, folder_with};
use std::path::Path;
use std::{
    fs::{File, OpenOptions},
    io,
    process::{Command, Stdio},
};

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full")
}

/// The preview with these streams. Tells no rules: they go elsewhere.
fn preview_to(arguments: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Outcome {
    let mut command = Command::new(BINARY);
    command.env_clear().args(["istio-iptables", "--dry-run", "--pod-ips", "10.77.0.2"]).args(arguments);
    let child = command.stdout(stdout).stderr(stderr).spawn().expect("it starts");
    child.wait_with_output().expect("it ends").into()
}

#[test]
fn nobody_without_network_or_variables_gets_the_same_preview() {
    let folder = folder_with(BINARY, "cli");
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "-i"];
    let flags = ["-n", "-b", "*", "-i", "*", "--redirect-dns", "--dns-servers", "10.0.0.53", "-u", "1337"];
    let ended = apart(&nobody, &folder.join("sidecar-init"), &[&POD[..], &flags].concat(), &[]);
    assert_eq!(ended.rules(), rules(&flags));
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_namespace_is_not_entered_for_a_preview_whose_facts_are_declared() {
    let ended = preview::<_, &str>(&["--network-namespace", "/no/such/file"], &[]);
    assert_eq!(ended.rules(), rules(&[]));
}

/// A shell's variable that is not set must not mean another namespace; to upstream's program, an empty name is the default.
#[test]
fn an_empty_name_is_of_no_namespace() {
    let empty = ["--network-namespace", ""];
    let refused =
        "--network-namespace: \"\" names no network namespace; leave the flag out for the current one";
    for command in ["apply", "diff", "clean", "explain", "status"] {
        let ended = bare(&[&[command], &empty[..]].concat()).outcome().with(2, command);
        assert!(ended.stderr.contains(refused), "{command}: {}", ended.stderr);
    }
    assert_eq!(preview::<_, &str>(&empty, &[]).rules(), rules(&[]));
}

#[test]
fn a_namespace_that_is_none_is_refused() {
    let folder = Folder::new("cli");
    for path in ["/no/such/file", "/dev/null", "/proc/self/ns/mnt", &pipe(&folder)] {
        let ended = bare(&["istio-iptables", "--dry-run", "--network-namespace", path]).outcome();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{path}");
        let printed = format!("--network-namespace: {path:?} can't be entered: ");
        assert!(ended.stderr.contains(&printed), "{}", ended.stderr);
        assert!(ended.stderr.contains("or a network namespace such as"), "{}", ended.stderr);
    }
}

#[test]
fn a_pod_without_an_address_is_told_how_to_declare_one() {
    let check = |ended: Outcome, found: &str| {
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        let printed = format!("--pod-ips: no valid local IP address found: {found}; wait for the network");
        assert!(ended.stderr.contains(&printed), "{}", ended.stderr);
    };
    let declared = |addresses: &str| preview::<_, &str>(&["--pod-ips", addresses], &[]);
    check(apart(&[], Path::new(BINARY), &["--dry-run"], &[]), "there is no address at all");
    check(declared(""), "there is no address at all");
    check(declared("127.0.0.1,::1"), "every address is loopback");
    check(declared("169.254.1.1,fe80::1"), "every address is link-local");
    check(
        declared("127.0.0.1,169.254.1.1,224.0.0.1,ff02::1"),
        "every address is link-local, loopback or multicast",
    );
}

/// A resolv.conf that can't be read is not one without servers. A folder stands in its place.
#[test]
fn servers_that_can_not_be_read_are_not_none() {
    let run = |arguments: &[&str]| -> Outcome {
        let script = "mount -t tmpfs tmpfs /etc && mkdir /etc/resolv.conf && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(BINARY);
        command
            .args(["istio-iptables", "--dry-run", "--pod-ips", "10.77.0.2"])
            .args(["--redirect-dns"])
            .args(arguments);
        command.outcome()
    };
    let ended = run(&[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("--dns-servers: resolv.conf can't be read: "), "{}", ended.stderr);
    for declared in [&["--dns-servers", "10.0.0.53"][..], &["--capture-all-dns"]] {
        assert!(run(declared).rules().contains("--dport 53"), "{declared:?}");
    }
}

#[test]
fn rules_that_can_not_be_printed_are_a_failure() {
    let (_, gone) = io::pipe().expect("a pipe");
    for stdout in [Stdio::from(full()), gone.into()] {
        let ended = preview_to(&["-b", "*"], stdout, Stdio::piped()).with(1, "an unprintable preview");
        assert!(ended.stderr.starts_with("error: ") && !ended.stderr.contains("panicked"), "{ended:?}");
    }
}

#[test]
fn complaints_that_can_not_be_printed_change_no_exit_code() {
    assert_eq!(preview_to(&["-b", "abc"], Stdio::null(), full()).code, Some(2));
    assert_eq!(preview_to(&[], full(), full()).code, Some(1));
}

#[test]
fn warnings_that_can_not_be_printed_stop_nothing() {
    let ended = preview_to(&["-b", "0"], Stdio::piped(), full());
    assert_eq!(ended.rules(), rules(&["-b", "0"]));
}

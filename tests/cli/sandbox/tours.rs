//! The tour: every connection goes as the rules say, whoever calls and whatever is captured.

use crate::cli::sandbox::support::{EVERYBODY, RunAs, USER, sandbox};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, Outcome, Run};
use std::process::Command;

fn tour(who: RunAs, flags: &[&str], connections: usize) -> String {
    let Outcome { code, stdout, stderr } = sandbox(who, flags);
    let all = format!("All {connections} connections went as the rules say.");
    assert!(code == Some(0) && stdout.contains(&all), "{who:?} {flags:?}: {code:?}\n{stdout}\n{stderr}");
    // Nobody sees colours here, nor waits for a reader.
    assert!(!stdout.contains('\u{1b}') && !stdout.contains("WRONG"), "{stdout}");
    assert_eq!(stderr, "", "{who:?} {flags:?}");
    stdout
}

#[test]
fn without_flags_it_shows_both_families() {
    for who in EVERYBODY {
        // Where there is one user, nobody can tell the proxy's calls from others.
        let text = tour(who, &[], if who == RunAs::One { 6 } else { 7 });
        let uid = if who == RunAs::Root { 1000 } else { USER };
        assert!(text.contains(&format!("proxy: outbound 10.9.0.2:80 -> 15001, from uid {uid}\n")), "{text}");
        assert!(text.contains("proxy: inbound 10.9.0.1:8080 -> 15006, from 10.9.0.2:"), "{text}");
        assert!(text.contains("called at 10.9.0.1:8080, sees 127.0.0.6:"), "{text}");
        assert!(text.contains("called at [fd09::1]:8080, sees [::6]:"), "{text}");
        assert!(text.contains("called at 10.9.0.1:15021, sees 10.9.0.2:"), "{text}");
        assert_eq!(text.contains("Only one user is available here"), who == RunAs::One, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

/// A root directory that is no mount point, as debootstrap makes one, cannot be made private.
#[test]
fn it_works_in_a_chroot_without_a_trace_outside() {
    let folder = Folder::new("chroot");
    let script = "cd \"$1\" && mkdir bin dev etc lib lib64 proc sys usr mnt && cp /etc/passwd /etc/resolv.conf etc && \
        for name in bin dev lib lib64 proc sys usr; do mount --rbind /$name $name; done && cp \"$2\" tool && \
        before=$(cat /proc/self/mountinfo) && chroot . /tool sandbox && test \"$before\" = \"$(cat /proc/self/mountinfo)\"";
    let mut call = Command::new("unshare");
    call.args(["--mount", "--propagation=shared", "sh", "-c", script, "sh"]).arg(&*folder).arg(BINARY);
    let text = call.outcome().with(0, "a tour in a chroot").stdout;
    assert!(text.contains("All 7 connections went as the rules say."), "{text}");
}

#[test]
fn flags_have_stories_of_their_own() {
    let flags = [
        "-x",
        "10.1.0.0/16",
        "-o",
        "5432",
        "-i",
        "10.0.0.0/8",
        "-q",
        "9999",
        "-b",
        "8080,81",
        "--redirect-dns",
    ];
    for who in [RunAs::Root, RunAs::Many] {
        let text = tour(who, &flags, 11);
        for line in [
            "the application, uid ",
            "called at 10.1.0.10:80, sees 10.9.0.1:",
            "called at 10.9.0.2:5432, sees 10.9.0.1:",
            "proxy: outbound 10.9.0.2:9999 -> 15001, from uid ",
            "proxy: dns query for reviews.example -> 15053, from uid ",
            "answer: reviews.example is 10.9.0.2\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
    // The agent's answers need a user of its own.
    let text = tour(RunAs::One, &flags, 9);
    assert!(!text.contains("reviews.example"), "{text}");
}

#[test]
fn tproxy_keeps_the_client_s_address() {
    for who in EVERYBODY {
        let text = tour(who, &["-m", "TPROXY"], if who == RunAs::One { 6 } else { 7 });
        assert!(text.contains("called at 10.9.0.1:8080, sees 10.9.0.2:"), "{text}");
        assert!(text.contains("called at [fd09::1]:8080, sees [fd09::2]:"), "{text}");
    }
}

#[test]
fn every_backend_does() {
    for backend in crate::support::setting::backends() {
        tour(RunAs::Root, &["--backend", backend], 7);
    }
}

/// Where flags put a listener at a port that the tour would have used.
#[test]
fn the_proxy_s_ports_come_first() {
    let text = tour(RunAs::Root, &["-p", "8080", "-z", "80", "-o", "53", "--redirect-dns"], 8);
    assert!(text.contains("proxy: inbound 10.9.0.1:3000 -> 80, from 10.9.0.2:"), "{text}");
    assert!(text.contains("proxy: outbound 10.9.0.2:80 -> 8080, from uid 1000\n"), "{text}");
}

#[test]
fn one_family_is_enough() {
    let text = tour(RunAs::Root, &["--dual-stack=false"], 5);
    assert!(!text.contains("fd09::"), "{text}");
}

#[test]
fn nothing_is_captured_where_nothing_is() {
    let text = tour(RunAs::Root, &["-m", "NONE"], 6);
    assert!(!text.contains("proxy: "), "{text}");
}

#[test]
fn a_manifest_says_it_too() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/pod-istio.yaml");
    let text = tour(RunAs::Root, &["-f", file, "-z", "16006"], 5);
    assert!(text.contains("proxy: inbound 10.9.0.1:8080 -> 16006"), "{text}");
    assert!(text.contains("pod-istio.yaml -z 16006\n"), "{text}");
}

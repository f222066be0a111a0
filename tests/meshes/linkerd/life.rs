//! A pod's life with the drop-in: by upstream's names, again with other flags, beside rules of others, with a failure, and
//! gone without a trace; and real connections that end as the rules say.

use crate::meshes::linkerd::{Namespace, call, listed};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, Run};
use std::os::unix::fs::symlink;
use std::process::Command;

const GOOD: [&str; 7] = ["linkerd-init", "-p", "4143", "-o", "4140", "-u", "2102"];
const CLOSE_WAIT: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";

fn rules(pod: &Namespace, program: &str) -> Vec<String> {
    listed(pod, program).into_iter().filter(|line| line.starts_with("-A")).collect()
}

#[test]
fn upstreams_names_call_it() {
    let folder = Folder::new("linkerd-names");
    for name in ["proxy-init", "linkerd2-proxy-init"] {
        let program = folder.join(name);
        symlink(BINARY, &program).expect("a link");
        let mut command = Command::new(&program);
        let output = command.args(["-p", "4143", "-o", "4140", "--simulate"]).outcome().with(0, name);
        assert!(output.stdout.contains("-N PROXY_INIT_REDIRECT"), "{name}");
    }
}

#[test]
fn a_second_run_changes_what_differs_and_nothing_else() {
    for mode in ["legacy", "nft"] {
        let (pod, program) = (Namespace::new(), format!("iptables-{mode}"));
        let flags = [&GOOD[..], &["--iptables-mode", mode]].concat();
        call(Some(&pod), &flags).with(0, "linkerd");
        let first = rules(&pod, &program);
        let again = call(Some(&pod), &flags).with(0, "linkerd");
        assert!(again.stderr.contains("changed=false"), "{}", again.stderr);
        let other = [&flags[..], &["--inbound-ports-to-ignore", "22"]].concat();
        call(Some(&pod), &other).with(0, "linkerd");
        let second = rules(&pod, &program);
        let added: Vec<&String> = second.iter().filter(|rule| !first.contains(rule)).collect();
        assert!(matches!(&added[..], [one] if one.contains("--dports 22")), "{added:?}");
        assert_eq!(second.len(), first.len() + 1);
    }
}

#[test]
fn rules_of_others_stay_and_ours_go_without_a_trace() {
    let pod = Namespace::new();
    let theirs = ["-t", "nat", "-A", "OUTPUT", "-d", "192.0.2.1/32", "-j", "RETURN"];
    pod.stdout("iptables-nft", &theirs);
    let before = rules(&pod, "iptables-nft");
    call(Some(&pod), &[&GOOD[..], &["--iptables-mode=nft"]].concat()).with(0, "linkerd");
    assert!(before.iter().all(|rule| rules(&pod, "iptables-nft").contains(rule)));
    let cleaned = call(Some(&pod), &["clean"]).with(0, "linkerd");
    assert_eq!(rules(&pod, "iptables-nft"), before, "{}", cleaned.stderr);
    assert_eq!(rules(&pod, "ip6tables-nft"), Vec::<String>::new());
}

#[test]
fn how_long_closed_connections_are_remembered_is_set_in_the_pod_and_only_there() {
    let (pod, host) = (Namespace::new(), Namespace::new());
    let read =
        |space: &Namespace| space.run(|| std::fs::read_to_string(CLOSE_WAIT)).expect("conntrack is there");
    let before = read(&host);
    let path = pod.path();
    let flags = ["--netns", &path, "--timeout-close-wait-secs", "77"];
    // A simulation sets nothing.
    call(Some(&host), &[&GOOD[..], &flags, &["--simulate"]].concat()).with(0, "linkerd");
    assert_eq!(read(&pod), before);
    call(Some(&host), &[&GOOD[..], &flags].concat()).with(0, "linkerd");
    assert_eq!((read(&pod).trim(), read(&host)), ("77", before.clone()));
    assert!(!listed(&host, "iptables-nft").concat().contains("PROXY_INIT"));
    // What the kernel does not take leaves everything as it was.
    let fresh = Namespace::new();
    let far = ["--timeout-close-wait-secs", "2147483647"];
    let ended = call(Some(&fresh), &[&GOOD[..], &far].concat()).with(1, "linkerd");
    assert!(
        ended.stderr.contains("--timeout-close-wait-secs can't be set to 2147483647"),
        "{}",
        ended.stderr
    );
    assert_eq!(read(&fresh), before);
    assert!(!listed(&fresh, "iptables-nft").concat().contains("PROXY_INIT"));
}

#[test]
fn networks_of_both_families_go_to_their_own() {
    let pod = Namespace::new();
    let subnets = ["--iptables-mode=nft", "--subnets-to-ignore=10.0.0.0/8,fd00::/8"];
    call(Some(&pod), &[&GOOD[..], &subnets].concat()).with(0, "linkerd");
    let count =
        |program: &str, text: &str| rules(&pod, program).iter().filter(|rule| rule.contains(text)).count();
    assert_eq!((count("iptables-nft", "10.0.0.0/8"), count("iptables-nft", "fd00::/8")), (1, 0));
    assert_eq!((count("ip6tables-nft", "10.0.0.0/8"), count("ip6tables-nft", "fd00::/8")), (0, 1));
}

#[test]
fn real_connections_end_as_the_rules_say_whatever_holds_them() {
    for backend in crate::support::setting::backends() {
        let pod = Namespace::new();
        pod.ip("link add eth0 type veth peer name far\naddr add 10.77.0.2/24 dev eth0\naddr add fd77::2/64 dev eth0\n\
                link set eth0 up\nlink set far up\nroute add default dev eth0\nroute add ::/0 dev eth0\n");
        let flags = [
            "--mesh=linkerd",
            "--backend",
            backend,
            "--inbound-ports-to-ignore=4190,4191",
            "--outbound-ports-to-ignore=4567,4568",
            "--subnets-to-ignore=172.17.0.0/16",
        ];
        call(Some(&pod), &[&["apply"][..], &flags].concat()).with(0, "linkerd");
        let checked = call(Some(&pod), &[&["check"][..], &flags].concat());
        assert_eq!(checked.code, Some(0), "{backend}: {}{}", checked.stdout, checked.stderr);
        let probed = call(Some(&pod), &[&["probe"][..], &flags].concat());
        assert_eq!(probed.code, Some(0), "{backend}: {}{}", probed.stdout, probed.stderr);
        call(Some(&pod), &["clean"]).with(0, "linkerd");
        assert_eq!(pod.stdout("nft", &["list", "ruleset"]).matches("PROXY_INIT").count(), 0);
    }
}

//! The words of `kumactl`: what they do, and what is printed.

use crate::support::folder::Folder;
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, PATH};
use std::os::unix::fs::symlink;

/// Calls the program in a namespace, with nothing in its environment but PATH and these variables.
pub(crate) fn call_as(
    program: &str,
    namespace: &Namespace,
    words: &[&str],
    variables: &[(&str, &str)],
    input: &str,
) -> Outcome {
    let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
    let mut all = vec!["-i".to_owned(), format!("PATH={PATH}")];
    all.extend(variables);
    all.push(program.to_owned());
    all.extend(words.iter().map(|word| (*word).to_owned()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    namespace.output("env", &all, input)
}

pub(crate) fn call(namespace: &Namespace, words: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let words = [&["kuma-init"][..], words].concat();
    call_as(BINARY, namespace, &words, variables, "")
}

fn dry_run(words: &[&str], variables: &[(&str, &str)], input: &str) -> String {
    let words = [&["kuma-init", "install", "transparent-proxy", "--dry-run"][..], words].concat();
    let namespace = Namespace::new();
    let ended = call_as(BINARY, &namespace, &words, variables, input);
    let ended = ended.with(0, &words.join(" "));
    without_comments(&ended.stdout)
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("-m comment --comment \"") {
        kept.push_str(before);
        rest = after.split_once("\" ").expect("a comment ends").1;
    }
    kept + rest
}

fn check(words: &[&str], variables: &[(&str, &str)], input: &str, lines: &[&str]) {
    let text = dry_run(words, variables, input);
    for line in lines {
        assert!(text.lines().any(|one| one == *line), "{words:?} {variables:?}: no {line:?} in\n{text}");
    }
}

#[test]
fn a_dry_run_prints_each_family_under_its_heading_and_sets_nothing() {
    let words = [
        "install",
        "transparent-proxy",
        "--dry-run",
        "--pod-ips",
        "10.0.0.1,fd00::1",
        "--kuma-dp-user",
        "5678",
    ];
    let namespace = Namespace::new();
    let ended = call(&namespace, &words, &[]).with(0, "kumactl");
    assert_eq!(ended.stderr, "");
    let (v4, v6) = ended.stdout.split_once("\n### IPv6 ###\n\n").expect("both families");
    let v4 = v4.strip_prefix("### IPv4 ###\n\n").expect("a heading");
    assert!(v4.starts_with("* nat\n-N KUMA_MESH_INBOUND\n") && v4.ends_with("\nCOMMIT\n"), "{v4}");
    for (program, text) in [("iptables-restore", v4), ("ip6tables-restore", v6)] {
        namespace.fed(program, &["--noflush", "--test"], text);
    }
    assert!(!namespace.stdout("nft", &["list", "ruleset"]).contains("KUMA"));
    assert!(!namespace.stdout("ip", &["-6", "addr", "show", "dev", "lo"]).contains("::6/"));
    // Long options are taken as well.
    let verbose = call(&namespace, &[&words[..], &["--verbose"]].concat(), &[]);
    let text = verbose.stdout.split("\n### IPv6").next().unwrap_or_default().replace("### IPv4 ###", "");
    namespace.fed("iptables-restore", &["--noflush", "--test"], &text);
}

#[test]
fn files_stand_below_variables_and_these_below_flags() {
    let folder = Folder::new("kuma-files");
    let one = folder
        .write("one.yaml", "redirect:\n  inbound: {port: 1, excludePorts: [5, 6]}\n  outbound: {port: 1}\n");
    let two = folder
        .write("two.json", r#"{"redirect": {"inbound": {"excludePorts": [7]}, "outbound": {"port": 2}}}"#);
    let lines = [
        "-A KUMA_MESH_INBOUND -p tcp --dport 7 -j RETURN",
        "-A KUMA_MESH_INBOUND_REDIRECT -p tcp -j REDIRECT --to-ports 1",
        "-A KUMA_MESH_OUTBOUND_REDIRECT -p tcp -j REDIRECT --to-ports 2",
    ];
    check(&["--config", &one, "--config", &two], &[], "", &lines);
    check(&["--config", &format!("{one},{two}")], &[], "", &lines);
    let text = dry_run(&["--config", &one, "--config", &two], &[], "");
    assert!(!text.contains("--dport 5 "), "lists are replaced: {text}");
    let variables = [("KUMA_TRANSPARENT_PROXY_REDIRECT_OUTBOUND_PORT", "3")];
    let to = |port: &str| format!("-A KUMA_MESH_OUTBOUND_REDIRECT -p tcp -j REDIRECT --to-ports {port}");
    check(&["--config", &two], &variables, "", &[&to("3")]);
    check(&[], &variables, "", &[&to("3")]);
    check(&["--config", &two, "--redirect-outbound-port", "4"], &variables, "", &[&to("4")]);
    let input = "redirect: {outbound: {port: 5}}";
    check(&["--config", "-"], &[], input, &[&to("5")]);
    check(&["--config", input], &[], "", &[&to("5")]);
    check(
        &["--config", "redirect:\n  outbound:\n    port: 6\n    excludePorts: [7, 8]\n"],
        &[],
        "",
        &[&to("6")],
    );
    check(&["--config-file", "-"], &[], input, &[&to("5")]);
}

#[test]
fn repeated_flags_add_to_lists_or_replace_what_was_said() {
    check(
        &[
            "--exclude-outbound-ports-for-uids=tcp:1900,1000-2000:106-108",
            "--exclude-outbound-ports-for-uids=123",
            "--exclude-outbound-ips",
            "10.0.0.1",
            "--exclude-outbound-ips",
            "10.0.0.2,10.0.0.3",
            "--vnet",
            "docker0:172.17.0.0/16",
            "--vnet",
            "br+:172.18.0.0/16",
            "--exclude-inbound-ports",
            "1",
            "--exclude-inbound-ports",
            "2",
        ],
        &[],
        "",
        &[
            "-I OUTPUT 1 -m multiport -p tcp --dport 1900,1000:2000 -m owner --uid-owner 106:108 -j RETURN",
            "-I OUTPUT 3 -m multiport -p udp --dport 1:65535 -m owner --uid-owner 123 -j RETURN",
            "-I OUTPUT 4 -d 10.0.0.1 -j RETURN",
            "-I OUTPUT 6 -d 10.0.0.3 -j RETURN",
            "-I PREROUTING 2 ! -d 172.18.0.0/16 -i br+ -p tcp -j REDIRECT --to-ports 15001",
            "-I PREROUTING 5 -p tcp -j KUMA_MESH_INBOUND",
            "-A KUMA_MESH_INBOUND -p tcp --dport 2 -j RETURN",
        ],
    );
    let text = dry_run(&["--exclude-inbound-ports", "1", "--exclude-inbound-ports", "2"], &[], "");
    assert!(!text.contains("--dport 1 "), "the last counts: {text}");
}

#[test]
fn old_names_still_mean_the_same() {
    check(&["--kuma-dp-uid", "77"], &[], "", &["-A KUMA_MESH_OUTBOUND -m owner --uid-owner 77 -j RETURN"]);
    let both = ["install", "transparent-proxy", "--kuma-dp-uid", "77", "--kuma-dp-user", "78"];
    let ended = call(&Namespace::new(), &both, &[]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("--kuma-dp-uid: \"77\" is the old name of --kuma-dp-user"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_is_odd_is_told_once() {
    let printed = |flags: &[&str]| {
        let words =
            [&["install", "transparent-proxy", "--dry-run", "--ip-family-mode", "ipv4"], flags].concat();
        let ended = call(&Namespace::new(), &words, &[]).with(0, "kumactl");
        ended.stderr.lines().map(|line| line.split_once(" WARN ").expect("a warning").1.to_owned()).collect()
    };
    let check = |flags: &[&str], expected: &[&str]| {
        let printed: Vec<String> = printed(flags);
        let are = printed.iter().zip(expected).all(|(line, says)| line.contains(says));
        assert!(are && printed.len() == expected.len(), "{flags:?}: {printed:#?}");
    };
    let user = ["--kuma-dp-user", "5678"];
    check(&user, &[]);
    check(&[], &["neither a user 5678 nor one called kuma-dp is known here; 5678 counts as the proxy's"]);
    check(
        &[&user[..], &["--exclude-inbound-ips", "fd00::1"]].concat(),
        &["--exclude-inbound-ips: lists fd00::1/128, but IPv6 is not captured"],
    );
    check(
        &["--kuma-dp-user", "0", "--config", "-"],
        &["--kuma-dp-user: root is the proxy's user, so no process that runs as root is captured"],
    );
}

#[test]
fn by_the_name_kumactl_it_is_kumactl() {
    let folder = Folder::new("kuma-name");
    let program = folder.file("kumactl");
    symlink(BINARY, &program).expect("a link");
    let namespace = Namespace::new();
    let install = [
        "install",
        "transparent-proxy",
        "--kuma-dp-user",
        "5678",
        "--redirect-dns",
        "--dns-servers",
        "10.0.0.10",
    ];
    let _ended = call_as(&program, &namespace, &install, &[], "").with(0, "kumactl");
    let rules = namespace.stdout("iptables-save", &[]);
    assert!(rules.contains("-A OUTPUT -d 10.0.0.10/32 -p udp"), "{rules}");
    let again = call_as(&program, &namespace, &install, &[], "").with(0, "kumactl");
    assert!(again.stderr.contains("changed=false"), "{}", again.stderr);
    // Other flags take the place of those of before, and no rule of others goes.
    namespace.stdout("iptables", &["-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "ACCEPT"]);
    let other = ["install", "transparent-proxy", "--exclude-outbound-ports", "9"];
    let _ended = call_as(&program, &namespace, &other, &[], "").with(0, "kumactl");
    let rules = namespace.stdout("iptables-save", &[]);
    assert!(
        rules.contains("--dport 9 ") && !rules.contains("10.0.0.10") && rules.contains("--dport 7 -j ACCEPT"),
        "{rules}"
    );
    let preview = call_as(&program, &namespace, &["uninstall", "transparent-proxy", "--dry-run"], &[], "");
    assert_eq!(preview.code, Some(0), "{}", preview.stderr);
    assert!(preview.stdout.contains("KUMA_MESH_OUTBOUND"), "{}", preview.stdout);
    assert_eq!(
        namespace.stdout("iptables-save", &["-t", "nat"]).matches("KUMA").count(),
        rules.matches("KUMA").count()
    );
    for _ in 0..2 {
        let _ended =
            call_as(&program, &namespace, &["uninstall", "transparent-proxy"], &[], "").with(0, "kumactl");
    }
    let rules = namespace.stdout("iptables-save", &["-t", "nat"]);
    assert!(!rules.contains("KUMA") && rules.contains("--dport 7 -j ACCEPT"), "{rules}");
}

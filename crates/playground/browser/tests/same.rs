//! Comparison of the page with the binary's output.

use crate::browser::Browser;
use crate::catalogue::scenarios;
use crate::page::{Input, Part, Shown};
use crate::{ROOT, program};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Various packets, valid in page and binary.
const PACKETS: [&str; 6] = [
    "10.0.0.5:443",
    "8080",
    "15021 --sender external",
    "10.0.0.5:443 --sender proxy",
    "10.96.0.10:53 --proto udp",
    "[fd00:5::1]:443 --source fd00::3",
];

/// Runs the binary in `folder`; returns its answer or problems.
fn binary(folder: &Path, words: &[&str], variables: &[(String, String)]) -> Result<String, Vec<String>> {
    let mut command = Command::new(program());
    let output = command.env_clear().envs(variables.iter().cloned()).current_dir(folder).args(words).output();
    let output = output.expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    match output.status.code() {
        Some(0) => Ok(text(output.stdout)),
        Some(2) => {
            // Log lines may precede the problems.
            let reported = text(output.stderr);
            let mut heads = [" in the input\n", "error: "].iter();
            let (_, problems) = heads.find_map(|head| reported.split_once(head)).expect("problems");
            // The page shows no lines of the manifest.
            let lines = problems.lines().filter(|line| !line.split(' ').any(|word| word == "|"));
            Err(lines.map(|line| line.trim_start().to_owned()).collect())
        }
        code => panic!("{words:?}: {code:?}: {}", text(output.stderr)),
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Headings that the binary prints above an answer.
enum Above<'a> {
    Basis(&'a str),
    Title(&'a str),
}

fn joined(
    shown: &Shown,
    heading: impl Fn(Above<'_>) -> Option<String>,
    of: impl Fn(&Part) -> String,
) -> String {
    let above =
        |part: &Part, above| heading(above).map_or_else(|| of(part), |line| format!("{line}\n{}", of(part)));
    match &shown.parts[..] {
        [part] if part.title.ends_with(": a pod with these flags") => {
            above(part, Above::Basis("flags"))
        }
        [part] => above(part, Above::Basis(&part.title)),
        several => {
            let parts = several.iter().map(|part| above(part, Above::Title(&part.title)));
            parts.collect::<Vec<_>>().join("\n")
        }
    }
}

fn for_people(above: Above<'_>) -> Option<String> {
    Some(match above {
        Above::Basis(basis) => format!("from {basis}:"),
        Above::Title(title) => format!("== {title}"),
    })
}

fn for_programs(above: Above<'_>) -> Option<String> {
    match above {
        Above::Basis(_) => None,
        Above::Title(title) => Some(format!("# {title}")),
    }
}

/// Separates double dashes, which would end an XML comment.
fn as_comment(above: Above<'_>) -> String {
    let words = match above {
        Above::Basis(basis) => format!("from {basis}"),
        Above::Title(title) => title.to_owned(),
    };
    format!("<!-- {} -->", words.replace("--", "- -").replace("--", "- -"))
}

/// Runs both programs and compares the parts of their answers. Returns true if there were rules to compare.
fn check(
    browser: &Browser,
    folder: &Path,
    flags: &[String],
    variables: &[(String, String)],
    manifest: &str,
) -> bool {
    let assignments = variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    let words = assignments.chain(flags.iter().map(|word| quoted(word))).collect::<Vec<_>>().join(" ");
    let of_manifest: &[&str] = if manifest.is_empty() { &[] } else { &["--filename", "manifest"] };
    let ask = |command: &[&str], more: &[&str]| {
        // The last flag may lack its value, so it stays last.
        let flags = flags.iter().map(String::as_str);
        let before = [command, more, of_manifest].concat();
        let words: Vec<&str> = before.into_iter().chain(flags).collect();
        binary(folder, &words, variables)
    };
    for (number, packet) in PACKETS.iter().enumerate() {
        let about = format!("{words} {packet} in {}", folder.display());
        let shown = browser.answer(Input { flags: &words, manifest, packet });
        match ask(&["explain", "--verbose"], &packet.split(' ').collect::<Vec<_>>()) {
            Err(problems) => {
                // A page has no --help.
                let problems = problems.iter().map(|problem| problem.replace(" (see --help)", "")).collect();
                assert_eq!(BTreeSet::from_iter(shown.problems.clone()), problems, "{about}");
            }
            Ok(explained) => {
                assert_eq!(shown.problems, [""; 0], "{about}");
                let of = |Part { verdict, way, .. }: &Part| match verdict.strip_prefix("depends: ") {
                    Some(on) => format!("depends {on}:\n{way}"),
                    None => format!("{verdict}\n\n{way}"),
                };
                assert_eq!(joined(&shown, for_people, of), explained, "{about}");
            }
        }
        if number > 0 {
            continue;
        }
        let rendered = ask(&["render"], &[]);
        assert_eq!(shown.is_stale || shown.parts.is_empty(), rendered.is_err(), "{about}");
        let Ok(rendered) = rendered else { return false };
        let of = |part: &Part| format!("# apply sets these rules with nftables\n{}", part.iptables);
        assert_eq!(joined(&shown, for_programs, of), rendered, "{about}");
        let nft = ask(&["render", "--output", "nft"], &[]).expect("the same flags");
        assert_eq!(joined(&shown, for_programs, |part| part.nft.clone()), nft, "{about}");
        let lint = ask(&["lint"], &[]).expect("the same flags");
        assert_eq!(joined(&shown, for_people, |part| part.lint.clone()), lint, "{about}");
        // The picture shows the packet's path if the packet is valid.
        let drawn = ask(&["explain", "--output", "svg"], &packet.split(' ').collect::<Vec<_>>());
        let drawn = drawn.or_else(|_| ask(&["explain", "--output", "svg"], &[])).expect("the same flags");
        let heading = |above: Above<'_>| Some(as_comment(above));
        assert_eq!(joined(&shown, heading, |part| part.picture.clone()), drawn, "{about}");
    }
    true
}

#[test]
fn scenarios_match_the_binary() {
    let browser = Browser::at("");
    for case in scenarios(|_| true) {
        assert!(!case.about().is_empty() && case.warnings().iter().all(|warning| !warning.is_empty()));
        let mesh = case.mesh().map(|name| format!("--mesh={name}"));
        let mut flags: Vec<String> = mesh.into_iter().chain(case.flags()).collect();
        // Without a flag that captures, the binary answers about the existing rules.
        if flags.first().is_some_and(|flag| flag == "--pod-ips") {
            flags.push("--envoy-port=15001".to_owned());
        }
        let had_rules = check(&browser, Path::new(ROOT), &flags, &case.variables(), "");
        assert!(had_rules, "{} is refused", case.name());
    }
}

#[test]
fn manifests_match_the_binary() {
    let browser = Browser::at("");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playground-manifests");
    fs::create_dir_all(&folder).expect("a folder");
    let facts = ["--pod-ips", "10.1.2.3,fd00::3", "--dns-servers", "10.96.0.10"].map(str::to_owned);
    let mut compared = 0;
    for path in manifests() {
        let manifest = fs::read_to_string(&path).expect("UTF-8");
        fs::write(folder.join("manifest"), &manifest).expect("written");
        for flags in [&facts[..], &[]] {
            compared += usize::from(check(&browser, &folder, flags, &[], &manifest));
        }
    }
    assert!(compared >= 30, "only {compared} manifests were compared");
}

fn manifests() -> Vec<PathBuf> {
    let folder = Path::new(ROOT).join("tests/support/pods");
    let entries = fs::read_dir(folder).expect("the manifests").map(|entry| entry.expect("an entry").path());
    let is_manifest = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "json");
    let mut found: Vec<PathBuf> = entries.filter(is_manifest).collect();
    found.sort();
    assert!(found.len() >= 20, "manifests are missing");
    found
}

#[test]
fn faults_match_the_binary() {
    let browser = Browser::at("");
    for flags in [
        "-b 80,http,70000 -i 10.0.0.0/33,* -u nobody@home -m SOMETIMES",
        "--istio-inbound-port 80 -b",
        "-x * -z 1-2 -m TPROXY --redirect-dns=maybe",
        "--stray -b * --words=2",
        "-Z 1 --nope 2 -q 99999 -o 0",
        "-c sixteen-letters-- -k vnet+",
        "--redirect-dns --dns-servers 1.2.3 --pod-ips nowhere",
        "--mesh ambiant --ingress",
        "--mesh linkerd -b 80 --inbound-ports-to-ignore http --proxy-uid root",
        "--mesh kuma --exclude-outbound-ports-for-uids 5:6 --inbound-ports-to-ignor 7",
        "--inbound-ports-to-ignore 80",
    ] {
        let flags: Vec<String> = flags.split(' ').map(str::to_owned).collect();
        let declared = flags.iter().any(|flag| flag == "--pod-ips");
        let facts = ["--pod-ips", "10.1.2.3"].map(str::to_owned);
        let flags = if declared { flags } else { [&facts[..], &flags].concat() };
        assert!(!check(&browser, Path::new(ROOT), &flags, &[], ""), "{flags:?} has no fault");
    }
}

//! Every command accepts its flags' examples, and every value of flags whose help lists all values. A second, invalid flag keeps
//! the call from changing anything; the error must name that flag and no other.

use crate::cli::typed::program::{commands, flags, output, stdout};
use crate::support::folder::Folder;
use mesh::settings::{self, SettingRow};

const WRONG: &str = "--log_output_level=wrong";
/// Errors about examples that exist only on their author's machine.
const NOT_HERE: [&str; 2] = ["can't be entered", "can't be opened"];

#[test]
fn examples_are_accepted() {
    let folder = Folder::new("typed");
    folder.write("pod.yaml", include_str!("../../../docker/pod-istio.yaml"));
    folder.write("tproxy.yaml", "redirect: {inbound: {port: 15006}}\n");
    folder.write("rules.txt", "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n");
    let mut count = 0;
    for command in commands() {
        let flags = flags(&command);
        let help = flat(&stdout(&[&command.split(' ').collect::<Vec<_>>()[..], &["--help-all"]].concat()));
        // Without an address, there is no pod.
        let has_pod = flags.iter().any(|(flag, _)| flag == "pod-ips");
        let pod: &[&str] = if has_pod { &["--pod-ips=10.1.2.3"] } else { &[] };
        for (flag, _) in flags.iter().filter(|(_, value)| value.is_some()) {
            for value in values(&help, flag) {
                check(&command, flag, value, pod, &folder);
                count += 1;
            }
        }
    }
    assert!(count > 300, "only {count} were tested");
}

/// The table's values for a flag, given its command's help.
fn values(help: &str, flag: &str) -> &'static [&'static str] {
    // Settings of different commands may share a name; their help differs.
    let printed = |row: &&SettingRow| row.long == flag && help.contains(&flat(row.help));
    let row = settings::all().find(printed).unwrap_or_else(|| panic!("--{flag} is in no table:\n{help}"));
    if row.values.is_empty() { row.example.as_slice() } else { row.values }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(command: &str, flag: &str, value: &str, pod: &[&str], folder: &Folder) {
    let words: Vec<&str> = command.split(' ').collect();
    let form = format!("--{flag}={value}");
    let beside: &[&str] = match (command, flag) {
        ("explain", "destination") | ("completions", "shell") | ("man", "directory") => &[],
        ("explain", _) => &["10.0.0.5:443"],
        ("completions", _) => &["bash"],
        ("man", _) => &["pages"],
        ("diff", "filename") => &["--filename=pod.yaml"],
        ("diff", "from-save") => &["--from-save=old.txt"],
        ("diff", _) => &["--filename=pod.yaml", "--filename=pod.yaml"],
        ("render", "of") => &["--output=svg"],
        ("status", "interval") => &["--watch"],
        ("cni install", "ready-file" | "ready-address" | "metrics") => &["--watch"],
        ("linkerd-init", "incoming-proxy-port") => &["--outgoing-proxy-port=4140"],
        ("linkerd-init", "outgoing-proxy-port") => &["--incoming-proxy-port=4143"],
        ("linkerd-init", _) => &["--incoming-proxy-port=4143", "--outgoing-proxy-port=4140"],
        ("kuma-init", _) => &["install", "transparent-proxy"],
        ("cni repair", "netns" | "pid") => &[],
        ("cni repair", _) => &["--netns=/proc/self/ns/net"],
        _ => &[],
    };
    let wrong = if flag == "log_output_level" { "--log_as_json=wrong" } else { WRONG };
    let behind: &[&str] = if command == "sandbox" { &["--", "true"] } else { &[] };
    let call = [&words[..], pod, &[&form], beside, &[wrong], behind].concat();
    let output = output(&call, folder);
    // The drop-ins of other meshes have a single exit code for all failures.
    let code = if ["linkerd-init", "kuma-init"].contains(&words[0]) { 1 } else { 2 };
    let said = output.with(code, &call.join(" ")).stderr;
    let printed = said.lines().filter(|line| line.starts_with("  "));
    let others: Vec<&str> = printed
        .filter(|line| !line.contains("--log_output_level: ") && !line.contains("--log_as_json: "))
        .filter(|line| {
            let is_given = |form: &&str| line.contains(form.split('=').next().unwrap_or_default());
            !(is_given(&&form[..]) || beside.iter().any(is_given))
                || !NOT_HERE.iter().any(|text| line.contains(text))
        })
        .collect();
    assert_eq!(others, [""; 0], "{call:?}");
}

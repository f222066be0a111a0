//! Completions as real shells make them of the scripts.

use crate::cli::typed::program::{commands, flags, output_of, stdout};
use crate::support::folder::Folder;
use crate::support::scope;
use std::collections::BTreeSet;

/// A line up to the cursor, what is proposed for its last word, and whether that is all.
const CASES: &[(&str, &[&str])] = &[
    ("sidecar-init exp", &["explain"]),
    ("sidecar-init cni ", &["install", "uninstall", "repair"]),
    ("sidecar-init cni install --conf", &["--conf-dir"]),
    ("sidecar-init cni repair --pi", &["--pid"]),
    ("sidecar-init cni uninstall --envoy", &[]),
    ("sidecar-init explain --format ", &["json", "picture", "svg", "text", "yaml"]),
    ("sidecar-init explain --format=j", &["json"]),
    ("sidecar-init render --format ", &["iptables", "commands", "nft", "json", "yaml", "picture", "svg"]),
    ("sidecar-init apply -m ", &["REDIRECT", "TPROXY", "NONE"]),
    ("sidecar-init apply --backend ipt", &["iptables", "iptables-nft", "iptables-legacy"]),
    ("sidecar-init apply -b '*' --istio-service-", &["--istio-service-cidr", "--istio-service-exclude-cidr"]),
    ("sidecar-init apply --vk", &[]),
    ("sidecar-init apply --mesh ", &["istio", "linkerd", "kuma", "ambient"]),
    ("sidecar-init apply --incoming", &[]),
    ("sidecar-init apply --mesh linkerd --incoming", &["--incoming-proxy-port"]),
    ("sidecar-init explain --mesh=linkerd --envoy", &[]),
    (
        "sidecar-init explain --mesh=kuma --exclude-outbound-p",
        &["--exclude-outbound-ports", "--exclude-outbound-ports-for-uids"],
    ),
    ("sidecar-init clean --mesh kuma --cn", &["--cni-mode"]),
    ("sidecar-init linkerd-init --iptables-mode ", &["legacy", "nft", "plain"]),
    ("sidecar-init kuma-init ", &["install", "uninstall"]),
    ("sidecar-init completions ", &["bash", "zsh", "fish"]),
    // All flags have the dash in common, which is not what a user wants.
    ("sidecar-init explain ", &[]),
    ("sidecar-init apply -b '*' ", &[]),
    ("sidecar-init help cl", &["clean"]),
    ("sidecar-init help cni ", &["install", "uninstall", "repair"]),
    ("sidecar-init help ipv6", &["ipv6-is-not-captured"]),
    ("sidecar-init explain -f po", &["pod.yaml"]),
    ("sidecar-init man fo", &["folder/"]),
    ("istio-iptables --envoy", &["--envoy-port"]),
    ("istio-iptables -m T", &["TPROXY"]),
    ("istio-iptables --deny", &[]),
    ("sidecar-init --log_t", &["--log_target"]),
    ("sidecar-init --vers", &["--version"]),
    ("sidecar-init sandbox -- fo", &["folder/"]),
    // What follows -- is an argument, whatever it looks like.
    ("sidecar-init explain -- --form", &[]),
];

/// What a shell proposes for a line, given the script's path. Runs in a folder with a file `pod.yaml` and a folder
/// `folder`.
type Shell = fn(&Folder, &str) -> BTreeSet<String>;

fn check(name: &str, shell: Shell) {
    let folder = stage(name);
    for (line, expected) in scope::of(CASES.to_vec(), 12) {
        let expected: BTreeSet<String> = expected.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(shell(&folder, line), expected, "{name}: {line:?}");
    }
    for command in scope::of(commands(), 5) {
        let proposed = shell(&folder, &format!("sidecar-init {command} --"));
        let mut expected: BTreeSet<String> =
            flags(&command).into_iter().map(|(flag, _)| format!("--{flag}")).collect();
        expected.insert("--help".to_owned());
        let silent = ["--log_caller", "--log_stacktrace_level", "--vklog"];
        expected.retain(|flag| !silent.contains(&flag.as_str()) && !flag.starts_with("--log_rotate"));
        assert_eq!(proposed, expected, "{name}: {command}");
    }
}

fn stage(shell: &str) -> Folder {
    let folder = Folder::new("typed");
    folder.write("script", &stdout(&["completions", shell]));
    folder.write("setup", ZSH_SETUP);
    folder.write("pod.yaml", "");
    std::fs::create_dir(folder.join("folder")).expect("a folder in a folder of our own");
    // Scripts ask the program, by its name.
    std::fs::create_dir(folder.join("bin")).expect("a folder in a folder of our own");
    let program = env!("CARGO_BIN_EXE_sidecar-init");
    std::os::unix::fs::symlink(program, folder.join("bin/sidecar-init")).expect("a link to the program");
    folder
}

#[test]
fn in_bash() {
    check("bash", |folder, line| {
        // The words as bash takes them apart: at spaces, and around an equals sign.
        let call = format!(
            "PATH=$PWD/bin:$PATH; source ./script; complete -p sidecar-init istio-iptables >/dev/null; compopt() {{ :; }}; \
             COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _sidecar_init; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words(line)
        );
        let printed = output_of("bash", &["--norc", "--noprofile", "-uc", &call], folder);
        // Behind the name of a folder, readline puts the slash.
        printed.lines().filter(|line| !line.is_empty()).map(|word| slash(folder, word)).collect()
    });
}

fn words(line: &str) -> String {
    let line = line.replace('=', " = ");
    if line.ends_with(' ') && !line.ends_with("= ") { format!("{line}''") } else { line }
}

fn slash(folder: &Folder, word: &str) -> String {
    if folder.join(word).is_dir() { format!("{word}/") } else { word.to_owned() }
}

#[test]
fn in_fish() {
    check("fish", |folder, line| {
        let call = format!("set -x PATH $PWD/bin $PATH; source ./script; complete -C \"{line}\"");
        let printed = output_of("fish", &["--no-config", "-c", &call], folder);
        let word = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        // fish proposes the whole word.
        let bare = |word: String| word.rsplit_once('=').map_or(word.clone(), |(_, value)| value.to_owned());
        printed.lines().map(word).map(bare).collect()
    });
}

#[test]
fn in_zsh() {
    check("zsh", |folder, line| {
        let printed =
            output_of("timeout", &["--signal=KILL", "60", "zsh", "-f", "-c", ZSH, "zsh", line], folder);
        let (_, printed) = printed.split_once("<<<").unwrap_or_else(|| panic!("no answer: {printed:?}"));
        let printed = printed.split(">>>").next().unwrap_or_default();
        let words = printed.lines().map(|line| line.trim().to_owned()).filter(|word| !word.is_empty());
        words.map(|word| slash(folder, &word)).collect()
    });
}

/// Tab, then Enter: what runs is the word that the shell has completed.
#[test]
fn in_a_terminal() {
    for (shell, call, setup) in [
        ("bash", "bash --norc --noprofile -i", ""),
        ("fish", "fish --no-config -i", ""),
        ("zsh", "zsh -f -i", "autoload -Uz compinit && compinit -u -C -d ./dump; "),
    ] {
        let folder = stage(shell);
        let setup = format!("{setup}source ./script");
        let driver = ["--signal=KILL", "60", "zsh", "-f", "-c", TERMINAL, "zsh", call, &setup];
        let shown = output_of("timeout", &driver, &folder);
        assert!(shown.contains("COMP_WORDS"), "{shell}: {shown}");
    }
}

/// A shell with a terminal, in which `sidecar-init completions ba` is completed and run: it prints the script for bash.
const TERMINAL: &str = r#"
path=($PWD/bin $path)
export HOME=$PWD TERM=xterm
zmodload zsh/zpty
zpty shell "$1"
zpty -w shell "$2; echo REA''DY"
while zpty -r shell part; do [[ $part == *READY* ]] && break; done
zpty -n -w shell $'sidecar-init completions ba\t\n'
while zpty -r shell part; do print -rn -- $part; [[ $part == *COMP_WORDS* ]] && break; done
zpty -d shell
"#;

/// A zsh with a terminal of its own, in which what is added to the list is printed in place of being shown.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source ./setup"
zpty -n -w shell "$1"$'\t'
while zpty -r shell part; do print -rn -- $part; [[ $part == *'>>>'* ]] && break; done
zpty -d shell
"#;

/// What that zsh is told first.
const ZSH_SETUP: &str = r#"
PROMPT= RPROMPT= path=($PWD/bin $path)
autoload -Uz compinit && compinit -u -C -d ./dump
source ./script
compadd() {
    # Some calls do not add but only ask what would fit.
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a found
    builtin compadd -A found "$@"
    proposed+=("${found[@]}")
    builtin compadd "$@"
}
before() { proposed=() }
after() { print -r -- "<<<"; print -rl -- "${proposed[@]}"; print -r -- ">>>"; exit }
compprefuncs=(before)
comppostfuncs=(after)
bindkey "^I" complete-word
"#;

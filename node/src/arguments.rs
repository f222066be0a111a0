//! What the program is called with, as values.

use crate::sandbox::Places;
use crate::validation_failure::FailureSignature;
use clap::{
    Arg, ArgAction, ArgMatches, Command,
    builder::{PossibleValuesParser, RangedU64ValueParser},
    value_parser,
};
use sidecar_init::{backend::Variant, engine::Choice};
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use tracing::level_filters::LevelFilter;

/// `sidecar-node repair`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The node whose pods are looked at.
    pub(crate) node: String,
    pub(crate) action: Action,
    /// Whether to go on looking.
    pub(crate) watch: bool,
    pub(crate) signature: FailureSignature,
    pub(crate) places: Places,
    pub(crate) backend: Choice,
    pub(crate) excluded_namespaces: Vec<String>,
    /// The most pods a minute.
    pub(crate) rate: usize,
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How long the API server is asked to keep a watch open.
    pub(crate) watch_timeout: Duration,
    /// How long any other call may take, its retries included.
    pub(crate) call_timeout: Duration,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) log_level: LevelFilter,
}

/// `sidecar-node pod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// How long to try.
    pub(crate) timeout: Duration,
}

/// What is done for a broken pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Repair,
    Label(Label),
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Action {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::Label(_) => "label",
            Self::Delete => "delete",
        }
    }
}

const BACKENDS: [(&str, Choice); 4] = [
    ("nftables", Choice::Nftables),
    ("iptables", Choice::Iptables(None)),
    ("iptables-nft", Choice::Iptables(Some(Variant::Nft))),
    ("iptables-legacy", Choice::Iptables(Some(Variant::Legacy))),
];

/// The variable by which a DaemonSet gives its pods the name of their node.
pub(crate) const NODE_NAME: &str = "NODE_NAME";

const EXIT_CODES: &str = "Exit codes: 0 done, 1 a pod could not be helped, 2 bad input.";

/// The command tree. The node has to be named where the environment does not name it.
pub(crate) fn parser(is_node_known: bool) -> Command {
    Command::new("sidecar-node")
        .about("What a node needs beside the plugin: repairs pods that started without it")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(repair_command(is_node_known))
        .subcommand(pod_command())
}

fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn pod_command() -> Command {
    Command::new("pod")
        .about("Print what the API server knows of a pod, for the plugin")
        .after_help("Exit codes: 0 printed, 1 nobody knows now, 2 bad input, 4 there is no such pod.")
        .arg(
            flag("kubeconfig", "FILE", "How the API server is reached")
                .value_parser(value_parser!(PathBuf))
                .required(true),
        )
        .arg(flag("namespace", "NAME", "The pod's namespace").required(true))
        .arg(flag("name", "NAME", "Its name").required(true))
        .arg(
            flag("timeout", "MILLISECONDS", "How long to try")
                .value_parser(value_parser!(u32).range(1..=600_000))
                .default_value("8000"),
        )
}

fn repair_command(is_node_known: bool) -> Command {
    Command::new("repair")
        .about("Help pods that started before the plugin was there")
        .long_about(
            "Looks at the injected pods of a node whose validation has found that nothing captures their traffic, and \
             repairs, labels or deletes them.",
        )
        .after_help(EXIT_CODES)
        .arg(Arg::new("watch").long("watch").action(ArgAction::SetTrue).help("Go on looking, until ended by a signal"))
        .arg(
            flag("action", "ACTION", "What is done for a broken pod")
                .value_parser(PossibleValuesParser::new(["repair", "label", "delete"]))
                .default_value("repair"),
        )
        .arg(flag("node", "NAME", "The node whose pods are looked at [default: $NODE_NAME]").required(!is_node_known))
        .arg(
            flag("kubeconfig", "FILE", "How the API server is reached; without it, as a pod of the cluster")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            flag("validation-containers", "NAMES", "The containers that validate the rules")
                .value_delimiter(',')
                .default_value("istio-validation,sidecar-validation"),
        )
        .arg(
            flag("exit-code", "NUMBER", "How they exit where nothing captures")
                .value_parser(value_parser!(i32).range(1..=255))
                .default_value("126"),
        )
        .arg(
            flag("label", "KEY=VALUE", "The label of --action label")
                .value_parser(label)
                .default_value("cni.istio.io/uninitialized=true"),
        )
        .arg(
            flag("backend", "NAME", "By what a pod's rules are set")
                .value_parser(PossibleValuesParser::new(BACKENDS.map(|(name, _)| name)))
                .default_value("nftables"),
        )
        .arg(
            flag("exclude-namespaces", "NAMES", "Namespaces of the cluster whose pods are left alone")
                .value_delimiter(',')
                .default_value("kube-system"),
        )
        .arg(
            flag("rate", "NUMBER", "The most pods that are helped in a minute")
                .value_parser(RangedU64ValueParser::<usize>::new().range(1..=100_000))
                .default_value("60"),
        )
        .arg(
            flag("proc", "DIR", "The node's /proc, as this process sees it")
                .value_parser(value_parser!(PathBuf))
                .default_value("/proc"),
        )
        .arg(
            flag("netns-dir", "DIR", "The node's named network namespaces")
                .value_parser(value_parser!(PathBuf))
                .default_value("/run/netns"),
        )
        .arg(
            flag("watch-timeout", "SECONDS", "How long the API server is asked to keep a watch open")
                .value_parser(value_parser!(u32).range(1..=290))
                .default_value("240"),
        )
        .arg(
            flag("call-timeout", "SECONDS", "How long any other call may take")
                .value_parser(value_parser!(u32).range(1..=600))
                .default_value("20"),
        )
        .arg(
            flag("metrics", "ADDRESS", "Serve /metrics, /healthz and /readyz there, such as 0.0.0.0:15014")
                .value_parser(value_parser!(SocketAddr)),
        )
        .arg(
            flag("log-level", "LEVEL", "Which log lines are written to standard error, as JSON")
                .value_parser(PossibleValuesParser::new(["error", "warn", "info", "debug"]))
                .default_value("info"),
        )
}

/// What the flags of `pod` say, which clap has checked.
pub(crate) fn lookup(matches: &ArgMatches) -> Lookup {
    let text = |name: &str| matches.get_one::<String>(name).cloned().expect("it is required");
    let milliseconds: u32 = *matches.get_one("timeout").expect("it has a default");
    Lookup {
        kubeconfig: matches.get_one::<PathBuf>("kubeconfig").cloned().expect("it is required"),
        namespace: text("namespace"),
        name: text("name"),
        timeout: Duration::from_millis(milliseconds.into()),
    }
}

/// A label in the form that Kubernetes takes.
fn label(text: &str) -> Result<Label, String> {
    let form = "expected KEY=VALUE, such as cni.istio.io/uninitialized=true: each at most 63 letters, digits, - _ and \
                ., which start and end with a letter or digit; before a / in the key may stand a DNS name";
    let is_word = |word: &str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let mut bytes = word.bytes();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        word.len() <= 63 && ends(bytes.next()) && ends(word.bytes().last()) && bytes.all(is_allowed)
    };
    let is_dns = |prefix: &str| {
        prefix.len() <= 253
            && prefix.split('.').all(is_word)
            && !prefix.contains(|c: char| c == '_' || c.is_uppercase())
    };
    let (key, value) = text.split_once('=').ok_or(form)?;
    let is_key = match key.split_once('/') {
        Some((prefix, name)) => is_dns(prefix) && is_word(name),
        None => is_word(key),
    };
    match is_key && (value.is_empty() || is_word(value)) {
        true => Ok(Label { key: key.to_owned(), value: value.to_owned() }),
        false => Err(form.to_owned()),
    }
}

/// What the flags of `repair` say, which clap has checked, and the environment about the node.
pub(crate) fn repair(matches: &ArgMatches, node: Option<String>) -> Repair {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let list = |name: &str| {
        let items = matches.get_many::<String>(name).into_iter().flatten();
        items.map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect::<Vec<_>>()
    };
    let seconds =
        |name: &str| Duration::from_secs(u64::from(*matches.get_one::<u32>(name).expect("it has a default")));
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let label = matches.get_one::<Label>("label").expect("it has a default").clone();
    let backend = text("backend");
    Repair {
        node: matches.get_one::<String>("node").cloned().or(node).unwrap_or_default(),
        action: match &*text("action") {
            "label" => Action::Label(label),
            "delete" => Action::Delete,
            _ => Action::Repair,
        },
        watch: matches.get_flag("watch"),
        signature: FailureSignature {
            containers: list("validation-containers"),
            exit_code: *matches.get_one("exit-code").expect("it has a default"),
        },
        places: Places {
            proc: path("proc").expect("it has a default"),
            names: path("netns-dir").expect("it has a default"),
        },
        backend: BACKENDS.iter().find(|(name, _)| *name == backend).expect("clap knows them").1,
        excluded_namespaces: list("exclude-namespaces"),
        rate: *matches.get_one("rate").expect("it has a default"),
        kubeconfig: path("kubeconfig"),
        watch_timeout: seconds("watch-timeout"),
        call_timeout: seconds("call-timeout"),
        metrics: matches.get_one("metrics").copied(),
        log_level: text("log-level").parse().expect("clap knows them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Repair, String> {
        let arguments = ["sidecar-node", "repair"].iter().chain(arguments);
        let matches = parser(true).try_get_matches_from(arguments);
        let matches = matches.map_err(|error| error.to_string())?;
        let matches = matches.subcommand_matches("repair").expect("the one command");
        Ok(repair(matches, Some("node-1".to_owned())))
    }

    #[test]
    fn the_tree_is_sound() {
        parser(false).debug_assert();
        assert!(parser(false).try_get_matches_from(["sidecar-node", "repair"]).is_err(), "no node is known");
    }

    #[test]
    fn defaults_are_those_of_istio() {
        let repair = parse(&[]).expect("valid");
        assert_eq!(repair.node, "node-1");
        assert_eq!((repair.action, repair.watch), (Action::Repair, false));
        assert_eq!(repair.signature.containers, ["istio-validation", "sidecar-validation"]);
        assert_eq!(repair.signature.exit_code, 126);
        let label = parse(&["--action", "label"]).expect("valid").action;
        let expected = Label { key: "cni.istio.io/uninitialized".to_owned(), value: "true".to_owned() };
        assert_eq!(label, Action::Label(expected));
    }

    #[test]
    fn labels_have_the_form_of_kubernetes() {
        for good in ["a=b", "a.b/c=d", "a=", "a_b.c-d/e=f_g"] {
            assert_eq!(label(good).is_ok(), good != "a_b.c-d/e=f_g", "{good}");
        }
        let long = "x".repeat(64);
        for bad in ["a", "=b", "-a=b", "a=b-", "a/b/c=d", "A.b/c=d", "/a=b", "a b=c", &format!("{long}=a")] {
            assert!(label(bad).is_err(), "{bad}");
        }
        assert!(parse(&["--label", "nonsense"]).is_err_and(|error| error.contains("expected KEY=VALUE")));
    }
}

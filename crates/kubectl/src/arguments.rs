//! The plugin's command line.

use clap::{Args, Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};
use command_line::{columns, output::print_styled, program::CommandHelp};
use diagnose::lint::Code;
use mesh::sources::duration;
use serde_json::Value;
use std::{ffi::OsString, io, path::PathBuf, time::Duration};

/// Shows whether a pod's traffic is captured, according to its kernel and manifest
#[derive(Debug, Parser)]
#[command(name = "kubectl-capture", bin_name = "kubectl capture", version)]
pub(crate) struct CaptureArguments {
    #[command(subcommand)]
    pub(crate) command: CaptureCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaptureCommand {
    /// Show whether a pod's packets are captured, and why
    #[command(
        long_about = "Evaluates packets against the rules in the pod's network namespace, and against its \
                      manifest's rules. The first line names the source of the answer; both answers are shown \
                      if they differ. Names such as reviews:9080 are Services in the cluster."
    )]
    Explain(ExplainArguments),
    /// Show a pod's captured traffic, listeners and findings
    Status(PodArguments),
    /// Show a pod's packets, the rules they match and their verdicts
    #[command(
        long_about = "Shows packets as they meet rules in the pod's network namespace; -o json prints one \
                      per line. Ends after the --for time: interrupting kubectl exec does not stop the program."
    )]
    Trace(TraceArguments),
    /// Compare the rules in a pod with its manifest's rules
    Diff(PodArguments),
    /// Find pods without a sidecar, ports that no proxy sees, and webhooks that can't work
    Lint(LintArguments),
}

const UNREADABLE: (&str, &str) = ("1", "the cluster or the rules could not be read");
const INVALID: (&str, &str) = ("2", "invalid input");

pub(crate) const SECTIONS: &[CommandHelp] = &[
    CommandHelp {
        command: "explain",
        examples: &[
            "kubectl capture explain web-0 8080",
            "kubectl capture explain deployment/web -n shop reviews:9080 10.0.0.5:443",
            "kubectl capture explain web-0 https://reviews.shop/ --expect captured",
        ],
        exits: &[("0", "printed"), UNREADABLE, INVALID, ("3", "a packet's verdict differs from --expect")],
    },
    CommandHelp {
        command: "status",
        examples: &["kubectl capture status deployment/web -n shop"],
        exits: &[("0", "shown"), UNREADABLE, INVALID],
    },
    CommandHelp {
        command: "trace",
        examples: &["kubectl capture trace web-0 --for 30s --verdict not-captured"],
        exits: &[("0", "ended as requested"), UNREADABLE, INVALID],
    },
    CommandHelp {
        command: "diff",
        examples: &["kubectl capture diff deployment/web -n shop"],
        exits: &[("0", "no difference"), UNREADABLE, INVALID, ("3", "the rules differ")],
    },
    CommandHelp {
        command: "lint",
        examples: &["kubectl capture lint -A", "kubectl capture lint -n shop --deny --allow SI033"],
        exits: &[("0", "shown"), UNREADABLE, INVALID, ("3", "a warning, with --deny")],
    },
];

/// Options for kubectl calls.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct KubectlConnection {
    /// The pod's namespace [default: the context's]
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    /// Passed on to kubectl
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Passed on to kubectl
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Passed on to kubectl
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Passed on to kubectl
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Passed on to kubectl
    #[arg(long = "as", value_name = "USER")]
    pub(crate) impersonated: Option<String>,
    /// Passed on to kubectl
    #[arg(long, value_name = "DURATION")]
    pub(crate) request_timeout: Option<String>,
    /// kubectl to run [default: kubectl on PATH]
    #[arg(long, value_name = "FILE", env = "KUBECTL", hide_env_values = true)]
    pub(crate) kubectl: Option<OsString>,
    /// How long a kubectl call may take
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = time)]
    pub(crate) timeout: Duration,
}

/// Access to a pod's kernel.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kernel")]
pub(crate) struct KernelAccess {
    /// Namespace of the node agents (DaemonSet sidecar-node)
    #[arg(long, value_name = "NAME", default_value = "kube-system", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) agent_namespace: String,
    /// Image with sidecar-init, for an ephemeral container on nodes without an agent
    #[arg(long, value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) image: Option<String>,
    /// Add the ephemeral container without confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    Text,
    Json,
}

impl OutputForm {
    pub(crate) fn print(self, text: impl FnOnce(usize) -> String, document: &Value) -> io::Result<()> {
        print_styled(&match self {
            Self::Text => text(columns::of_terminal()),
            Self::Json => format!("{document:#}\n"),
        })
    }
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArguments {
    /// Packet destinations: ADDRESS:PORT, SERVICE:PORT, a URL, or a pod port [default: the pod's declared ports]
    #[arg(index = 2)]
    pub(crate) destination: Vec<String>,
    /// Exit with 3 unless every packet has this verdict
    #[arg(long, value_name = "VERDICT", value_parser = ["captured", "not-captured"])]
    pub(crate) expect: Option<String>,
    /// Also show the rules that do not match the packet
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Use only the manifest; nothing runs in the cluster
    #[arg(long, conflicts_with = "image")]
    pub(crate) manifest: bool,
    #[command(flatten)]
    pub(crate) packet: PacketArguments,
    #[command(flatten)]
    pub(crate) pod: PodArguments,
}

/// Properties of a packet except its destination, named as for `sidecar-init explain`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Packet")]
pub(crate) struct PacketArguments {
    /// Sender of the packet [default: app]
    #[arg(long, value_name = "WHO", value_parser = ["app", "proxy", "external"])]
    pub(crate) sender: Option<String>,
    /// Direction [default: inbound for external, else outbound]
    #[arg(long, value_name = "WAY", value_parser = ["outbound", "inbound"])]
    pub(crate) direction: Option<String>,
    /// Protocol [default: tcp]
    #[arg(long, value_name = "PROTOCOL", value_parser = ["tcp", "udp"])]
    pub(crate) proto: Option<String>,
    /// Packet source [default: the pod; if inbound, any external address]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub(crate) source: Option<String>,
    /// The sending process's user
    #[arg(long, value_name = "UID")]
    pub(crate) uid: Option<String>,
    /// Group of the sending process [default: the user's number]
    #[arg(long, value_name = "GID")]
    pub(crate) gid: Option<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = None::<&'static str>)]
pub(crate) struct PodArguments {
    /// The pod: NAME, pod/NAME, or deployment/NAME for one of its pods
    #[arg(index = 1, value_name = "POD")]
    pub(crate) name: String,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) kernel: KernelAccess,
    #[command(flatten)]
    pub(crate) connection: KubectlConnection,
}

#[derive(Args, Debug)]
pub(crate) struct TraceArguments {
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", default_value = "1m", value_parser = time)]
    pub(crate) time: Duration,
    /// End after this number of packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Make the kernel trace all nf_tables rules
    #[arg(long)]
    pub(crate) enable: bool,
    /// Show only packets of this protocol
    #[arg(long, value_name = "PROTOCOL", value_parser = ["tcp", "udp", "icmp", "icmpv6"])]
    pub(crate) proto: Option<String>,
    /// Show only packets to this ADDRESS, NETWORK, PORT or ADDRESS:PORT
    #[arg(long, value_name = "WHERE")]
    pub(crate) destination: Option<String>,
    /// Show only packets with this verdict
    #[arg(long, value_name = "VERDICT", value_parser = ["captured", "not-captured", "dropped"])]
    pub(crate) verdict: Option<String>,
    #[command(flatten)]
    pub(crate) pod: PodArguments,
}

#[derive(Args, Debug)]
pub(crate) struct LintArguments {
    /// Lint the pods and workloads of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Exit with 3 if there is a warning
    #[arg(long)]
    pub(crate) deny: bool,
    /// Include notes
    #[arg(long)]
    pub(crate) notes: bool,
    /// Omit findings of this code, such as SI033; repeatable
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = Code::given)]
    pub(crate) allow: Vec<Code>,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = LintForm::Text)]
    pub(crate) output: LintForm,
    #[command(flatten)]
    pub(crate) connection: KubectlConnection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintForm {
    Text,
    Json,
    Sarif,
}

fn time(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text).filter(|time| !time.is_zero()).ok_or("expected a duration, such as 30s or 1m30s")
}

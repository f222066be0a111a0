//! A finding about a configuration, a manifest or a network namespace, with the code of its kind: a short name for programs,
//! for searches and for `--allow`. The meaning of a code never changes: one that is not reported any more is retired.
//! `sidecar-init help findings` lists them.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $about:literal])+ $code:ident = $name:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $about])+ $code,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }

            /// The code that a user names, in any case.
            pub fn given(word: &str) -> Result<Self, &'static str> {
                Self::named(&word.to_uppercase()).ok_or("expected the code of a finding, such as SI033")
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$code => concat!($($about),+).trim(),)* }
            }
        }
    };
}

codes! {
    /// Nothing is captured, neither inbound nor outbound nor DNS.
    NothingCaptured = "SI001";
    /// The interception mode is NONE, so that other options have no effect.
    ModeNone = "SI002";
    /// An outbound exclusion covers all that is included.
    AllExcluded = "SI003";
    /// The listeners for inbound and outbound share a port.
    SharedListener = "SI004";
    /// The pod has IPv6 whose connections are not captured.
    Ipv6Uncaptured = "SI005";
    /// Whether the pod has IPv6 that is not captured is unknown.
    Ipv6Unknown = "SI006";
    /// An option has no effect with the others.
    NoEffect = "SI007";
    /// An item of a list is repeated, or covered by another one.
    CoveredItem = "SI008";
    /// A rule is never reached, because another comes first.
    Unreachable = "SI009";
    /// Port 53 is excluded, so that DNS is not captured despite the setting.
    DnsExcluded = "SI010";
    /// Root counts as the proxy, so that nothing that runs as root is captured.
    RootIsProxy = "SI011";
    /// With several users of the proxy, calls of most to their own pod are not captured.
    SeveralProxyUsers = "SI012";
    /// Packets outside of their connection are let in, and one of them can reset it.
    InvalidPackets = "SI013";
    /// Connections of virtual machines do not work with TPROXY.
    VmWithTproxy = "SI014";
    /// Several ports end at one listener, where connections of one client can collide.
    PortsCollide = "SI015";
    /// The lists are too long to check everything; of each list, at most 64 items are tried.
    Incomplete = "SI016";
    /// A value has another meaning than its author may expect.
    SurprisingValue = "SI017";
    /// A manifest is ambiguous, or configures a pod whose traffic is not captured.
    AmbiguousManifest = "SI018";
    /// An item of a list is of a family that is not captured.
    OtherFamily = "SI019";
    /// The proxy's own traffic is not recognized, so that it is captured again.
    UnrecognizedProxy = "SI020";
    /// Calls of every process of the host bypass the proxy, as probes do.
    HostCallsPass = "SI021";
    /// Probes have another source address than the node's, which filters must admit.
    ProbesComeFromElsewhere = "SI022";
    /// Processes that may set the mark of the proxy's sockets bypass the proxy.
    MarkPasses = "SI023";
    /// DNS queries to the pod itself are captured by TCP and not by UDP.
    OwnDnsByTcp = "SI024";
    /// UDP of virtual machines, including DNS queries, is not captured.
    VirtualMachineUdpPasses = "SI025";
    /// A rule that the mesh's own program sets is never reached.
    DeadRule = "SI026";
    /// An annotation of a mesh's domain is unknown, so that it has no effect.
    UnknownAnnotation = "SI027";
    /// A container of the application runs as the proxy's user or group, so that it is not captured.
    RunsAsProxy = "SI028";
    /// The Pod Security Standard of the namespace refuses the init container that sets the rules.
    PodSecurity = "SI029";
    /// A pod runs without the sidecar that a webhook would give it now.
    NotInjected = "SI030";
    /// A pod or its namespace asks for injection, and the pod is not injected.
    InjectionUnserved = "SI031";
    /// A probe's port is not captured.
    ProbeUncaptured = "SI032";
    /// The target port of a Service is not captured.
    ServicePortUncaptured = "SI033";
    /// A pod has signs of two meshes.
    TwoMeshes = "SI034";
    /// Webhooks of two injectors select the same pods.
    RivalWebhooks = "SI035";
    /// The Service that a webhook calls does not exist.
    WebhookServiceMissing = "SI036";
    /// A webhook has no caBundle, so that the API server does not trust its certificate.
    WebhookUntrusted = "SI037";
    /// A setting of a pod is invalid.
    InvalidSetting = "SI038";
    /// A mesh's annotation or label is not in the metadata of the pod, so that it has no effect.
    Misplaced = "SI039";
    /// Kubernetes drops a field of a pod that it does not know.
    DroppedField = "SI040";
    /// An init container runs when the rules are set and the proxy does not run yet.
    RunsBeforeProxy = "SI041";
    /// The proxy of a Job keeps its pod alive.
    JobKeptAlive = "SI042";
    /// A runtime class has a network stack in which rules of a CNI plugin have no effect.
    OwnNetworkStack = "SI043";
    /// Connections of a second interface are captured, too.
    SecondInterface = "SI044";
    /// A part of a network namespace or its kernel can't be read, so that its state is unknown.
    Unreadable = "SI045";
    /// Packets meet no rule of a table, or changing it is refused.
    BlockedTable = "SI046";
    /// Rules of other programs may decide about packets before ours.
    OthersFirst = "SI047";
    /// Rules of other programs decide about traffic that is to be captured.
    Overruled = "SI048";
    /// A chain of another program may drop packets.
    MayDrop = "SI049";
    /// Rules or routes may be another program's, so that cleaning keeps them.
    UnknownOrigin = "SI050";
    /// Rules are incomplete, or in several backends.
    IncompleteRules = "SI051";
    /// Routing that the rules need is missing.
    MissingRouting = "SI052";
    /// Routing is left over, or there more than once.
    SpareRouting = "SI053";
    /// Several meshes capture in one network namespace.
    SeveralMeshes = "SI054";
    /// The pod has IPv4 whose connections are not captured.
    Ipv4Uncaptured = "SI055";
    /// Nothing listens where rules send traffic.
    NothingListens = "SI056";
    /// The listener lacks IP_TRANSPARENT, which TPROXY needs.
    NotTransparent = "SI057";
    /// A process that is not the proxy listens where rules send traffic.
    NotTheProxy = "SI058";
    /// Rules were changed since they were made.
    Changed = "SI059";
    /// The network namespace is the machine's own.
    HostNamespace = "SI060";
    /// A capability is missing.
    MissingCapability = "SI061";
    /// A program of iptables is missing, or can't list the rules.
    MissingProgram = "SI062";
    /// The kernel lacks a match or a target of the rules.
    MissingExtension = "SI063";
    /// IPv6 is enabled, but not on lo.
    LoLacksIpv6 = "SI064";
}

/// Codes of findings that are not made any more.
pub const RETIRED: &[&str] = &[];

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How much a finding matters, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Capture can't work, or traffic bypasses the proxy.
    Failure,
    /// Most probably unintended.
    Warning,
    /// Worth knowing.
    Note,
    /// As it should be.
    Ok,
}

impl Level {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Warning => "warning",
            Self::Note => "note",
            Self::Ok => "ok",
        }
    }
}

/// One thing that is suspicious, or one that was checked and is in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub level: Level,
    pub code: Code,
    /// The option, as its author wrote it, or the part of the namespace; empty where the text names it.
    pub subject: String,
    pub text: String,
    /// The remedy; empty where the text includes it, or nothing has to be done.
    pub remedy: String,
    /// The remedy as a change of the settings, where that is all it takes.
    pub edit: Option<Edit>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edit {
    /// The long name of its flag.
    pub flag: &'static str,
    /// `None` where the setting is left out.
    pub value: Option<String>,
}

impl Finding {
    /// A finding whose text names its subject and its remedy.
    pub fn plain(level: Level, code: Code, text: impl Into<String>) -> Self {
        let (subject, remedy) = (String::new(), String::new());
        Self { level, code, subject, text: text.into(), remedy, edit: None }
    }

    pub fn failure(code: Code, subject: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (subject, remedy) = (subject.to_owned(), remedy.into());
        Self { subject, remedy, ..Self::plain(Level::Failure, code, text) }
    }

    pub fn warning(code: Code, subject: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::failure(code, subject, text, remedy) }
    }

    pub fn note(code: Code, subject: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::failure(code, subject, text, remedy) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, RETIRED};

    /// So a number that is taken out of the list has to go among the retired ones, and a new one is the next.
    #[test]
    fn every_number_up_to_the_last_is_somebodys_and_only_once() {
        let mut names: Vec<&str> =
            Code::ALL.iter().map(|code| code.name()).chain(RETIRED.iter().copied()).collect();
        names.sort_unstable();
        let expected: Vec<String> = (1..=names.len()).map(|number| format!("SI{number:03}")).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn codes_stand_in_columns_and_are_found_by_their_names() {
        assert_eq!(
            format!("[{:<7}|{:>7}]", Code::NothingCaptured, Code::SecondInterface),
            "[SI001  |  SI044]"
        );
        assert_eq!(Code::named("SI005"), Some(Code::Ipv6Uncaptured));
        assert_eq!(Code::named("si005"), None);
        assert_eq!(
            Code::ModeNone.about(),
            "The interception mode is NONE, so that other options have no effect."
        );
    }
}

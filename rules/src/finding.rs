//! Findings about a configuration, a manifest or a network namespace, each with a code for programs, searches and `--allow`
//! (`sidecar-init help findings`). The meaning of a code never changes: an unused code is retired.

use std::fmt;

macro_rules! codes {
    ($($name:ident $code:ident $about:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $about] $code,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => stringify!($name),)* }
            }

            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }

            pub fn given(word: &str) -> Result<Self, &'static str> {
                Self::named(&word.to_uppercase()).ok_or("expected a finding code, such as SI033")
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$code => $about,)* }
            }
        }
    };
}

codes! {
    SI001 NothingCaptured "Nothing is captured, neither inbound nor outbound nor DNS.";
    SI002 ModeNone "The interception mode is NONE, so other options have no effect.";
    SI003 AllExcluded "An outbound exclusion covers every included destination.";
    SI004 SharedListener "The inbound and outbound listeners share a port.";
    SI005 Ipv6Uncaptured "The pod's IPv6 connections are not captured.";
    SI006 Ipv6Unknown "The pod may have IPv6 that is not captured.";
    SI007 NoEffect "An option has no effect given the other options.";
    SI008 CoveredItem "A list item is repeated, or covered by another item.";
    SI009 Unreachable "A rule is never reached, because an earlier one matches the same packets.";
    SI010 DnsExcluded "Port 53 is excluded, so DNS is not captured despite the setting.";
    SI011 RootIsProxy "Root is the proxy's user, so root's processes are not captured.";
    SI012 SeveralProxyUsers
        "With several proxy users, only the first one's calls to the pod itself are captured.";
    SI013 InvalidPackets "INVALID packets are accepted and can reset connections.";
    SI014 VmWithTproxy "Connections of virtual machines do not work with TPROXY.";
    SI015 PortsCollide "Several ports are redirected to one listener, where a client's connections can collide.";
    SI016 Incomplete "The lists are too long for a complete check; at most 64 items per list are tried.";
    SI017 SurprisingValue "A value is ambiguous.";
    SI018 AmbiguousManifest "A manifest is ambiguous, or configures a pod whose traffic is not captured.";
    SI019 OtherFamily "A list item belongs to an IP family that is not captured.";
    SI020 UnrecognizedProxy "The proxy's traffic is not recognized, so it is captured again (loop).";
    SI021 HostCallsPass "Calls from all host processes bypass the proxy, as probes do.";
    SI022 ProbesComeFromElsewhere
        "Probes come from a special source address, which filters must admit.";
    SI023 MarkPasses "Processes that may set the proxy's socket mark bypass the proxy.";
    SI024 OwnDnsByTcp "DNS queries to the pod itself are captured over TCP, but not over UDP.";
    SI025 VirtualMachineUdpPasses "Virtual machines' UDP, including DNS queries, is not captured.";
    SI026 DeadRule "A rule of the mesh is never reached.";
    SI027 UnknownAnnotation "An annotation in a mesh's domain is unknown and has no effect.";
    SI028 RunsAsProxy
        "An application container runs as the proxy's user or group, so it is not captured.";
    SI029 PodSecurity
        "The namespace's Pod Security Standard refuses the init container that sets the rules.";
    SI030 NotInjected "A pod runs without a sidecar that a webhook would inject now.";
    SI031 InjectionUnserved "A pod or its namespace requests injection, but the pod is not injected.";
    SI032 ProbeUncaptured "A probe's port is not captured.";
    SI033 ServicePortUncaptured "The target port of a Service is not captured.";
    SI034 TwoMeshes "A pod has signs of two meshes.";
    SI035 RivalWebhooks "Webhooks of two injectors select the same pods.";
    SI036 WebhookServiceMissing "The Service that a webhook calls does not exist.";
    SI037 WebhookUntrusted
        "A webhook has no caBundle, so the API server does not trust its certificate.";
    SI038 InvalidSetting "A pod setting is invalid.";
    SI039 Misplaced
        "A mesh annotation or label is not in the pod's metadata and has no effect.";
    SI040 DroppedField "A pod has an unknown field, which Kubernetes drops.";
    SI041 RunsBeforeProxy "An init container runs after the rules are set and before the proxy starts.";
    SI042 JobKeptAlive "A Job's proxy keeps its pod alive.";
    SI043 OwnNetworkStack
        "A runtime class has a network stack in which a CNI plugin's rules have no effect.";
    SI044 SecondInterface "Connections over a second interface are captured too.";
    SI045 Unreadable
        "Part of a network namespace or its kernel can't be read, so its state is unknown.";
    SI046 BlockedTable "Packets skip a table's rules, or the table can't be changed.";
    SI047 OthersFirst "Other programs' rules may decide verdicts before ours.";
    SI048 Overruled "Other programs' rules overrule the capture of traffic.";
    SI049 MayDrop "A chain of another program may drop packets.";
    SI050 UnknownOrigin "Rules or routes may belong to another program, so clean keeps them.";
    SI051 IncompleteRules "Rules are incomplete, or in several backends.";
    SI052 MissingRouting "Routing that the rules need is missing.";
    SI053 SpareRouting "Routing is left over or duplicated.";
    SI054 SeveralMeshes "Several meshes capture in one network namespace.";
    SI055 Ipv4Uncaptured "The pod's IPv4 connections are not captured.";
    SI056 NothingListens "Nothing listens where rules send traffic.";
    SI057 NotTransparent "The listener lacks IP_TRANSPARENT, which TPROXY needs.";
    SI058 NotTheProxy "A process that is not the proxy listens where rules send traffic.";
    SI059 Changed "Rules were changed after they were set.";
    SI060 HostNamespace "The network namespace is the machine's own.";
    SI061 MissingCapability "A capability is missing.";
    SI062 MissingProgram "An iptables program is missing, or can't list the rules.";
    SI063 MissingExtension "The kernel lacks a match or a target of the rules.";
    SI064 LoLacksIpv6 "IPv6 is enabled, but not on lo.";
}

pub const RETIRED: &[&str] = &[];

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Severity of a finding, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Capture can't work, or traffic bypasses the proxy.
    Failure,
    /// Most probably unintended.
    Warning,
    Note,
    /// Checked and in order.
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub level: Level,
    pub code: Code,
    /// The option as written, or the part of the namespace; empty if `text` names it.
    pub subject: String,
    pub text: String,
    /// Empty if the text includes the remedy, or none is necessary.
    pub remedy: String,
    pub edit: Option<Edit>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edit {
    pub flag: &'static str,
    /// `None` to remove the setting.
    pub value: Option<String>,
}

impl Finding {
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

    /// A number removed from the list must be retired, and a new number must be the next.
    #[test]
    fn code_numbers_are_unique_without_gaps() {
        let mut names: Vec<&str> =
            Code::ALL.iter().map(|code| code.name()).chain(RETIRED.iter().copied()).collect();
        names.sort_unstable();
        let expected: Vec<String> = (1..=names.len()).map(|number| format!("SI{number:03}")).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn codes_align_in_columns_and_parse_by_name() {
        assert_eq!(
            format!("[{:<7}|{:>7}]", Code::NothingCaptured, Code::SecondInterface),
            "[SI001  |  SI044]"
        );
        assert_eq!(Code::named("SI005"), Some(Code::Ipv6Uncaptured));
        assert_eq!(Code::named("si005"), None);
        assert_eq!(Code::ModeNone.about(), "The interception mode is NONE, so other options have no effect.");
    }
}

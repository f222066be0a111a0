//! Receivers of captured traffic: the ports that rules name, and their sockets.

use super::observation::{Observation, Socket, UserProcess};
use crate::explain::{PodContext, RuleView};
use crate::packets::first_of;
use crate::picture::{Picture, PictureFlow, TrafficPart};
use mesh::{Mesh, Proxy, RuleReason, reason::Meaning};
use rules::finding::{Code, Finding, Level};
use rules::simulate::{Verdict, ViewRule};
use rules::{Action, ByFamily, Family, PortRange, Target};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::{borrow::Cow, net::IpAddr};

/// A port to which rules send packets, and its listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listening {
    /// The meshes of the rules, as `--mesh` values.
    pub meshes: Vec<Cow<'static, str>>,
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: Cow<'static, str>,
    /// `outbound`, `inbound` or `dns`.
    pub purposes: Vec<Cow<'static, str>>,
    /// The families of the packets.
    pub families: Vec<Cow<'static, str>>,
    /// The families without a listener; null if listeners cannot be read.
    pub missing: Option<Vec<Cow<'static, str>>>,
    pub by: Vec<Process>,
    /// The meaning in words.
    pub text: String,
    /// The code of its finding; null if none or unknown.
    pub code: Option<String>,
}

/// The listening process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    pub uid: u32,
    pub pid: Option<u32>,
    #[serde(rename = "process")]
    pub name: Option<String>,
    /// True if the socket accepts TPROXY packets; null if unknown.
    pub transparent: Option<bool>,
}

#[derive(Default)]
struct Sent {
    purposes: BTreeSet<&'static str>,
    families: BTreeSet<Family>,
    meshes: BTreeSet<Mesh>,
    is_transparent: bool,
    is_redirected: bool,
}

/// Programs that run as the proxy's user by design, with names truncated like the kernel's (`TASK_COMM_LEN`).
const PROXIES: [&str; 5] = ["envoy", "pilot-agent", "linkerd2-proxy", "kuma-dp", "coredns"];

const MAX_PROCESSES: usize = 3;

const MAX_PORTS: usize = 64;

pub(super) fn listening(
    seen: &Observation<'_>,
    proxies: &[Proxy],
    captured: &[CapturedFlow<'_>],
) -> Vec<Listening> {
    let mut ports: BTreeMap<(u16, &'static str), Sent> = BTreeMap::new();
    for CapturedFlow { flow, mesh, purpose, .. } in captured {
        let (listener, is_transparent) = match flow.verdict {
            Verdict::Tproxy(port) => (port.into(), true),
            Verdict::Redirect(ports) => (ports, false),
            Verdict::Pass | Verdict::Drop | Verdict::Unknown => continue,
        };
        let has = |family: Family, protocol: &str| {
            flow.rows.iter().any(|row| row.packets.is_of(family) && row.packets.has(protocol))
        };
        let kinds = Family::BOTH.into_iter().flat_map(|family| [(family, "tcp"), (family, "udp")]);
        for (family, protocol) in kinds.filter(|(family, protocol)| has(*family, protocol)) {
            for port in (listener.first().number()..=listener.last().number()).take(MAX_PORTS) {
                let sent = ports.entry((port, protocol)).or_default();
                sent.purposes.insert(purpose);
                sent.families.insert(family);
                sent.meshes.extend(mesh);
                sent.is_transparent |= is_transparent;
                sent.is_redirected |= !is_transparent;
            }
        }
    }
    let uids = proxies.iter().flat_map(|proxy| &proxy.uids).map(|uid| format!("user {uid}"));
    let gids = proxies.iter().flat_map(|proxy| &proxy.gids).map(|gid| format!("group {gid}"));
    let proxy: BTreeSet<String> = uids.chain(gids).collect();
    let at = |((port, protocol), sent)| listening_at(seen, port, protocol, &sent, &proxy);
    ports.into_iter().map(at).collect()
}

pub fn ports(rules: &ByFamily<RuleView>) -> BTreeSet<u16> {
    let rules = rules.iter().flat_map(|(_, one)| one.view.chains()).flat_map(|chain| &chain.rules);
    let listener = |rule: &ViewRule| match &rule.action {
        Action::Target(Target::Tproxy { port, .. }) => Some((*port).into()),
        action => action.redirects_to(),
    };
    let ports = |to: PortRange| (to.first().number()..=to.last().number()).take(MAX_PORTS);
    rules.filter_map(listener).flat_map(ports).collect()
}

fn listening_at(
    seen: &Observation<'_>,
    port: u16,
    protocol: &'static str,
    sent: &Sent,
    proxy: &BTreeSet<String>,
) -> Listening {
    let hears = |socket: &&Socket, family| {
        socket.hears.iter().any(|address| address == &redirected(seen, sent, family))
    };
    let is_there = |socket: &&Socket| {
        let gets_any = !socket.is_bound || sent.families.iter().any(|family| hears(socket, *family));
        socket.port == port && socket.protocol.to_string() == protocol && gets_any
    };
    let sockets = seen.sockets.map(|sockets| sockets.iter().filter(is_there).collect::<Vec<_>>());
    let heard = |family: &Family| sockets.iter().flatten().any(|socket| hears(socket, *family));
    let missing: Vec<Family> = sent.families.iter().copied().filter(|family| !heard(family)).collect();
    let mut by: Vec<Process> = sockets.iter().flatten().map(|socket| process(socket)).collect();
    by.sort();
    by.dedup();
    // Without a socket, TPROXY drops the packet; other packets to the same port may be redirected.
    let consequence = match (protocol, sent.is_transparent, sent.is_redirected) {
        ("udp", ..) => "captured queries get no answer",
        (_, true, true) => "captured connections are dropped or refused",
        (_, true, false) => "captured connections are dropped",
        (_, false, _) => "captured connections are refused",
    };
    let deaf = sent.is_transparent && !by.is_empty() && by.iter().all(|one| one.transparent == Some(false));
    let families = |these: &[Family]| these.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    let is_strange = sockets.iter().flatten().any(|socket| !is_proxy(socket, proxy));
    let who = by.iter().map(who).collect::<Vec<_>>().join("; ");
    let (text, fault) = match (&sockets, missing.as_slice(), sent.families.len()) {
        (None, ..) => ("the listener can't be read".to_owned(), None),
        (Some(_), missing, all) if missing.len() == all => {
            (format!("nothing listens: {consequence}"), Some(Code::NothingListens))
        }
        (Some(_), [], _) if deaf => {
            let text = format!("{who}, without IP_TRANSPARENT: packets from TPROXY are dropped");
            (text, Some(Code::NotTransparent))
        }
        (Some(_), [], _) if is_strange => {
            let owners = proxy.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let text = format!("{who}, not the proxy ({owners}): its traffic is captured again (loop)");
            (text, Some(Code::NotTheProxy))
        }
        (Some(_), [], _) => (who, None),
        (Some(_), missing, _) => {
            let text = format!("{who}; nothing for {}: {consequence}", families(missing));
            (text, Some(Code::NothingListens))
        }
    };
    Listening {
        meshes: sent.meshes.iter().map(|mesh| mesh.name().into()).collect(),
        port,
        protocol: protocol.into(),
        purposes: sent.purposes.iter().map(|purpose| (*purpose).into()).collect(),
        families: sent.families.iter().map(|family| family.word().into()).collect(),
        missing: sockets.is_some().then(|| missing.iter().map(|family| family.word().into()).collect()),
        by,
        text,
        code: fault.map(|code| code.name().to_owned()),
    }
}

/// Destination of captured packets. REDIRECT sets loopback for packets of local processes, and the interface's own address for
/// inbound packets; TPROXY keeps the address. A wildcard socket receives all packets.
fn redirected(seen: &Observation<'_>, sent: &Sent, family: Family) -> IpAddr {
    let comes_in = sent.purposes.contains("inbound");
    let reachable = PodContext::new(seen.addresses.iter().copied(), None).addresses;
    let own = reachable.into_iter().find(|address| comes_in && Family::of(*address) == family);
    own.unwrap_or(mesh::loopback(family))
}

fn process(socket: &Socket) -> Process {
    let (pid, name) = socket.process.clone().unzip();
    Process { uid: socket.uid, pid, name, transparent: socket.is_transparent }
}

/// True if a socket may be the proxy's, by its user, and by the group of its process if visible.
fn is_proxy(socket: &Socket, proxy: &BTreeSet<String>) -> bool {
    let is_group = match socket.gid {
        Some(gid) => proxy.contains(&format!("group {gid}")),
        None => proxy.iter().any(|owner| owner.starts_with("group ")),
    };
    proxy.is_empty() || is_group || proxy.contains(&format!("user {}", socket.uid))
}

fn who(process: &Process) -> String {
    let Process { uid, pid, name, .. } = process;
    match (name, pid) {
        (Some(name), Some(pid)) => process_words(name, *pid, *uid),
        _ => format!("an unknown process as user {uid}"),
    }
}

fn process_words(name: &str, id: u32, uid: u32) -> String {
    format!("{name} (process {id}) as user {uid}")
}

pub(super) fn findings(listening: &[Listening]) -> Vec<Finding> {
    let finding = |one: &Listening| {
        let Listening { port, protocol, text, .. } = one;
        let code = Code::named(one.code.as_ref()?)?;
        let (level, remedy) = match code {
            Code::NotTheProxy => (Level::Warning, "run the proxy as its own user"),
            _ if one.by.is_empty() => {
                (Level::Failure, "check that the proxy runs, and on which ports it listens")
            }
            _ => (Level::Failure, "check the configuration of the proxy's listener"),
        };
        let subject = format!("port {port}/{protocol}");
        Some(Finding { level, ..Finding::failure(code, &subject, text, remedy) })
    };
    listening.iter().filter_map(finding).collect()
}

/// Findings about processes with the proxy's user that do not listen where rules send traffic.
pub(super) fn runs_as_proxy(seen: &Observation<'_>, listening: &[Listening]) -> Vec<Finding> {
    let is_proxy = |process: &&UserProcess| {
        PROXIES.contains(&process.name.as_str())
            || listening.iter().flat_map(|one| &one.by).any(|one| one.pid == Some(process.id))
    };
    let (here, unknown): (Vec<&UserProcess>, Vec<&UserProcess>) =
        seen.processes.iter().filter(|process| !is_proxy(process)).partition(|process| process.is_here);
    let named = |processes: &[&UserProcess]| {
        let words = |one: &&UserProcess| process_words(&one.name, one.id, one.uid);
        first_of(&processes.iter().map(words).collect::<Vec<_>>(), MAX_PROCESSES)
    };
    let mut found = Vec::new();
    if !here.is_empty() {
        let text = format!("{}: traffic of the proxy's user is not captured", named(&here));
        found.push(Finding::warning(Code::RunsAsProxy, "processes", text, "run it as another user"));
    }
    if !unknown.is_empty() {
        let text = format!("{}: their network namespace can't be read", named(&unknown));
        let remedy = "run this as root, or with CAP_SYS_PTRACE";
        found.push(Finding::warning(Code::Unreadable, "processes", text, remedy));
    }
    found
}

pub(super) struct CapturedFlow<'a> {
    pub(super) flow: &'a PictureFlow,
    pub(super) mesh: Option<Mesh>,
    /// `outbound`, `inbound` or `dns`.
    pub(super) purpose: &'static str,
    /// True if the packets leave or enter the pod.
    pub(super) crosses: bool,
}

pub(super) fn captured(picture: &Picture, only: Option<Mesh>) -> Vec<CapturedFlow<'_>> {
    let flows = picture.panels.iter().flat_map(|panel| panel.flows.iter().map(|flow| (panel.part, flow)));
    let captured = flows.filter(|(_, flow)| flow.verdict.captures()).map(|(part, flow)| {
        let reason = flow.reason();
        let purpose = match reason {
            Some(reason) if reason.is_of_dns() => "dns",
            Some(reason) if reason.meaning() == Meaning::ProxyCallsOwnPod => "inbound",
            _ if part == TrafficPart::Inbound => "inbound",
            _ => "outbound",
        };
        let (mesh, crosses) = (reason.map(RuleReason::mesh), part != TrafficPart::Within);
        CapturedFlow { flow, mesh, purpose, crosses }
    });
    captured.filter(|one| only.is_none() || one.mesh == only).collect()
}

//! Findings about a pod itself: containers that run as the proxy's user, init containers that need the network
//! before it works, second interfaces, and uncaptured IPv6.

use super::comparison::{LintComparison, MAX_WORK};
use super::{Code, Finding, excluded::calls};
use crate::{Subject, explain::declared_addresses};
use mesh::pod::{Application, CaptureMethod, Id, Reading};
use mesh::sources::{Dialect, Raw};
use mesh::{Capture, CapturePolicy, Ipv6Advice, ListItem, Proxy, Selector, Setting};
use rules::{Family, simulate::Work};
use std::net::{IpAddr, Ipv6Addr};

pub fn of_subject(subject: &Subject, capture: &Capture) -> Vec<Finding> {
    // Without any capture, the application makes no difference.
    match subject.reading().filter(|_| subject.skip().is_none()) {
        Some(reading) => of_pod(&subject.raw, reading, capture),
        None => Vec::new(),
    }
}

pub fn of_pod(raw: &Raw, reading: &Reading, capture: &Capture) -> Vec<Finding> {
    let proxy = &capture.proxy();
    let mut findings = as_proxy(&reading.applications, proxy);
    findings.extend(before_proxy(reading, proxy));
    findings.extend(second_interfaces(raw, reading, capture));
    let captures_others = || {
        let mut comparison = LintComparison::new(raw, capture, Work::new(MAX_WORK));
        comparison.captures(|set| calls(set, proxy))
    };
    if !findings.is_empty() && !captures_others() {
        findings.clear();
    }
    findings
}

/// `None` for an id that is not the proxy's.
fn ids_of_proxy(application: &Application, proxy: &Proxy) -> [Option<Id>; 2] {
    let is_user = |id: &Id| proxy.uids.iter().any(|uid| uid.number() == id.number);
    let is_group = |id: &Id| proxy.gids.iter().any(|gid| gid.number() == id.number);
    [application.user.filter(is_user), application.group.filter(is_group)]
}

fn as_proxy(applications: &[Application], proxy: &Proxy) -> Vec<Finding> {
    let mut findings = Vec::new();
    for application in applications {
        let ids = ids_of_proxy(application, proxy);
        for ((field, noun), id) in [("runAsUser", "user"), ("runAsGroup", "group")].into_iter().zip(ids) {
            let Some(Id { number, is_of_pod }) = id else { continue };
            let by = if is_of_pod { " (the pod's securityContext)" } else { "" };
            findings.push(Finding::warning(
                Code::RunsAsProxy,
                field,
                format!(
                    "container {} runs as {noun} {number}{by}, the proxy's {noun}: its traffic is not captured",
                    application.container
                ),
                format!("run the container as another {noun}"),
            ));
        }
    }
    findings
}

/// A note, because it is unknown whether an init container opens connections.
fn before_proxy(reading: &Reading, proxy: &Proxy) -> Vec<Finding> {
    let captured = reading.early.iter().filter(|one| ids_of_proxy(one, proxy) == [None; 2]);
    let user = proxy.uids.first().map(|uid| format!(" (runAsUser: {})", uid.number())).unwrap_or_default();
    let earlier = match &reading.way {
        CaptureMethod::InitContainer(setter) => format!("put it before {setter}, "),
        CaptureMethod::Annotations => String::new(),
    };
    let note = |one: &Application| {
        let name = &one.container;
        let text = format!(
            "init container {name} runs after the rules are set and before the proxy starts, so its captured connections fail"
        );
        let remedy = format!(
            "if it needs the network, {earlier}use a native sidecar, run it as the proxy's user{user}, or exclude its destinations"
        );
        Finding::note(Code::RunsBeforeProxy, "initContainers", text, remedy)
    };
    captured.map(note).collect()
}

fn second_interfaces(raw: &Raw, reading: &Reading, capture: &Capture) -> Vec<Finding> {
    let interface = |listed: ListItem| match listed.selector {
        Selector::Interface(name) if !listed.captured => Some(name.to_string()),
        _ => None,
    };
    let excluded: Vec<String> = capture.lists().into_iter().filter_map(interface).collect();
    let dialect = Dialect::of(raw);
    let remedy = match Setting::ExcludeInterfaces.is_for(raw.mesh()) {
        true => format!("exclude it with {}", dialect.render("{--istio-exclude-interfaces}")),
        false => "exclude its networks".to_owned(),
    };
    let note = |name: &String| {
        let text = format!("connections on interface {name} are captured too");
        Finding::note(
            Code::SecondInterface,
            "k8s.v1.cni.cncf.io/networks",
            text,
            format!("if they should bypass the proxy, {remedy}"),
        )
    };
    reading.interfaces.iter().filter(|name| !excluded.contains(name)).map(note).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub address: Ipv6Addr,
    pub interface: String,
}

/// True if IPv6 is not captured while other traffic is: without any capture, the pod's IPv6 is irrelevant.
pub fn leaves_ipv6_uncaptured(config: &dyn CapturePolicy) -> bool {
    !config.ipv6() && !config.facts().captures_nothing
}

/// Warning that the pod has a global IPv6 address, preferably a declared one, while IPv6 is not captured.
pub fn uncaptured_ipv6(
    raw: &Raw,
    config: &dyn CapturePolicy,
    interface_addresses: &[InterfaceAddress],
) -> Option<Finding> {
    if !leaves_ipv6_uncaptured(config) {
        return None;
    }
    let passthrough = config.proxy().passthrough(Family::V6);
    let is_relevant = |address: Ipv6Addr| is_global(address) && passthrough != Some(address.into());
    let declared_address = declared_addresses(raw).into_iter().flatten().find_map(|address| match address {
        IpAddr::V6(address) if is_relevant(address) => Some(address),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    let interface_address = interface_addresses.iter().find(|one| is_relevant(one.address));
    let what = match (declared_address, interface_address) {
        (Some(address), _) => address.to_string(),
        (None, Some(InterfaceAddress { address, interface })) => format!("{address} on {interface}"),
        (None, None) => return None,
    };
    let Ipv6Advice { why, setting, remedy } = config.without_ipv6(raw, declared_address.is_some());
    let text = format!("{why}, though it has {what}");
    let finding = Finding::warning(Code::Ipv6Uncaptured, &setting.row().mention(), text, remedy);
    Some(Dialect::of(raw).name_in(finding))
}

/// True if reachable from other hosts; unlike in the standard library, this includes unique local addresses.
fn is_global(address: Ipv6Addr) -> bool {
    let is_local = address.is_loopback() || address.is_unicast_link_local();
    !(is_local || address.is_multicast() || address.is_unspecified())
}

//! Names in destinations: the cluster's Services, resolved through the API server.

use crate::kubectl::{CallKind, Kubectl, KubectlCall, items};
use crate::{failure::CaptureFailure, pod::TargetPod};
use diagnose::explain::authority;
use mesh::InputProblem;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketTarget {
    pub(crate) given: String,
    pub(crate) address: String,
    /// Description of the name's resolution.
    pub(crate) note: Option<String>,
}

/// Resolves destinations; returns all problems at once.
///
/// # Errors
/// A failed call, except for a missing Service.
pub(crate) fn targets(
    kubectl: &Kubectl,
    pod: &TargetPod,
    given: &[String],
) -> Result<(Vec<PacketTarget>, Vec<InputProblem>), CaptureFailure> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for given in given {
        let resolved = match named(given) {
            Some((host, port)) => service(kubectl, pod, given, &host, port),
            // An address, a port, or a value that the packet's parser refuses.
            None => Ok(PacketTarget { given: given.clone(), address: given.clone(), note: None }),
        };
        match resolved {
            Ok(target) => found.push(target),
            Err(CaptureFailure::Input(refused)) => problems.extend(refused.0),
            Err(failure) => return Err(failure),
        }
    }
    Ok((found, problems))
}

/// Name of a destination, and the number or name of its port; `None` for an address or an invalid name.
fn named(text: &str) -> Option<(String, Option<&str>)> {
    let (rest, of_scheme) = authority(text.trim());
    let (host, port) = rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_name = host.split('.').all(is_label) && host.contains(|c: char| c.is_ascii_alphabetic());
    if !is_name || host.parse::<IpAddr>().is_ok() {
        return None;
    }
    Some((host.to_ascii_lowercase(), port.or(of_scheme)))
}

/// Name and namespace of a host's Service: NAME, NAME.NAMESPACE, or with `.svc` and the cluster's domain.
fn place<'a>(host: &'a str, own: &'a str) -> Option<(&'a str, &'a str)> {
    let labels: Vec<&str> = host.split('.').collect();
    match labels[..] {
        [name] => Some((name, own)),
        [name, namespace] | [name, namespace, "svc", ..] => Some((name, namespace)),
        _ => None,
    }
}

const NO_DNS: &str = "names outside the cluster are not resolved; give ADDRESS:PORT";

fn service(
    kubectl: &Kubectl,
    pod: &TargetPod,
    given: &str,
    host: &str,
    port: Option<&str>,
) -> Result<PacketTarget, CaptureFailure> {
    let refused = |text: String| CaptureFailure::input("DESTINATION", Some(given), text);
    let Some((name, namespace)) = place(host, &pod.namespace) else {
        let text = "does not name a Service (NAME, NAME.NAMESPACE or NAME.NAMESPACE.svc)";
        return Err(refused(format!("{text}; {NO_DNS}")));
    };
    let call = KubectlCall::get(CallKind::GetService, Some(namespace), &["service", name]);
    let object = match kubectl.object(&call) {
        Ok(object) => object,
        Err(failure) if failure.is_not_found() => {
            return Err(refused(format!(
                "does not exist: no Service {name} in namespace {namespace}; {NO_DNS}"
            )));
        }
        Err(failure) => return Err(failure.into()),
    };
    let title = format!("Service {namespace}/{name}");
    let spec = &object["spec"];
    if spec["type"] == "ExternalName" {
        let other = spec["externalName"].as_str().unwrap_or_default();
        return Err(refused(format!("is {title}, an alias of {other}; {NO_DNS}")));
    }
    let ports: Vec<&Value> = items(&spec["ports"]).collect();
    let Some(port) = port else {
        return Err(refused(format!("names no port; {title} has {}", listed(&ports))));
    };
    let is_headless = spec["clusterIP"] == "None";
    let number = port.parse::<u16>().ok().filter(|number| *number > 0);
    let is_number =
        |entry: &Value| number.is_some_and(|number| entry["port"].as_u64() == Some(u64::from(number)));
    let entry = ports.iter().find(|entry| is_number(entry) || entry["name"] == *port);
    let (Some(number), true) = (
        entry.and_then(|entry| entry["port"].as_u64()?.try_into().ok()).or(number),
        entry.is_some() || is_headless,
    ) else {
        return Err(refused(format!("has an unknown port; {title} has {}", listed(&ports))));
    };
    if !is_headless {
        let all = items(&spec["clusterIPs"]).chain([&spec["clusterIP"]]);
        let all: Vec<_> = all.filter_map(|one| socket(one, number)).collect();
        let address = of_family(&all, pod);
        let address = address.ok_or_else(|| refused(format!("is {title}, which has no address yet")))?;
        return Ok(resolved(given, &title, address));
    }
    let of = format!("kubernetes.io/service-name={name}");
    let words = ["endpointslices.discovery.k8s.io", "-l", &of];
    let call = KubectlCall::get(CallKind::ListEndpointSlices, Some(namespace), &words);
    let slices = kubectl.object(&call)?;
    let slices: Vec<&Value> = items(&slices["items"]).collect();
    let ready = |slice: &&Value| -> Vec<SocketAddr> {
        // Headless Services have no port: callers use the endpoints' ports.
        let name = entry.map_or(&Value::Null, |entry| &entry["name"]);
        let is_same =
            |port: &&Value| port["name"].as_str().unwrap_or_default() == name.as_str().unwrap_or_default();
        let found = items(&slice["ports"]).find(is_same);
        let by_name = found.filter(|_| port.parse::<u16>().is_err());
        let number = by_name.and_then(|port| port["port"].as_u64()?.try_into().ok()).unwrap_or(number);
        let endpoints = items(&slice["endpoints"]).filter(|one| one["conditions"]["ready"] != false);
        let addresses = endpoints.flat_map(|one| items(&one["addresses"]));
        addresses.filter_map(|one| socket(one, number)).collect()
    };
    let all: Vec<SocketAddr> = slices.iter().flat_map(ready).collect();
    let Some(address) = of_family(&all, pod) else {
        return Err(refused(format!("is {title}, which is headless and has no ready endpoint")));
    };
    // Each endpoint has an address of each family.
    let same = all.iter().filter(|one| one.is_ipv4() == address.is_ipv4());
    let title = match same.map(SocketAddr::ip).collect::<BTreeSet<_>>().len() {
        0 | 1 => format!("{title} (headless)"),
        count => format!("{title} (headless, one of {count} endpoints)"),
    };
    Ok(resolved(given, &title, address))
}

fn socket(address: &Value, port: u16) -> Option<SocketAddr> {
    Some(SocketAddr::new(address.as_str()?.parse().ok()?, port))
}

fn resolved(given: &str, title: &str, address: SocketAddr) -> PacketTarget {
    let address = address.to_string();
    let note = Some(format!("{given} is {title}, {address}"));
    PacketTarget { given: given.to_owned(), address, note }
}

fn of_family(all: &[SocketAddr], pod: &TargetPod) -> Option<SocketAddr> {
    let own = pod.addresses();
    let is_reached = |address: &&SocketAddr| own.iter().any(|own| own.is_ipv4() == address.is_ipv4());
    all.iter().find(is_reached).or(all.first()).copied()
}

fn listed(ports: &[&Value]) -> String {
    let one = |port: &&Value| match port["name"].as_str() {
        Some(name) => format!("{} ({name})", port["port"]),
        None => port["port"].to_string(),
    };
    match ports {
        [] => "no ports".to_owned(),
        ports => ports.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished_from_addresses() {
        let check = |text: &str, expected: Option<(&str, Option<&str>)>| {
            let found = named(text);
            assert_eq!(found.as_ref().map(|(host, port)| (host.as_str(), *port)), expected, "{text}");
        };
        check("reviews:9080", Some(("reviews", Some("9080"))));
        check("reviews:http", Some(("reviews", Some("http"))));
        check("Reviews.shop.svc.cluster.local.:80", Some(("reviews.shop.svc.cluster.local", Some("80"))));
        check("http://reviews/a?b", Some(("reviews", Some("80"))));
        check("https://reviews.shop:8443/", Some(("reviews.shop", Some("8443"))));
        check("reviews", Some(("reviews", None)));
        for text in [
            "8080",
            "10.0.0.5:443",
            "[2001:db8::1]:443",
            "http://10.0.0.5/",
            "http://[::1]/",
            "a b:80",
            "-x:80",
        ] {
            check(text, None);
        }
    }
}

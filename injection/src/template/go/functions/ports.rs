//! Functions of Istio's own about ports (upstream: `pkg/kube/inject/template.go`).

use super::{Answer, fields, functions, list, printed, text};
use gtmpl_ng::Value;

functions! {
    "excludeInboundPort" reads 2..=2 |args| Ok(with_port(printed(&args[0]).trim(), &text(&args[1])).into());
    "includeInboundPorts" passes 1..=1 |args| of_containers(&args[0], |_| true);
    "applicationPorts" passes 1..=1 |args| of_containers(&args[0], |name| name != "istio-proxy");
}

/// A list of ports with one more, unless it is there; 0 and nothing add none.
fn with_port(port: &str, ports: &str) -> String {
    let mut listed = ports.split(',').map(str::trim).filter(|port| !port.is_empty());
    if ["", "0", "<nil>"].contains(&port) || listed.clone().any(|other| other == port) {
        return ports.to_owned();
    }
    let all: Vec<&str> = listed.by_ref().chain([port]).collect();
    all.join(",")
}

/// The ports of containers that a stream can reach.
fn of_containers(containers: &Value, counts: fn(&str) -> bool) -> Answer {
    let mut all = Vec::new();
    for container in list(containers)? {
        let container = fields(container)?;
        if !container.get("Name").is_none_or(|name| counts(&text(name))) {
            continue;
        }
        for port in list(container.get("Ports").unwrap_or(&Value::Nil))? {
            let port = fields(port)?;
            let protocol = port.get("Protocol").map(text).unwrap_or_default();
            if protocol != "UDP" && protocol != "SCTP" {
                all.push(port.get("ContainerPort").map(text).unwrap_or_default());
            }
        }
    }
    Ok(all.join(",").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_added_once() {
        let rows = [
            ("15020", "", "15020"),
            ("15020", "80, 90", "80,90,15020"),
            ("15020", "80,15020", "80,15020"),
            ("15020", "80, 15020", "80, 15020"),
            ("0", "80", "80"),
            ("", "", ""),
            ("<nil>", "80", "80"),
        ];
        for (port, ports, expected) in rows {
            assert_eq!(with_port(port, ports), expected, "{port} {ports}");
        }
    }
}

//! Items of lists that lie in other items.

use super::Finding;
use crate::istio::defaults::DNS_PORT;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, OutboundCidrs};
use rules::shadow::{inside, within};
use rules::{Cidr, PortRange};
use std::fmt::Display;

/// Looks for items that another item of the same option, or of one that wins, covers.
pub(super) fn check(config: &CaptureConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    let networks = |option, cidrs: &[Cidr]| covered(option, cidrs, inside);
    let ports = |option, ranges: &[PortRange]| covered(option, ranges, within);
    findings.extend(networks("--istio-service-exclude-cidr", &config.excluded_cidrs));
    if let OutboundCidrs::Only(cidrs) = &config.outbound_cidrs {
        findings.extend(networks("--istio-service-cidr", cidrs));
    }
    findings.extend(ports("--istio-outbound-ports", &config.outbound_ports));
    findings.extend(ports("--istio-local-outbound-ports-exclude", &config.excluded_outbound_ports));
    match &config.inbound_ports {
        InboundPorts::AllBut(excluded) => findings.extend(ports("--istio-local-exclude-ports", excluded)),
        InboundPorts::Only(included) => findings.extend(ports("--istio-inbound-ports", included)),
    }
    let spares_dns = config.excluded_outbound_ports.iter().any(|range| range.contains(DNS_PORT.number()));
    if spares_dns && config.dns != DnsCapture::Off {
        findings.push(Finding::warning(
            "--istio-local-outbound-ports-exclude",
            "leaves port 53 alone, so that --redirect-dns captures nothing",
            "take port 53 out of the option, or drop --redirect-dns",
        ));
    }
    findings
}

/// The items that lie in another one of the list; of equal items, the later.
fn covered<T: Display + PartialEq>(option: &str, items: &[T], lies_in: fn(&T, &T) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let wider = items.iter().enumerate().find(|(other, wider)| {
            *other != index && lies_in(item, wider) && (item != *wider || *other < index)
        });
        if let Some((_, wider)) = wider {
            let text = match item == wider {
                true => format!("lists {item} twice"),
                false => format!("lists {item}, which lies in {wider}"),
            };
            findings.push(Finding::warning(option, text, format!("drop {item}")));
        }
    }
    findings
}

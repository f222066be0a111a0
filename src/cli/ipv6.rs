//! Whether the network namespace that we are in has IPv6 of which nothing is captured.

use diagnose::lint::{Code, Finding, InterfaceAddress, leaves_ipv6_uncaptured};
use mesh::sources::Raw;
use mesh::{Capture, CapturePolicy};
use sidecar_init::sys::address;
use std::io;

/// The addresses that matter to [`diagnose::lint::lint`]: none where IPv6 is captured, as looking takes time.
fn addresses(capture: &dyn CapturePolicy) -> io::Result<Vec<InterfaceAddress>> {
    if !leaves_ipv6_uncaptured(capture) {
        return Ok(Vec::new());
    }
    let addresses = address::global_ipv6()?.into_iter();
    Ok(addresses.map(|(address, interface)| InterfaceAddress { address, interface }).collect())
}

/// A lint of a configuration.
pub(super) type Lint = fn(&Raw, &Capture, &[InterfaceAddress]) -> Vec<Finding>;

/// The findings about a configuration in this namespace.
pub(super) fn lint(look: Lint, raw: &Raw, capture: &Capture) -> Vec<Finding> {
    match addresses(&**capture) {
        Ok(addresses) => look(raw, capture, &addresses),
        Err(error) => {
            let mut findings = vec![unknown(&**capture, &error)];
            findings.extend(look(raw, capture, &[]));
            findings
        }
    }
}

fn unknown(capture: &dyn CapturePolicy, error: &io::Error) -> Finding {
    Finding::warning(
        Code::Ipv6Unknown,
        &capture.keys().ipv6.0.row().option(),
        format!("could not check whether this pod has IPv6 that is not captured: {error}"),
        "see whether its interfaces can be listed: ip -6 addr",
    )
}

//! Rules to walk through, from the kernel of a network namespace or from a listing.

use super::run::Run;
use diagnose::compare::{self, Change, ComparedSide};
use diagnose::explain::{PodContext, RuleView};
use mesh::{Capture, recognition::named, visible};
use rules::saved::{Saved, saved};
use rules::simulate::{LOOPBACK, Routing};
use rules::{Family, routing::Object};
use sidecar_init::sys::link::{self, unread};
use sidecar_init::sys::{address, namespace::lacks_ipv6};
use sidecar_init::{backend, engine, observe::local_marks};
use std::{collections::BTreeSet, error::Error, fs, io, net::IpAddr};

/// The rules of a listing; of the input's, where the file is `-`.
pub(super) fn from_save(file: &str, pod: &PodContext) -> Result<Vec<RuleView>, Box<dyn Error>> {
    let text = match file {
        "-" => io::read_to_string(io::stdin())?,
        path => fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"))?,
    };
    let saved = saved(&text).map_err(|error| format!("{file} can't be read: {error}"))?;
    let Saved { listings, gaps, remarks } = saved;
    for remark in remarks {
        tracing::warn!(target: "listing", "{file}: {}", visible(&remark));
    }
    let rule_view = |listing, gap| {
        let RuleView { family, view, routing } = RuleView::of_listing(listing, pod);
        RuleView { family, view: view.with_gap(gap), routing }
    };
    Ok(vec![rule_view(listings.v4, gaps.v4), rule_view(listings.v6, gaps.v6)])
}

pub(super) fn from_kernel(run: &Run, pod: &PodContext) -> Result<Vec<RuleView>, backend::Error> {
    let owner = run.every_owner();
    let mut kernel = run.open_for(owner)?;
    let routes = kernel.routing()?;
    for blocked in kernel.blocked_tables()? {
        tracing::warn!(target: "backend", "{blocked}");
    }
    for text in unread().unwrap_or_default() {
        tracing::warn!(target: "backend", "{text} may decide about packets, too, and can't be read: answers are by the rules alone");
    }
    if link::is_down(LOOPBACK) {
        tracing::warn!(target: "backend", "lo is down, and what is redirected to the proxy goes by it: ip link set lo up");
    }
    let rule_view = |family: Family| {
        let view = named(engine::live(&mut kernel, family)?);
        for text in engine::other_captures(&view, &owner) {
            tracing::info!(target: "backend", %family, "{text}");
        }
        let routing = live_routing(&routes, family, pod);
        Ok(RuleView { family, view, routing })
    };
    Family::BOTH.into_iter().map(rule_view).collect()
}

pub(super) fn live_routing(routes: &BTreeSet<Object>, family: Family, pod: &PodContext) -> Routing {
    Routing { local_marks: local_marks(routes, family), addresses: pod.addresses.clone() }
}

/// The packets that a configuration treats differently from the rules that are there.
pub(super) fn changed_verdicts(
    run: &Run,
    capture: &Capture,
    desired: impl FnOnce(&PodContext) -> ComparedSide,
) -> Result<compare::Comparison, Box<dyn Error>> {
    // What the mesh has put on `lo` is for its proxy alone.
    let put_there = capture.owner().address.map(IpAddr::V6);
    let addresses = address::all()?.into_iter().filter(|address| Some(*address) != put_there);
    let pod = compare::pod(&[PodContext::new(addresses, Some(&**capture))]);
    let live = ComparedSide::of_rules(from_kernel(run, &pod)?, &pod);
    let mut comparison = compare::compare(&live, &desired(&pod), &pod);
    if lacks_ipv6(LOOPBACK) {
        // No packet of IPv6 can pass.
        let is_ipv4 = |change: &Change| change.packets.families.iter().any(|one| one == Family::V4.word());
        comparison.changes.retain(is_ipv4);
    }
    Ok(comparison)
}

//! A mesh's usual packets, by its rules alone and by all rules that are there: where the two differ, others decide.

use super::run::Run;
use super::scenes::from_kernel;
use super::ways::Kernel;
use diagnose::explain::{Explanation, Pod, Scene, explain, usual_cases};
use mesh::Capture;
use rules::simulate::Verdict;
use sidecar_init::sys::address;
use std::{collections::BTreeSet, error::Error, net::IpAddr};

/// Of each rule of others by which a usual packet goes elsewhere, what it does. Packets of which it is not known what
/// becomes of them are passed over.
///
/// # Errors
/// When what is there can't be read.
pub(super) fn decided_by_others(run: &Run, capture: &Capture) -> Result<Vec<String>, Box<dyn Error>> {
    // What the mesh has put on `lo` is for its proxy alone.
    let put_there = capture.owner().address.map(IpAddr::V6);
    let addresses = address::all()?.into_iter().filter(|address| Some(*address) != put_there);
    let pod = Pod::new(addresses, Some(&**capture));
    let scenes = from_kernel(run, &pod)?;
    let cases = usual_cases(&pod, &Kernel::of(&scenes), Some(&**capture));
    let (mut told, mut deciding) = (Vec::new(), BTreeSet::new());
    for Scene { family, view, routing, .. } in &scenes {
        let alone = Scene::of_config(&**capture, *family, &pod);
        let packets =
            cases.iter().filter(|case| case.family == *family).filter_map(|case| case.packet.as_ref());
        for packet in packets {
            let wanted = explain(&alone.view, &alone.routing, packet);
            let live = explain(view, routing, packet);
            let end = |of: &Explanation<'_>| (of.outcome().verdict, of.outcome().translated);
            if live.outcome().verdict == Verdict::Unknown || end(&live) == end(&wanted) {
                continue;
            }
            // Each rule once, with the first packet that shows what it does.
            if deciding.insert(live.deciding_rule().unwrap_or_else(|| live.verdict())) {
                told.push(format!(
                    "{} is {}; by the rules of the mesh alone it is {}",
                    live.packet_line(),
                    live.sentence(),
                    wanted.verdict()
                ));
            }
        }
    }
    Ok(told)
}

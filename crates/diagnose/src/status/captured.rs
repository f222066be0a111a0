//! Captured traffic: the arrows that lead to a listener, each with the mesh whose rule decides.

use crate::picture::{Picture, PictureFlow, TrafficPart};
use mesh::reason::Meaning;
use mesh::{Mesh, RuleReason};
use rules::simulate::Verdict;

pub(super) struct CapturedFlow<'a> {
    pub(super) flow: &'a PictureFlow,
    /// `None` where a rule of another program decides.
    pub(super) mesh: Option<Mesh>,
    /// `outbound`, `inbound` or `dns`.
    pub(super) purpose: &'static str,
    /// They leave the pod or come into it.
    pub(super) crosses: bool,
}

/// The captured traffic of a picture, for one mesh or for all.
pub(super) fn captured(picture: &Picture, only: Option<Mesh>) -> Vec<CapturedFlow<'_>> {
    fn of_part(part: TrafficPart, flow: &PictureFlow) -> CapturedFlow<'_> {
        let reason = flow.reason();
        let purpose = match reason {
            Some(reason) if reason.is_of_dns() => "dns",
            Some(reason) if reason.meaning() == Meaning::ProxyCallsOwnPod => "inbound",
            _ if part == TrafficPart::Inbound => "inbound",
            _ => "outbound",
        };
        let (mesh, crosses) = (reason.map(RuleReason::mesh), part != TrafficPart::Within);
        CapturedFlow { flow, mesh, purpose, crosses }
    }
    let is_captured = |flow: &&PictureFlow| matches!(flow.verdict, Verdict::Redirect(_) | Verdict::Tproxy(_));
    let flows = picture.panels().iter().flat_map(|panel| {
        panel.flows().iter().filter(is_captured).map(move |flow| of_part(panel.part(), flow))
    });
    flows.filter(|one| only.is_none() || one.mesh == only).collect()
}

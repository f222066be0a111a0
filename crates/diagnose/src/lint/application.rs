//! Containers of an application that run as the proxy: rules match the proxy's packets by their owner, so they take those of
//! such a container for the proxy's own.

use super::comparison::{LintComparison, MAX_WORK};
use super::{Code, Finding};
use crate::Subject;
use mesh::Capture;
use mesh::pod::{Application, Id};
use mesh::sources::Raw;
use rules::shadow::Work;
use rules::simulate::Direction;

/// A warning for each container of the subject's pod whose user or group is the proxy's.
pub fn runs_as_proxy(subject: &Subject, capture: &Capture) -> Vec<Finding> {
    // Where nothing of an application is captured anyway, it makes no difference.
    if subject.skip().is_some() {
        return Vec::new();
    }
    containers_as_proxy(&subject.raw, subject.applications(), capture)
}

/// The same for the containers of a pod that is captured.
pub fn containers_as_proxy(raw: &Raw, applications: &[Application], capture: &Capture) -> Vec<Finding> {
    let proxy = capture.proxy();
    let is_user = |id: &Id| proxy.uids.iter().any(|uid| uid.number() == id.number);
    let is_group = |id: &Id| proxy.gids.iter().any(|gid| gid.number() == id.number);
    let mut findings = Vec::new();
    for application in applications {
        let found = [
            ("runAsUser", "user", application.user.filter(is_user)),
            ("runAsGroup", "group", application.group.filter(is_group)),
        ];
        for (field, noun, id) in found {
            let Some(Id { number, is_of_pod }) = id else { continue };
            let by = if is_of_pod { ", by the pod's securityContext" } else { "" };
            findings.push(Finding::warning(
                Code::RunsAsProxy,
                field,
                format!(
                    "container {} runs as {noun} {number}{by}, which is the proxy's: what it sends bypasses the proxy",
                    application.container
                ),
                format!("run the container as another {noun}"),
            ));
        }
    }
    let is_others = |direction: &Direction| match direction {
        Direction::Outbound { uid, gid, .. } => !proxy.uids.contains(uid) && !proxy.gids.contains(gid),
        Direction::Inbound { .. } => false,
    };
    let captures_others = || {
        let mut comparison = LintComparison::new(raw, capture, Work::new(MAX_WORK));
        comparison.captures(|packet| is_others(&packet.direction))
    };
    if !findings.is_empty() && !captures_others() {
        findings.clear();
    }
    findings
}

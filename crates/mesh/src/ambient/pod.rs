//! Pods of Istio's ambient mode: how they are recognized, and which annotations they have.

use crate::mesh::AnnotationGroup;
use crate::pod::mesh::Form;

pub(crate) const FORM: Form = Form {
    init_containers: &[],
    commands: &[],
    init_reads_annotations: false,
    unsaid: &[],
    idle: &[],
    // ztunnel runs in a separate pod.
    proxy: None,
    signs: &[
        ("istio.io/dataplane-mode", &["ambient"]),
        ("ambient.istio.io/redirection", &["enabled", "pending"]),
    ],
    // Its labels are of the domain that a sidecar's are of.
    domains: &[],
    refusals: &[("istio.io/dataplane-mode", &["none"]), ("sidecar.istio.io/status", &[])],
    injected: &[],
    presets: &[],
    switches: &[],
    argument: |_, _, _, _| None,
    added_to: &[],
    more: |_, _| {},
};

pub(crate) const ANNOTATIONS: &[AnnotationGroup] = &[
    (None, &["ambient.istio.io/redirection", "istio.io/dataplane-mode"]),
    (
        Some("it is for waypoints, which nothing is captured of"),
        &["ambient.istio.io/waypoint-inbound-binding"],
    ),
];

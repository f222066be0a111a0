//! A node at a glance: the state of each of its network namespaces, the worst first.
//!
//! Nothing here reads a kernel or a clock: the status of each namespace comes in, the report goes out.

mod text;

use crate::finding::FindingReport;
use crate::status::{CaptureStatus, InstalledRules, Listening};
use rules::finding::{Code, Finding, Level};
use serde::Serialize;
use std::borrow::Cow;

/// The state of a network namespace, the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum NamespaceState {
    /// It could not be read.
    #[default]
    Unknown,
    /// Its rules were changed since they were made.
    Drifted,
    /// Rules of other programs decide about packets first.
    Overruled,
    /// It is captured, and something fails, such as a listener that is missing.
    Failing,
    /// Outbound or inbound traffic alone is captured, or that of one family.
    Partial,
    Captured,
    NotCaptured,
}

impl NamespaceState {
    fn of(status: &CaptureStatus) -> Self {
        let has = |code: Code| status.findings.iter().any(|finding| finding.is(code));
        let fails =
            |code: Code| status.findings.iter().any(|one| one.is(code) && one.level == Level::Failure);
        let captures = |direction: &str| status.directions.iter().any(|one| one == direction);
        match status.capturing {
            _ if status.has_changed() => Self::Drifted,
            None => Self::Unknown,
            Some(false) => Self::NotCaptured,
            Some(true) if fails(Code::Overruled) => Self::Overruled,
            Some(true) if status.fails() => Self::Failing,
            Some(true) if has(Code::Ipv4Uncaptured) || has(Code::Ipv6Uncaptured) => Self::Partial,
            Some(true) if captures("outbound") && captures("inbound") => Self::Captured,
            Some(true) => Self::Partial,
        }
    }

    /// Its name, as JSON and metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Drifted => "drifted",
            Self::Overruled => "overruled",
            Self::Failing => "failing",
            Self::Partial => "partial",
            Self::Captured => "captured",
            Self::NotCaptured => "not-captured",
        }
    }
}

/// A pod, as the container runtime names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceLabel {
    /// See [`NamespaceRow::name`].
    pub name: String,
    pub pod: Option<PodName>,
    pub container: Option<String>,
    /// It has a name of `ip netns`.
    pub is_named: bool,
}

/// A network namespace of the node.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamespaceRow {
    /// `NAMESPACE/NAME` of its pod, the pod's name as its containers know it, a name of `ip netns`, the first digits of a
    /// container's id, or a process.
    pub name: String,
    /// The pod, as the container runtime names it; null where its files are not there.
    pub pod: Option<PodName>,
    /// A container in it, by its whole id; null without one.
    pub container: Option<String>,
    /// Whether it can be a pod's: it has a container or a name, and not a process alone.
    #[serde(skip)]
    pub is_sandbox: bool,
    /// unknown, drifted, overruled, failing, partial, captured or not-captured.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: NamespaceState,
    /// The meshes that capture traffic, values of `--mesh`.
    pub meshes: Vec<Cow<'static, str>>,
    /// The families with captured traffic.
    pub families: Vec<Cow<'static, str>>,
    /// The rules that are installed.
    pub held_by: Vec<InstalledRules>,
    /// The ports to which rules send packets.
    pub listeners: Vec<Listening>,
    /// Warnings and failures; why it could not be read, where it is unknown.
    pub findings: Vec<FindingReport>,
}

impl NamespaceRow {
    pub fn new(label: NamespaceLabel, status: CaptureStatus) -> Self {
        let state = NamespaceState::of(&status);
        let CaptureStatus { meshes, families, held_by, listeners, findings, .. } = status;
        Self { state, meshes, families, held_by, listeners, findings, ..Self::empty(label) }
    }

    pub fn unknown(label: NamespaceLabel, why: String) -> Self {
        let finding =
            Finding::failure(Code::Unreadable, "", why, "look at it alone with --network-namespace");
        Self { findings: vec![finding.into()], ..Self::empty(label) }
    }

    fn empty(NamespaceLabel { name, pod, container, is_named }: NamespaceLabel) -> Self {
        Self { name, pod, is_sandbox: container.is_some() || is_named, container, ..Self::default() }
    }

    /// The finding that its state comes from; none where it comes from what is captured.
    pub fn reason(&self) -> Option<&FindingReport> {
        let codes: &[Code] = match self.state {
            NamespaceState::Drifted => &[Code::Changed],
            NamespaceState::Overruled => &[Code::Overruled],
            NamespaceState::Unknown | NamespaceState::Failing => &[],
            NamespaceState::Partial => &[Code::Ipv4Uncaptured, Code::Ipv6Uncaptured],
            NamespaceState::Captured | NamespaceState::NotCaptured => return None,
        };
        let is_reason = |one: &&FindingReport| codes.is_empty() || codes.iter().any(|code| one.is(*code));
        self.findings.iter().filter(is_reason).min_by_key(|one| one.level)
    }

    /// Its meshes: those that capture, else those whose rules are there.
    pub fn mesh(&self) -> String {
        let mut meshes = self.meshes.clone();
        if meshes.is_empty() {
            meshes = self.held_by.iter().map(|held| held.mesh.clone()).collect();
            meshes.dedup();
        }
        meshes.join(",")
    }
}

/// The node at a glance.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// The network namespaces, the worst first.
    pub namespaces: Vec<NamespaceRow>,
}

impl Overview {
    /// In any order.
    pub fn new(mut namespaces: Vec<NamespaceRow>) -> Self {
        namespaces.sort_by(|one, other| (one.state, &one.name).cmp(&(other.state, &other.name)));
        Self { namespaces }
    }

    /// Capture fails in a namespace, or is unknown.
    pub fn fails(&self) -> bool {
        self.namespaces.iter().flat_map(|row| &row.findings).any(|finding| finding.level == Level::Failure)
    }

    pub fn has_drifted(&self) -> bool {
        self.namespaces.iter().any(|row| row.state == NamespaceState::Drifted)
    }
}

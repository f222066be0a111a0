//! Overview of a node: the state of each network namespace, the worst first.

use crate::status::{CaptureStatus, InstalledRules, Listening};
use crate::{Style, columns, finding::FindingReport, fold};
use mesh::visible;
use rules::finding::{Code, Finding, Level};
use serde::Serialize;
use std::time::{Duration, SystemTime};
use std::{borrow::Cow, collections::BTreeMap};

/// The state of a network namespace, the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum NamespaceState {
    /// Unreadable rules.
    #[default]
    Unknown,
    /// The rules have changed since creation.
    Drifted,
    /// Other programs' rules take precedence.
    Overruled,
    /// Traffic is captured, but something fails, such as a missing listener.
    Failing,
    /// Only one direction or only one family is captured.
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

    /// Name in JSON and metrics.
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

/// A network namespace of the node.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamespaceRow {
    /// `NAMESPACE/NAME` of its pod, the containers' `HOSTNAME`, an `ip netns` name, the first digits of a container's id, or
    /// a process.
    pub name: String,
    /// The pod, as the container runtime names it; null without runtime files.
    pub pod: Option<PodName>,
    /// A container's full id; null without a container.
    pub container: Option<String>,
    /// True if the namespace may be a pod: it has a container or a name.
    #[serde(skip)]
    pub is_sandbox: bool,
    /// unknown, drifted, overruled, failing, partial, captured or not-captured.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: NamespaceState,
    /// The meshes that capture traffic, as `--mesh` values.
    pub meshes: Vec<Cow<'static, str>>,
    /// The families with captured traffic.
    pub families: Vec<Cow<'static, str>>,
    /// The installed rules.
    pub held_by: Vec<InstalledRules>,
    /// The ports to which rules send packets.
    pub listeners: Vec<Listening>,
    /// Warnings and failures, including the reason for an unknown state.
    pub findings: Vec<FindingReport>,
}

impl NamespaceRow {
    pub fn read(self, outcome: Result<CaptureStatus, String>) -> Self {
        match outcome {
            Ok(status) => {
                let state = NamespaceState::of(&status);
                let CaptureStatus { meshes, families, held_by, listeners, findings, .. } = status;
                Self { state, meshes, families, held_by, listeners, findings, ..self }
            }
            Err(why) => {
                let remedy = "read it separately with --network-namespace";
                let finding = Finding::failure(Code::Unreadable, "", why, remedy);
                Self { findings: vec![finding.into()], ..self }
            }
        }
    }

    /// Finding that caused the state; `None` if the captured traffic determines it.
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

    /// Meshes that capture traffic, else the owners of the installed rules.
    pub fn mesh(&self) -> String {
        let mut meshes = self.meshes.clone();
        if meshes.is_empty() {
            meshes = self.held_by.iter().map(|held| held.mesh.clone()).collect();
            meshes.dedup();
        }
        meshes.join(",")
    }
}

/// Overview of a node.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// The network namespaces, the worst first.
    pub namespaces: Vec<NamespaceRow>,
}

impl Overview {
    pub fn new(mut namespaces: Vec<NamespaceRow>) -> Self {
        namespaces.sort_by(|one, other| (one.state, &one.name).cmp(&(other.state, &other.name)));
        Self { namespaces }
    }

    /// True if capture fails in a namespace, or is unknown.
    pub fn fails(&self) -> bool {
        self.namespaces.iter().flat_map(|row| &row.findings).any(|finding| finding.level == Level::Failure)
    }

    pub fn has_drifted(&self) -> bool {
        self.namespaces.iter().any(|row| row.state == NamespaceState::Drifted)
    }

    /// Text for a terminal of `width` columns, with ages at `now`.
    pub fn text(&self, width: usize, now: SystemTime) -> String {
        let mut text = format!("{}\n", Style::Strong.paint(self.counts()));
        if self.namespaces.is_empty() {
            return text;
        }
        let cells = |row| cells(row, now).map(|cell| visible(&cell));
        let cells: Vec<[String; 6]> = self.namespaces.iter().map(cells).collect();
        let head = HEAD.map(str::to_owned);
        let longest = |at: usize| cells.iter().chain([&head]).map(|row| columns(&row[at])).max();
        let mut widths = [0, 1, 2, 3, 4, 5].map(|at| longest(at).unwrap_or_default());
        let others = widths.iter().sum::<usize>() - widths[NAME] + GAP.len() * (HEAD.len() - 1);
        widths[NAME] = widths[NAME].min(width.saturating_sub(others).max(MIN_NAME));
        text.push_str(&format!("{}\n", Style::Quiet.paint(line(&head, &widths, None))));
        let hang = widths[0] + GAP.len();
        for (row, cells) in self.namespaces.iter().zip(&cells) {
            text.push_str(&line(cells, &widths, Some(style(row.state))));
            text.push('\n');
            if let Some(finding) = row.reason() {
                let FindingReport { code, subject, .. } = finding;
                let subject = subject.as_ref().map(|subject| format!("{subject}: ")).unwrap_or_default();
                let finding = visible(&format!("{code} {subject}{}", finding.text));
                text.push_str(&fold(&format!("{:hang$}{finding}\n", ""), hang, width));
            }
        }
        text
    }

    fn counts(&self) -> String {
        let mut counts: BTreeMap<NamespaceState, usize> = BTreeMap::new();
        for row in &self.namespaces {
            *counts.entry(row.state).or_default() += 1;
        }
        let counts: Vec<String> =
            counts.iter().map(|(state, count)| format!("{count} {}", words(*state))).collect();
        let noun = if self.namespaces.len() == 1 { "namespace" } else { "namespaces" };
        let total = format!("{} network {noun}", self.namespaces.len());
        if counts.is_empty() { total } else { format!("{total}: {}", counts.join(", ")) }
    }
}

const HEAD: [&str; 6] = ["STATE", "NAMESPACE", "MESH", "LISTENERS", "MADE BY", "AGE"];
/// Column that is shortened in narrow terminals.
const NAME: usize = 1;
/// Minimum width of a name, however narrow the terminal is.
const MIN_NAME: usize = 16;
const GAP: &str = "  ";

fn words(state: NamespaceState) -> String {
    state.name().replace('-', " ")
}

fn style(state: NamespaceState) -> Style {
    match state {
        NamespaceState::Captured => Style::Captured,
        NamespaceState::NotCaptured => Style::Quiet,
        NamespaceState::Partial => Style::Passing,
        NamespaceState::Unknown
        | NamespaceState::Drifted
        | NamespaceState::Overruled
        | NamespaceState::Failing => Style::Dropped,
    }
}

fn line(cells: &[String; 6], widths: &[usize; 6], of_state: Option<Style>) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        let cell = if column == NAME { shortened(cell, *width) } else { cell.clone() };
        let cell = format!("{cell:<width$}");
        match of_state.filter(|_| column == 0) {
            Some(style) => style.paint(cell),
            None => cell,
        }
    });
    padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

fn cells(row: &NamespaceRow, now: SystemTime) -> [String; 6] {
    let made = row.held_by.iter().find_map(|held| held.made.as_ref());
    let maker = match made {
        Some(made) => maker(&made.command),
        None if row.held_by.is_empty() => "",
        None => "unknown",
    };
    let age = made.and_then(|made| {
        let at = humantime::parse_rfc3339(&made.at).ok()?;
        Some(age(now.duration_since(at).unwrap_or(Duration::ZERO)))
    });
    [
        words(row.state),
        row.name.clone(),
        row.mesh(),
        listening(&row.listeners).to_owned(),
        maker.to_owned(),
        age.unwrap_or_default(),
    ]
}

fn listening(listeners: &[Listening]) -> &'static str {
    let is_up = |one: &Listening| one.code.as_deref().is_none_or(|code| code == Code::NotTheProxy.name());
    let is_down = |one: &Listening| one.missing.as_ref().is_some_and(|missing| *missing == one.families);
    match listeners {
        [] => "",
        all if all.iter().any(|one| one.missing.is_none()) => "unknown",
        all if all.iter().all(is_up) => "up",
        all if all.iter().all(is_down) => "down",
        _ => "partly",
    }
}

fn maker(command: &str) -> &str {
    match command {
        "istio-iptables" | "linkerd-init" | "kuma-init" => "init container",
        "cni-add" => "CNI",
        "cni-repair" | "sidecar-node-repair" => "repair",
        other => other,
    }
}

/// Time span as `kubectl get` prints ages (`HumanDuration` of k8s.io/apimachinery).
fn age(span: Duration) -> String {
    // Unit name, unit length in seconds, minimum count, and count from which the smaller unit is omitted.
    let units: [(&str, u64, u64, u64); 5] =
        [("s", 1, 0, 0), ("m", 60, 2, 10), ("h", 3_600, 3, 8), ("d", 86_400, 2, 8), ("y", 31_536_000, 2, 8)];
    let seconds = span.as_secs();
    let at = units.iter().rposition(|(_, size, enough, _)| seconds >= size * enough).unwrap_or(0);
    let (unit, size, _, alone) = units[at];
    let count = seconds / size;
    let rest = units[..at].last().map(|(smaller, of, ..)| (seconds % size / of, smaller));
    match rest.filter(|(rest, _)| count < alone && *rest > 0) {
        Some((rest, smaller)) => format!("{count}{unit}{rest}{smaller}"),
        None => format!("{count}{unit}"),
    }
}

/// Shortens a name in the middle: a workload's pods differ at the end.
fn shortened(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(2);
    let start: String = name.chars().take(kept / 2).collect();
    let end: String = name.chars().skip(count - (kept - kept / 2)).collect();
    format!("{start}..{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers_tests::{held, record};
    use crate::status::{InstalledRules, Record};
    use rules::finding::Finding;

    fn row(name: &str, state: NamespaceState) -> NamespaceRow {
        NamespaceRow { name: name.to_owned(), state, ..NamespaceRow::default() }
    }

    #[test]
    fn partial_capture_has_no_finding_as_its_reason() {
        let finding =
            || Finding::warning(Code::Unreadable, "", "addresses can't be listed", "run this as root").into();
        let of = |state| NamespaceRow { findings: vec![finding()], ..row("web", state) };
        assert_eq!(of(NamespaceState::Partial).reason(), None);
        assert_eq!(of(NamespaceState::Unknown).reason(), Some(&finding()));
    }

    #[test]
    fn control_characters_of_names_and_records_are_escaped() {
        let made = Record { command: "a\u{1b}[2J".to_owned(), ..record() };
        let mut row = row("e\u{1b}[2J", NamespaceState::Unknown);
        row.held_by.push(InstalledRules { made: Some(made), ..held() });
        row.findings.push(Finding::failure(Code::Unreadable, "", "c\u{1b}[2J can't be read", "look").into());
        let text = crate::plain(&Overview::new(vec![row]).text(200, SystemTime::UNIX_EPOCH));
        assert!(["e", "a", "c"].iter().all(|name| text.contains(&format!("{name}\\u{{1b}}[2J"))), "{text:?}");
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (599, "9m59s"),
            (659, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (28_859, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (694_800, "8d"),
            (63_071_999, "729d"),
            (63_158_400, "2y1d"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }
}

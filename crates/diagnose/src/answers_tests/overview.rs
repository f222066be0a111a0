//! Namespaces of a node, in every state.

use super::{CASES, Example, WIDTH, check, record};
use crate::finding::reports;
use crate::overview::{NamespaceRow, Overview};
use crate::plain;
use crate::status::{CaptureStatus, InstalledRules, Listening, Record};
use rules::finding::{Code, Finding};
use std::borrow::Cow;
use std::time::{Duration, SystemTime};

fn held(mesh: &'static str, command: &str, minute: u32, changed_since: bool) -> InstalledRules {
    let at = format!("2026-03-01T10:{minute:02}:00Z");
    let made = Record { command: command.to_owned(), at, changed_since, ..record() };
    InstalledRules { mesh: mesh.into(), made: Some(made), ..super::held() }
}

fn listening(missing: Option<Vec<&'static str>>, fault: Option<Code>) -> Listening {
    Listening {
        meshes: vec!["istio".into()],
        port: 15006,
        protocol: "tcp".into(),
        purposes: vec!["inbound".into()],
        families: vec!["ipv4".into(), "ipv6".into()],
        missing: missing.map(|families| families.into_iter().map(Cow::from).collect()),
        by: Vec::new(),
        text: String::new(),
        code: fault.map(|code| code.name().to_owned()),
    }
}

fn captured(directions: &[&'static str]) -> CaptureStatus {
    let (_, mesh, flags) = CASES[0];
    let whole = Example::of(mesh, flags).observed();
    CaptureStatus {
        capturing: Some(!directions.is_empty()),
        directions: directions.iter().map(|one| (*one).into()).collect(),
        meshes: if directions.is_empty() { Vec::new() } else { vec!["istio".into()] },
        held_by: Vec::new(),
        made: None,
        listeners: Vec::new(),
        findings: Vec::new(),
        ..whole
    }
}

fn row(name: &str, status: CaptureStatus) -> NamespaceRow {
    NamespaceRow { name: name.to_owned(), ..NamespaceRow::default() }.read(Ok(status))
}

#[test]
fn namespaces_of_every_state_are_distinguished() {
    let whole = || captured(&["outbound", "inbound"]);
    let fail = |code| Finding::failure(code, "", "it is wrong", "mend it");
    let warn = |code| Finding::warning(code, "", "it is suspicious", "look at it");
    let with = |findings: Vec<Finding>| CaptureStatus { findings: reports(&findings), ..whole() };
    let by = |held_by: Vec<InstalledRules>| CaptureStatus { held_by, ..whole() };
    let heard = |listeners: Vec<Listening>| CaptureStatus { listeners, ..whole() };
    let up = || listening(Some(Vec::new()), None);
    let down = || listening(Some(vec!["ipv4", "ipv6"]), Some(Code::NothingListens));
    let partly = || listening(Some(vec!["ipv6"]), Some(Code::NothingListens));
    let rows = vec![
        row("captured", whole()),
        row("captured-one-rule", captured(&["both"])),
        row("outbound", captured(&["outbound"])),
        row("inbound", captured(&["inbound"])),
        row("not-captured", captured(&[])),
        row(
            "not-captured-foreign",
            CaptureStatus { findings: vec![fail(Code::Overruled).into()], ..captured(&[]) },
        ),
        row(
            "unread",
            CaptureStatus { capturing: None, findings: vec![fail(Code::Unreadable).into()], ..captured(&[]) },
        ),
        row("drifted", with(vec![warn(Code::OthersFirst), warn(Code::Changed)])),
        row("overruled", with(vec![fail(Code::NothingListens), fail(Code::Overruled)])),
        row("failing", with(vec![warn(Code::IncompleteRules), fail(Code::NothingListens)])),
        row("suspicious", with(vec![warn(Code::Overruled)])),
        row("one-family", with(vec![warn(Code::Ipv6Uncaptured)])),
        row("init", by(vec![held("istio", "istio-iptables", 9, false)])),
        row("init-linkerd", by(vec![held("linkerd", "linkerd-init", 8, false)])),
        row("init-kuma", by(vec![held("kuma", "kuma-init", 7, false)])),
        row("plugin", by(vec![held("istio", "cni-add", 6, false)])),
        row("repair", by(vec![held("istio", "sidecar-node-repair", 0, false)])),
        row("later", by(vec![held("istio", "cni-repair", 59, false)])),
        row("left", CaptureStatus { held_by: vec![held("kuma", "apply", 0, false)], ..captured(&[]) }),
        row("unknown-maker", by(vec![InstalledRules { made: None, ..held("istio", "", 0, false) }])),
        row("up", heard(vec![up(), up()])),
        row("down", heard(vec![down(), down()])),
        row("partly", heard(vec![up(), down()])),
        row("half", heard(vec![partly()])),
        row("unseen", heard(vec![listening(None, None), up()])),
        NamespaceRow { name: "broken".to_owned(), ..NamespaceRow::default() }
            .read(Err("it can't be entered".to_owned())),
        row("a-name-that-is-longer-than-the-column-of-a-narrow-terminal-has-room-for", whole()),
    ];
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_360_700);
    let overview = Overview::new(rows);
    let json = |rows: &[NamespaceRow]| serde_json::to_string_pretty(rows).expect("JSON");
    let text = [
        plain(&overview.text(WIDTH, now)),
        plain(&overview.text(WIDTH, now + Duration::from_secs(3 * 86_400))),
        plain(&Overview::new(vec![row("one", whole())]).text(WIDTH, now)),
        plain(&Overview::new(Vec::new()).text(WIDTH, now)),
        json(&overview.namespaces[..4]),
    ];
    check("overview.txt", &text.join("----\n"));
    assert!(overview.has_drifted());
    assert!(!Overview::new(vec![row("one", whole())]).has_drifted());
}

//! Claims of `diff`, `status` and `clean`, each compared with the real result.

use crate::oracle::question::usual;
use crate::oracle::scene::{Disposition, Scene, state};
use rules::simulate::Verdict;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Explain,
    Json,
    Apply,
    Check,
    Status,
    Clean,
}

pub(crate) struct False {
    pub(crate) subject: Subject,
    pub(crate) text: String,
    pub(crate) disposition: Option<Disposition>,
}

impl False {
    fn new(subject: Subject, text: impl Into<String>) -> Self {
        Self { subject, text: text.into(), disposition: None }
    }
}

pub(crate) fn all(scene: &Scene, dispositions: &[Disposition]) -> Vec<False> {
    if scene.refused.is_some() {
        return refused(scene).into_iter().collect();
    }
    let is_captured = |disposition: &&Disposition| {
        matches!(disposition.meant.verdict, Verdict::Redirect(_) | Verdict::Tproxy(_))
    };
    let dispositions: Vec<&Disposition> =
        dispositions.iter().filter(|disposition| scene.captures_family(&disposition.packet)).collect();
    let captured: Vec<&Disposition> =
        dispositions.iter().copied().filter(is_captured).filter(|_| !scene.has_routes()).collect();
    let usual = usual(&scene.capture);
    let is_claimed = |disposition: &&Disposition| {
        disposition.predicted.verdict != Verdict::Unknown && usual.contains(&disposition.packet)
    };
    let contradicted = |disposition: &&Disposition| !disposition.agrees(&disposition.meant);
    let missed: Vec<&Disposition> =
        dispositions.iter().copied().filter(is_claimed).filter(contradicted).collect();
    let mut found = Vec::new();
    found.extend(check(scene, &missed));
    found.extend(status(scene, &captured));
    found.extend(clean(scene));
    found
}

/// A refused change leaves the state unchanged.
fn refused(scene: &Scene) -> Option<False> {
    let now = state(&scene.pod);
    (now != scene.state_before).then(|| {
        let why = scene.refused.as_deref().unwrap_or_default();
        False::new(
            Subject::Apply,
            format!("apply refused ({why}) and left\n{now}\nwhere there was\n{}", scene.state_before),
        )
    })
}

/// If `diff` finds no difference, another `apply` changes nothing, and typical packets follow the mesh's rules.
fn check(scene: &Scene, missed: &[&Disposition]) -> Option<False> {
    let (answer, code) = scene.answer("diff", true);
    let differs = answer["parts"] != Value::Array(Vec::new());
    if differs && scene.setup.after.is_empty() {
        return Some(False::new(Subject::Check, format!("finds differences after an apply: {answer:#}")));
    }
    if code != Some(0) {
        let is_well = !differs
            && answer["changes"] == Value::Array(Vec::new())
            && answer["before"] == Value::Array(Vec::new())
            && answer["others"] == Value::Array(Vec::new());
        return is_well
            .then(|| False::new(Subject::Check, format!("exits {code:?} and finds nothing: {answer:#}")));
    }
    if let Some(disposition) = missed.first() {
        let text = "finds nothing, and a usual packet does not go where the mesh's rules alone would take it";
        return Some(False { disposition: Some((*disposition).clone()), ..False::new(Subject::Check, text) });
    }
    let again = scene.apply();
    let report: Value = serde_json::from_str(&again.stdout).unwrap_or(Value::Null);
    (report["changed"] != Value::Bool(false))
        .then(|| False::new(Subject::Check, format!("finds nothing, and apply changes {report:#}")))
}

/// Traffic reported as captured is captured, unless `status` reports that other rules decide.
fn status(scene: &Scene, captured: &[&Disposition]) -> Option<False> {
    let (answer, _) = scene.answer("status", false);
    let findings = answer["findings"].as_array()?;
    // Findings about listeners and processes do not concern rules.
    let is_of_rules =
        |finding: &Value| !["SI028", "SI056", "SI057", "SI058"].map(Value::from).contains(&finding["code"]);
    if findings.iter().any(is_of_rules) {
        return None;
    }
    let rows = answer["rows"].as_array()?;
    let claims = |row: &&Value, disposition: &Disposition| {
        let packet = &disposition.packet;
        let family = if packet.to.is_ipv4() { "ipv4" } else { "ipv6" };
        let part = if packet.is_inbound { "inbound" } else { "outbound" };
        let protocol = match packet.protocol {
            crate::support::traffic::Protocol::Tcp => "tcp",
            crate::support::traffic::Protocol::Udp => "udp",
        };
        let holds =
            |list: &Value, word: &str| list.as_array().is_some_and(|list| list.contains(&word.into()));
        let is_whole = |packets: &Value| {
            let properties = packets.as_object().into_iter().flatten();
            let lists = ["direction", "families", "protocols"];
            properties.filter(|(name, _)| !lists.contains(&name.as_str())).all(|(_, values)| values.is_null())
        };
        row["verdict"] == "captured"
            && row["part"] == part
            && row["kinds"].as_array().is_some_and(|all| {
                all.iter().any(|one| {
                    holds(&one["families"], family) && holds(&one["protocols"], protocol) && is_whole(one)
                })
            })
    };
    let witnesses = captured.iter().filter(|disposition| crate::oracle::is_witness(&disposition.packet));
    for disposition in witnesses {
        if let Some(row) = rows.iter().find(|row| claims(row, disposition))
            && !disposition.agrees(&disposition.meant)
        {
            let text = format!(
                "reports \"{}\", and a packet shows otherwise",
                row["text"].as_str().unwrap_or_default()
            );
            return Some(False {
                disposition: Some((*disposition).clone()),
                ..False::new(Subject::Status, text)
            });
        }
    }
    None
}

/// Rules of other owners are unchanged.
fn clean(scene: &Scene) -> Option<False> {
    let cleaned = scene.run_tool(&["clean".to_owned()]);
    if !scene.setup.after.is_empty() {
        return None;
    }
    let now = state(&scene.pod);
    (now != scene.state_before).then(|| {
        let printed = &cleaned.stderr;
        False::new(
            Subject::Clean,
            format!("{printed}\nleaves\n{now}\nwhere there was\n{}", scene.state_before),
        )
    })
}

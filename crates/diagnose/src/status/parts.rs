//! What becomes of traffic, part by part, by the rules: captured, excluded, dropped.

use super::claims::{Claim, claim};
use super::observation::Observation;
use crate::explain::VerdictKind;
use mesh::Mesh;
use mesh::reason::{Meaning, MeaningRow, Phrase};
use mesh::recognition::RecognizedRule;
use rules::{ByFamily, Family, PortRange, TrafficEffect};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A part of the traffic and its verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusPart {
    /// The mesh whose rules decide, a value of `--mesh`.
    pub mesh: Cow<'static, str>,
    /// `outbound`, `inbound`, `dns` or `both`.
    pub direction: Cow<'static, str>,
    /// The text for people, with the first items of a long list.
    pub text: String,
    /// All items of the list: ports, networks, users.
    pub items: Vec<String>,
    /// The option that decides; null if none does.
    pub option: Option<String>,
    /// The name of the rules, as in comments and log lines; null without a rule.
    #[serde(rename = "rule")]
    pub reason: Option<Cow<'static, str>>,
    /// The port of the listener, the first of a range.
    pub port: Option<u16>,
    /// The last port of a range.
    pub last_port: Option<u16>,
    /// Whether the listener receives the original packets (TPROXY) and not redirected ones (REDIRECT).
    #[serde(rename = "transparent")]
    pub is_transparent: Option<bool>,
    pub families: Vec<Cow<'static, str>>,
    #[serde(skip)]
    sentence: Phrase,
}

/// How many items of a list a sentence shows.
const SHOWN: usize = 6;

impl StatusPart {
    pub(super) fn is_of(&self, family: Family) -> bool {
        self.families.iter().any(|one| one == family.word())
    }

    /// Whether a reader learns nothing new from the other part, whichever rule or option it comes from.
    fn includes(&self, other: &Self) -> bool {
        (&self.mesh, &self.direction, self.sentence) == (&other.mesh, &other.direction, other.sentence)
            && other.items.iter().all(|item| self.items.contains(item))
            && other.families.iter().all(|family| self.families.contains(family))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct StatusParts {
    pub(super) captured: Vec<StatusPart>,
    pub(super) left_alone: Vec<StatusPart>,
    pub(super) dropped: Vec<StatusPart>,
}

/// The parts that the rules of both families make, and what none of them is about, mesh by mesh.
pub(super) fn of_rules(
    seen: &Observation<'_>,
    recognized: &ByFamily<Vec<RecognizedRule<'_>>>,
) -> StatusParts {
    let mut parts = StatusParts::default();
    for mesh in Mesh::ALL {
        for (family, recognized) in recognized.iter() {
            let view = seen.views.get(family);
            let of_mesh = recognized.iter().filter(|recognized| recognized.mesh == *mesh);
            let claims: Vec<Claim> = of_mesh.filter_map(|recognized| claim(view, recognized)).collect();
            add_all(&mut parts, family, *mesh, &claims);
        }
    }
    for list in [&mut parts.captured, &mut parts.left_alone, &mut parts.dropped] {
        for part in list.iter_mut() {
            let mut seen = BTreeSet::new();
            part.items.retain(|item| seen.insert(item.clone()));
            part.text = sentence(part);
        }
        let mesh = |part: &StatusPart| Mesh::ALL.iter().position(|mesh| mesh.name() == part.mesh);
        // Stable: within a direction in the order of the rules, and what no rule is about last.
        list.sort_by_key(|part| (mesh(part), place(&part.direction), part.reason.is_none()));
    }
    parts
}

fn add_all(parts: &mut StatusParts, family: Family, mesh: Mesh, claims: &[Claim]) {
    let captured: Vec<&Claim> =
        claims.iter().filter(|claim| claim.meaning.row().effect == TrafficEffect::Captured).collect();
    if captured.is_empty() {
        return;
    }
    for claim in claims {
        let list = match claim.meaning.row().effect {
            TrafficEffect::Captured => &mut parts.captured,
            TrafficEffect::Excluded => &mut parts.left_alone,
            TrafficEffect::Dropped => &mut parts.dropped,
            TrafficEffect::HandedOver | TrafficEffect::LedOn => continue,
        };
        // The proxy's users and groups are one part, whichever of two options gave them.
        let is_shared = claim.reason.settings().len() > 1;
        add(list, of_claim(mesh, family, claim), is_shared);
    }
    for (meaning, items) in captured.iter().flat_map(|claim| &claim.exclusions) {
        let MeaningRow { direction, claim, .. } = meaning.row();
        let new =
            StatusPart { items: items.clone(), ..part(mesh, family, direction, claim.unwrap_or_default()) };
        // Rules of the same option may have it already.
        if !parts.left_alone.iter().any(|known| known.includes(&new)) {
            add(&mut parts.left_alone, new, false);
        }
    }
    for (direction, sentence) in rests(&captured) {
        add(&mut parts.left_alone, part(mesh, family, direction, sentence), false);
    }
}

fn place(direction: &str) -> usize {
    ["outbound", "inbound", "dns", "both"].iter().position(|known| *known == direction).unwrap_or(usize::MAX)
}

/// What no rule is about.
fn rests(captured: &[&Claim]) -> [(&'static str, Phrase); 2] {
    let of = |meaning: Meaning| captured.iter().filter(move |claim| claim.meaning == meaning);
    let any = |meaning: Meaning| of(meaning).next().is_some();
    let whole = |meaning: Meaning| of(meaning).any(|claim| claim.items.is_empty());
    let rest = |direction, all| (direction, Phrase { all, ..Phrase::default() });
    let outbound = if whole(Meaning::OutboundNetwork) || whole(Meaning::OutboundPort) {
        if any(Meaning::Dns) { "all but TCP and DNS" } else { "all but TCP, also UDP and DNS" }
    } else if any(Meaning::OutboundNetwork) || any(Meaning::OutboundPort) {
        "everything else"
    } else {
        "everything: nothing captures what the pod sends"
    };
    let inbound = if whole(Meaning::InboundPort) {
        "all but TCP"
    } else if any(Meaning::InboundPort) {
        "all other ports"
    } else {
        "everything: nothing captures what comes in"
    };
    [rest("outbound", outbound), rest("inbound", inbound)]
}

/// A part that no rule is about.
fn part(mesh: Mesh, family: Family, direction: &'static str, sentence: Phrase) -> StatusPart {
    let (mesh, families) = (mesh.name().into(), vec![family.word().into()]);
    StatusPart { mesh, direction: direction.into(), families, sentence, ..StatusPart::default() }
}

fn of_claim(mesh: Mesh, family: Family, claim: &Claim) -> StatusPart {
    let (port, last_port) = VerdictKind::bounds(claim.listener.map(|listener| listener.ports));
    StatusPart {
        items: claim.items.clone(),
        option: claim.setting.map(|setting| setting.row().short_option()),
        reason: Some(claim.reason.name().into()),
        port,
        last_port,
        is_transparent: claim.listener.map(|listener| listener.is_transparent),
        ..part(mesh, family, claim.meaning.row().direction, claim.sentence)
    }
}

/// Adds a part to an equal one, of whatever family; if it is shared, whichever option made it.
fn add(list: &mut Vec<StatusPart>, new: StatusPart, is_shared: bool) {
    let same = |part: &&mut StatusPart| {
        let is_same = (&part.mesh, part.sentence, &part.reason) == (&new.mesh, new.sentence, &new.reason);
        let to = |part: &StatusPart| (part.port, part.last_port, part.is_transparent);
        let joins = part.items.is_empty() == new.items.is_empty() && (is_shared || part.option == new.option);
        is_same && to(part) == to(&new) && joins
    };
    let Some(part) = list.iter_mut().find(same) else {
        list.push(new);
        return;
    };
    part.items.extend(new.items);
    for family in new.families {
        if !part.families.contains(&family) {
            part.families.push(family);
        }
    }
    part.option = match (part.option.take(), new.option) {
        (Some(known), Some(more)) if !known.split(", ").any(|one| one == more) => {
            Some(format!("{known}, {more}"))
        }
        (known, more) => known.or(more),
    };
}

fn sentence(part: &StatusPart) -> String {
    let Phrase { before, all, after } = part.sentence;
    let subject = match part.items.as_slice() {
        [] => all.to_owned(),
        items if items.len() > 1 => format!("{}{}", before.replace("port ", "ports "), shown(items)),
        items => format!("{before}{}", shown(items)),
    };
    let mut text = match after {
        "" => subject,
        after if after.starts_with([':', ')']) => format!("{subject}{after}"),
        after => format!("{subject} {after}"),
    };
    // Queries go to the mesh's resolver.
    if let ("go to", Ok(mesh)) = (after, part.mesh.parse::<Mesh>()) {
        text.push_str(&format!(" {}", mesh.entry().resolver));
    }
    if let Some(port) = part.port {
        let last = part.last_port.map(|last| format!("-{last}")).unwrap_or_default();
        text.push_str(&format!(" at port {port}{last}"));
    }
    if part.is_transparent == Some(true) {
        text.push_str(", as it is");
    }
    text
}

/// The first items of a list, and how many more there are; a range of ports counts as its ports.
pub(super) fn shown(items: &[String]) -> String {
    let count = |item: &String| match item.parse::<PortRange>() {
        Ok(ports) => usize::from(ports.last().number() - ports.first().number()) + 1,
        Err(_) => 1,
    };
    match items.split_at_checked(SHOWN) {
        None | Some((_, [])) => items.join(", "),
        Some((shown, more)) => {
            format!("{} and {} more", shown.join(", "), more.iter().map(count).sum::<usize>())
        }
    }
}

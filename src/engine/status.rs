//! Status of a network namespace, without a policy: rules with counters and provenance, listeners, and findings. Reads only.

use super::provenance::{Maker, doubtful, droppers, makers, preceding_rules_in, predecessors, remedy_of};
use super::{compare::holds_of, rule_index::live};
use crate::backend::nftables::{BlockedTable, Obstacle, TableRecord};
use crate::backend::{self, Backend, BackendName, Kernel, Snapshot};
use crate::sys::listener::{self, ListeningSocket};
use crate::sys::{address, link};
use rules::finding::{Code, Finding, Level};
use rules::simulate::{LOOPBACK, View, ViewRule};
use rules::{Action, ByFamily, Family, Ownership, Table, Target, plan, routing::Object};
use std::{collections::BTreeSet, io, net::IpAddr};

#[derive(Debug)]
pub struct EngineStatus {
    /// All programs' rules on the path of a family's packets, with their counters.
    pub views: ByFamily<View>,
    /// Any program's policy rules, routes and addresses equal to the owner's.
    pub routing: BTreeSet<Object>,
    pub addresses: io::Result<Vec<IpAddr>>,
    pub listeners: io::Result<Vec<ListeningSocket>>,
    /// Backends and tables with rules of the owner, of joined owners, or of their predecessors.
    pub held: Vec<OwnRules>,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRules {
    pub owner: Ownership,
    /// Name of a backend, or a table of the predecessor, such as `table inet NAME of nf_tables`.
    pub place: String,
    pub families: Vec<Family>,
    pub rules: usize,
    pub maker: Maker,
    /// Record in the nf_tables table, and true if the rules still match it; `None` without a record.
    pub record: Option<(TableRecord, bool)>,
}

const LEAVE_ONE_MESH: &str = "sidecar-init apply --replace with the pod's flags keeps one of them";

/// Reads the status. The owner and joined owners are treated alike: each is checked as if only its rules should exist.
pub fn status(kernel: &mut Kernel, owner: &Ownership) -> Result<EngineStatus, backend::Error> {
    let snapshot = kernel.read()?;
    let routing = kernel.routing()?;
    let views = ByFamily { v4: live(kernel, Family::V4)?, v6: live(kernel, Family::V6)? };
    let held: Vec<OwnRules> = owner.each().flat_map(|one| held_of(&snapshot, &views, one)).collect();
    let findings = findings(&snapshot, &views, owner, &held);
    let (addresses, listeners) = (address::all(), listener::all());
    Ok(EngineStatus { views, routing, addresses, listeners, held, findings })
}

fn held_of(snapshot: &Snapshot, views: &ByFamily<View>, owner: Ownership) -> Vec<OwnRules> {
    let mut found = Vec::new();
    for contents in snapshot.contents_with_joined() {
        let place = contents.backend().to_string();
        for (maker, families, rules) in makers(&contents, &owner) {
            let place = place.clone();
            found.push(OwnRules { owner, place, families, rules, maker, record: None });
        }
        if let Some(table) = contents.table().filter(|table| table.name == owner.table) {
            let families = families_of(views, &format!("inet {}", table.name));
            let record = table.record.as_deref().cloned().zip(table.is_as_made());
            let (rules, maker) = (table.rule_count(), Maker::Owner);
            found.push(OwnRules { owner, place, families, rules, maker, record });
        }
    }
    for name in snapshot.inherited_tables(&owner) {
        let table = format!("inet {name}");
        let chains = views.v4.chains().iter().filter(|chain| chain.table == table);
        let rules = chains.map(|chain| chain.rules.len()).sum();
        let families = families_of(views, &table);
        let place = format!("table {table} of nf_tables");
        found.push(OwnRules { owner, place, families, rules, maker: Maker::Predecessor, record: None });
    }
    found
}

/// Families whose packets pass a rule of this table that does more than accept or return.
fn families_of(views: &ByFamily<View>, table: &str) -> Vec<Family> {
    let does_more_than_pass =
        |rule: &ViewRule| !matches!(rule.action, Action::Target(Target::Return | Target::Accept));
    let is_for = |view: &View| {
        let reached = view.chains().iter().zip(view.reach());
        reached.filter(|(chain, _)| chain.table == table).any(|(chain, reach)| {
            chain.rules[..reach].iter().any(|rule| view.is_of_family(rule) && does_more_than_pass(rule))
        })
    };
    views.iter().filter(|(_, view)| is_for(view)).map(|(family, _)| family).collect()
}

fn findings(live: &Snapshot, views: &ByFamily<View>, owner: &Ownership, held: &[OwnRules]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let present: Vec<Ownership> =
        owner.each().filter(|one| held.iter().any(|held| held.owner == *one)).collect();
    findings.extend(unreadable(live, owner));
    findings.extend(live.blocked_tables.iter().map(|one| {
        let level = if disables(one, live, owner) { Level::Failure } else { Level::Warning };
        Finding { level, ..Finding::warning(Code::BlockedTable, "", one.to_string(), one.remedy()) }
    }));
    for one in &present {
        let of_one = held.iter().filter(|held| held.owner == *one);
        let places: BTreeSet<&str> = of_one.map(|held| held.place.as_str()).collect();
        if places.iter().filter(|place| !place.starts_with("table ")).count() > 1 {
            let places = places.into_iter().collect::<Vec<_>>().join(" and ");
            let text = format!("{places} all hold rules of {}: a change was interrupted", one.name);
            let remedy = "sidecar-init apply with the pod's flags keeps one of them";
            findings.push(Finding::warning(Code::IncompleteRules, "", text, remedy));
        }
    }
    if !present.is_empty() && link::is_down(LOOPBACK) {
        let text = "lo is down: traffic to the proxy passes it";
        findings.push(Finding::failure(Code::MissingRouting, "", text, "ip link set lo up"));
    }
    findings.extend(present.iter().flat_map(|one| foreign_rules(live, one)));
    // Without existing captures, chains are compared with the owner's future ones.
    let captures = if present.is_empty() { vec![owner.alone()] } else { present.clone() };
    findings.extend(foreign_chains([&views.v4, &views.v6], owner, &captures));
    for one in owner.each() {
        let held: Vec<&OwnRules> = held.iter().filter(|held| held.owner == one).collect();
        findings.extend(of_routing(live, owner, &one, &held));
    }
    for object in &live.duplicates {
        let text = format!("{object} exists more than once");
        let remedy = "sidecar-init apply with the pod's flags removes the copies";
        findings.push(Finding::warning(Code::SpareRouting, "", text, remedy));
    }
    findings.extend(doubtful_objects(live, owner));
    if present.len() > 1 {
        let evidence = |one: &Ownership| {
            let by_what = live.evidence_of(one).map(|by_what| format!(" ({by_what})"));
            format!("{}{}", one.name, by_what.unwrap_or_default())
        };
        let text = format!(
            "{} capture here: the first mesh's rules win, and each captures the other's proxy",
            present.iter().map(evidence).collect::<Vec<_>>().join(" and ")
        );
        let mut remedies = vec![LEAVE_ONE_MESH.to_owned()];
        remedies.extend(present.iter().map(remedy_of));
        findings.push(Finding::failure(Code::SeveralMeshes, "", text, remedies.join("; ")));
    }
    findings
}

/// Findings about the source address of `one`'s proxy, and about routing left without rules.
fn of_routing(snapshot: &Snapshot, owner: &Ownership, one: &Ownership, held: &[&OwnRules]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let captures_ipv6 = held.iter().any(|held| held.families.contains(&Family::V6));
    let missing = one.address.filter(|address| !snapshot.has(&Object::Address(*address)));
    if let Some(address) = missing.filter(|_| captures_ipv6 && !snapshot.lo_lacks_ipv6) {
        let text = format!("{address} is not on lo: the proxy can't call the application from it over IPv6");
        let remedy = "sidecar-init apply with the pod's flags restores it";
        findings.push(Finding::failure(Code::MissingRouting, "", text, remedy));
    }
    let left: Vec<String> = match one.table == owner.table {
        true => snapshot.routes.iter().map(ToString::to_string).collect(),
        false => snapshot.routes_of(one).map(|route| route.object.to_string()).collect(),
    };
    // An unreadable table may hold the rules that the routing belongs to.
    let may_be_hidden = !snapshot.unreadable.is_empty()
        || snapshot.unlistable.values().any(|unlistable| unlistable.holds_any_of(one));
    if held.is_empty() && !may_be_hidden && !left.is_empty() {
        let text = format!("left over from removed rules of {}: {}", one.name, left.join(", "));
        let remedy = format!("sidecar-init clean --mesh {} removes it", one.mesh);
        findings.push(Finding::warning(Code::SpareRouting, "", text, remedy));
    }
    findings
}

fn unreadable(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let unread = snapshot.unreadable.iter().map(|(variant, family)| {
        let text = format!("{family} tables of {variant} exist, but no program on PATH can read them");
        let text = format!("{text}: they may contain rules of this program");
        Finding::failure(Code::Unreadable, "", text, "install iptables")
    });
    let unlistable = snapshot.unlistable.iter().filter_map(|(&(family, table), unlistable)| {
        let what = unlistable.listing.state(owner).evidence_in(table, owner)?;
        let (program, table, why) = (&unlistable.program, table.name(), &unlistable.why);
        let text = format!(
            "{program} can't show its table {table} of {family} ({why}), and it contains rules of this program: {what}"
        );
        Some(Finding::failure(Code::Unreadable, "", text, "sidecar-init clean removes them"))
    });
    unread.chain(unlistable).collect()
}

/// Other programs' rules that precede the owner's in iptables chains.
fn foreign_rules(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let mut findings = Vec::new();
    for contents in snapshot.all_contents() {
        let backend = contents.backend();
        for (family, state) in contents.states() {
            let state = state.seen_by(owner);
            for table in Table::ALL {
                for (chain, lines) in state.chains(table).filter(|(chain, _)| !owner.owns_chain(chain)) {
                    let Some(line) = plan::foreign_before(lines, owner) else { continue };
                    let rule = rules::render::iptables::appended(chain, line);
                    let text = format!(
                        "{family} {table} ({backend}): {rule} sees packets before sidecar-init's rules"
                    );
                    let remedy = "sidecar-init apply moves its rules first";
                    findings.push(Finding::warning(Code::OthersFirst, "", text, remedy));
                }
            }
        }
    }
    findings
}

/// Other programs' chains: chains with NAT before the chains of `captures`, and chains that drop, before or after.
fn foreign_chains<'a>(
    views: impl IntoIterator<Item = &'a View>,
    owner: &Ownership,
    captures: &[Ownership],
) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for view in views {
        let preceding_rules =
            captures.iter().flat_map(|one| preceding_rules_in(view, &one.union(owner.joined)));
        let preceding_rules = preceding_rules.map(|(_, text)| (Code::OthersFirst, text));
        let drops = droppers(view, owner).into_iter();
        let drops = drops.map(|(place, rule)| (Code::MayDrop, format!("{place} may drop packets: {rule}")));
        for (code, text) in preceding_rules.chain(drops).filter(|one| seen.insert(one.clone())) {
            let remedy = "to see its rules: nft list ruleset or iptables-save";
            findings.push(Finding::warning(code, "", text, remedy));
        }
    }
    findings
}

fn doubtful_objects(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let remedy = "sidecar-init clean keeps it; remove it by hand if it is not needed";
    let found = doubtful(snapshot, owner).into_iter().map(|doubtful| {
        let text = format!("made by {} or another program: {doubtful}", predecessors(owner));
        Finding::warning(Code::UnknownOrigin, "", text, remedy)
    });
    found.collect()
}

fn disables(blocked: &BlockedTable, snapshot: &Snapshot, owner: &Ownership) -> bool {
    let holds = || {
        let own = |one: Ownership| blocked.table == format!("inet {}", one.table);
        owner.each().any(own) || holds_of(snapshot.contents(BackendName::IPTABLES_NFT), &blocked.table, owner)
    };
    blocked.obstacle == Obstacle::Dormant && holds()
}

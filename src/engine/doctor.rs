//! What a namespace and its kernel can do, and what commonly goes wrong. Reads only.

use super::{
    foreign::{droppers, rivals_in},
    hindered::keeps_from,
    kin,
    listeners::{self, Proxy},
    live::live,
};
use crate::{
    backend::{self, Backend, Contents, Kernel, Snapshot, Variant, iptables, nftables::Hindered},
    sys::{
        namespace,
        netfilter::{self, Extension},
        process::{self, Process},
    },
};
use rules::{Chain, Family, Hook, Ownership, Table, plan, simulate::View};
use std::{collections::BTreeSet, fs};

/// How good or bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// It may be meant so.
    Warn,
    /// Capture can't work so.
    Fail,
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How good or bad.
    pub level: Level,
    /// What it is about.
    pub topic: &'static str,
    /// What is the case.
    pub text: String,
    /// What helps.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, topic, text: text.into(), remedy: None }
    }

    /// Something that may be meant so.
    pub fn warn(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warn, topic, text: text.into(), remedy: Some(remedy.into()) }
    }

    /// Something that keeps capture from working.
    pub fn fail(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Fail, topic, text: text.into(), remedy: Some(remedy.into()) }
    }
}

/// Looks at everything.
pub fn examine(kernel: &mut Kernel, owner: &Ownership, proxy: &Proxy) -> Vec<Finding> {
    let mut findings = vec![host()];
    findings.extend(rights());
    findings.extend(programs(kernel));
    findings.extend(extensions());
    match kernel.read() {
        Ok(snapshot) => {
            findings.extend(snapshot.unreadable.iter().map(|&(variant, family)| unseen(variant, family)));
            findings.extend(hidden(&snapshot, owner));
            findings.extend(kin::findings(&snapshot, owner));
            findings.extend(foreign_rules(&snapshot, &owner.alone()));
            findings.extend(hindered(&snapshot, owner));
        }
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            findings.push(Finding::fail(
                "rules",
                format!("{error}{cause}"),
                "see above for rights and programs",
            ));
        }
    }
    match views(kernel) {
        Ok(views) => {
            findings.extend(foreign_chains(&views, owner));
            findings.extend(listeners::findings(&views, proxy));
        }
        Err(error) => {
            let text = format!("rules of others can't be listed: {error}");
            findings.push(Finding::warn("foreign", text, "see above for rights and programs"));
        }
    }
    findings.extend(processes(&proxy.uids));
    findings.push(ipv6());
    findings
}

fn host() -> Finding {
    match namespace::is_host() {
        Some(false) => Finding::ok("namespace", "not the machine's own"),
        None => Finding::warn(
            "namespace",
            "without /proc, nothing tells whether it is the machine's own",
            "mount /proc",
        ),
        Some(true) => Finding::warn(
            "namespace",
            "the machine's own: capturing here would catch the traffic of everything that runs on it",
            "name the pod's with --network-namespace",
        ),
    }
}

fn rights() -> [Finding; 2] {
    [
        right(process::NET_ADMIN, "NET_ADMIN", Level::Fail, "nothing can be changed without it"),
        right(process::NET_RAW, "NET_RAW", Level::Warn, "the legacy variant of iptables needs it"),
    ]
}

/// Whether a capability is held, and how bad it is if not.
fn right(capability: u32, name: &str, level: Level, need: &str) -> Finding {
    match process::holds(capability) {
        Some(true) => Finding::ok("rights", format!("CAP_{name} is held")),
        Some(false) => Finding {
            level,
            topic: "rights",
            text: format!("CAP_{name} is not held; {need}"),
            remedy: Some(format!("add it: securityContext.capabilities.add: [{name}]")),
        },
        None => Finding::warn("rights", format!("CAP_{name} can't be seen"), "mount /proc"),
    }
}

fn programs(kernel: &Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    for variant in Variant::ALL {
        let Some(programs) = kernel.programs(variant) else {
            findings.push(Finding::warn("programs", format!("{variant} is not on PATH"), "install iptables"));
            continue;
        };
        let version =
            programs.version().map_or("of unknown version".to_owned(), |version| version.to_string());
        let text = format!("{variant} {version}");
        findings.push(match programs.restore(Family::V6) {
            Ok(_) => Finding::ok("programs", text),
            Err(error) => Finding::warn("programs", format!("{text}, for IPv4 only"), error.to_string()),
        });
        // Listing a table of the legacy variant would create it. That tables can't be seen is told of the rules.
        let exists = variant == Variant::Nft
            || iptables::legacy_tables(Family::V4, &[]).is_ok_and(|tables| tables.contains(Table::Nat));
        if exists && process::holds(process::NET_ADMIN) == Some(true) {
            findings.extend(unreadable(programs, variant));
        }
    }
    if findings.iter().all(|finding| finding.text.contains("not on PATH")) {
        findings.push(Finding::ok("programs", "rules are set by nftables, which needs no program"));
    }
    findings
}

/// Whether the program can list what the kernel holds: an old one can't list what a newer one has written.
fn unreadable(programs: &iptables::Programs, variant: Variant) -> Option<Finding> {
    let error = programs.can_list(Table::Nat, &Chain::Base(Hook::Output)).err()?;
    let text = format!("{variant} can't list the chain OUTPUT of the table nat: {error}");
    Some(Finding::fail(
        "programs",
        text,
        "use the version of iptables that wrote the rules, or the other variant",
    ))
}

/// What our rules are made of.
const MATCHES: [&str; 8] = ["tcp", "udp", "owner", "conntrack", "multiport", "mark", "connmark", "comment"];
const TARGETS: [&str; 6] = ["REDIRECT", "TPROXY", "MARK", "CONNMARK", "CT", "NFLOG"];

fn extensions() -> Vec<Finding> {
    let named = |kind, names: &'static [&'static str]| names.iter().map(move |name| (kind, *name));
    let families = match namespace::lacks_ipv6("all") {
        true => vec![Family::V4],
        false => Family::BOTH.to_vec(),
    };
    let mut missing = Vec::new();
    for (kind, name) in named(Extension::Match, &MATCHES).chain(named(Extension::Target, &TARGETS)) {
        for &family in &families {
            match netfilter::has_extension(family, kind, name) {
                Ok(true) => {}
                Ok(false) => missing.push((family, name)),
                Err(error) => {
                    let text = format!("the kernel can't be asked what it can match: {error}");
                    return vec![Finding::warn("kernel", text, modprobe("nft_compat"))];
                }
            }
        }
    }
    if missing.is_empty() {
        let text = format!("has all matches and targets: {}, {}", MATCHES.join(", "), TARGETS.join(", "));
        return vec![Finding::ok("kernel", text)];
    }
    let lack = |(family, name)| {
        Finding::fail("kernel", format!("has no {name} for {family}"), modprobe(&format!("xt_{name}")))
    };
    missing.into_iter().map(lack).collect()
}

fn modprobe(module: &str) -> String {
    let enforcing = fs::read("/sys/fs/selinux/enforce").is_ok_and(|mode| mode == b"1");
    let hint = if enforcing { "; SELinux keeps containers from loading modules themselves" } else { "" };
    format!("on the node: modprobe {module}{hint}")
}

fn unseen(variant: Variant, family: Family) -> Finding {
    let text = format!("{family} tables of {variant} are there, and no program on PATH to read them");
    Finding::fail("rules", format!("{text}: rules of ours may be in them"), "install iptables")
}

/// Rules of the owner's that the program of iptables can't show.
fn hidden(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let held = snapshot.hidden.iter().filter_map(|(&(family, table), hidden)| {
        let text = hidden.complaint(family, table, owner)?;
        Some(Finding::fail("rules", text, "sidecar-init clean removes them"))
    });
    held.collect()
}

fn foreign_rules(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let mut findings = Vec::new();
    let of_iptables = snapshot.all_contents().flat_map(|contents| match contents {
        Contents::Iptables { variant, tables } => {
            tables.iter().map(|(family, state)| (*variant, family, state)).collect()
        }
        Contents::Nftables(_) => Vec::new(),
    });
    for (variant, family, state) in of_iptables {
        let state = state.seen_by(owner);
        for table in Table::ALL {
            for (chain, held) in state.chains(table).filter(|(chain, _)| !owner.owns_chain(chain)) {
                if let Some(line) = plan::foreign_before(&held.lines, owner) {
                    let rule = rules::render::iptables::appended(chain, line);
                    let text = format!("{family} {table} ({variant}): {rule} sees packets before ours");
                    findings.push(Finding::warn("foreign", text, "sidecar-init apply puts ours first"));
                }
            }
        }
    }
    findings
}

/// Tables of nf_tables that are not what their rules say.
fn hindered(snapshot: &Snapshot, owner: &Ownership) -> Vec<Finding> {
    let finding = |one: &Hindered| match keeps_from(one, snapshot, owner) {
        true => Finding::fail("rules", one.to_string(), one.remedy()),
        false => Finding::warn("foreign", one.to_string(), one.remedy()),
    };
    snapshot.hindered.iter().map(finding).collect()
}

/// All rules that a packet meets, family by family.
fn views(kernel: &mut Kernel) -> Result<Vec<View>, backend::Error> {
    Family::BOTH.into_iter().map(|family| live(kernel, family, &|_| None)).collect()
}

/// Rules of others that may decide about packets: those that do NAT before ours, and those that drop.
fn foreign_chains(views: &[View], owner: &Ownership) -> Vec<Finding> {
    let mut told: Vec<String> = Vec::new();
    for view in views {
        told.extend(rivals_in(view, owner).iter().map(ToString::to_string));
        let droppers = droppers(view, owner).into_iter();
        told.extend(droppers.map(|(place, rule)| format!("{place} may drop packets: {rule}")));
    }
    // A table of both families is seen twice.
    let mut seen = BTreeSet::new();
    told.retain(|text| seen.insert(text.clone()));
    let finding =
        |text| Finding::warn("foreign", text, "see what it does with nft list ruleset or iptables-save");
    told.into_iter().map(finding).collect()
}

/// Processes that are meant to run as the proxy's user, as the kernel cuts their names (`TASK_COMM_LEN`).
const PROXIES: [&str; 5] = ["envoy", "pilot-agent", "linkerd2-proxy", "kuma-dp", "coredns"];

fn processes(proxy_uids: &[u32]) -> Vec<Finding> {
    let processes = match process::of_users(proxy_uids) {
        Ok(processes) => processes,
        Err(error) => {
            let text = format!("who runs as the proxy's user can't be seen: {error}");
            return vec![Finding::warn("processes", text, "mount /proc")];
        }
    };
    let is_other =
        |process: &Process| !PROXIES.contains(&process.name.as_str()) && process.id != std::process::id();
    let finding = |Process { id, name, uid, is_here }: Process| {
        let who = format!("{name} (process {id}) runs as user {uid}");
        match is_here {
            Some(_) => Finding::warn(
                "processes",
                format!("{who}, so its traffic passes as the proxy's own"),
                "run it as another user, unless it is the proxy",
            ),
            None => Finding::warn(
                "processes",
                format!("{who}; whether in this network namespace can't be seen"),
                "look as root, or with CAP_SYS_PTRACE",
            ),
        }
    };
    processes.into_iter().filter(is_other).map(finding).collect()
}

fn ipv6() -> Finding {
    match (namespace::lacks_ipv6("all"), namespace::lacks_ipv6("lo")) {
        (true, _) => Finding::ok("ipv6", "disabled in this namespace"),
        (false, false) => Finding::ok("ipv6", "enabled"),
        (false, true) => Finding::warn(
            "ipv6",
            "enabled, but not on lo, so the address ::6 can't be set and the proxy can't call the application by it",
            "sysctl net.ipv6.conf.lo.disable_ipv6=0",
        ),
    }
}

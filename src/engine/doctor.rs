//! Checks what a namespace and its kernel support, and for common faults. Reads only.

use super::{
    finding::{blocked_tables, foreign_chains, foreign_rules, unreadable},
    listeners::{self, ProxyProfile},
    live::live,
    provenance,
};
use crate::{
    backend::{self, Backend, Kernel, Variant, iptables},
    sys::{
        namespace,
        netfilter::{self, Extension},
        process::{self, RunningProcess},
    },
};
use rules::finding::{FindingLevel, NamespaceFinding};
use rules::{Chain, Family, Hook, Ownership, Table, simulate::View};
use std::fs;

/// Looks at everything.
pub fn examine(kernel: &mut Kernel, owner: &Ownership, proxy: &ProxyProfile) -> Vec<NamespaceFinding> {
    let mut findings = vec![host()];
    findings.extend(rights());
    findings.extend(programs(kernel));
    findings.extend(extensions());
    match kernel.read() {
        Ok(snapshot) => {
            findings.extend(unreadable(&snapshot, owner));
            findings.extend(provenance::findings(&snapshot, owner));
            findings.extend(foreign_rules(&snapshot, &owner.alone()));
            findings.extend(blocked_tables(&snapshot, owner));
        }
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            findings.push(NamespaceFinding::fail(
                "rules",
                format!("{error}{cause}"),
                "see above for rights and programs",
            ));
        }
    }
    match views(kernel) {
        Ok(views) => {
            findings.extend(foreign_chains(&views, owner, &[owner.alone()]));
            findings.extend(listeners::findings(&views, proxy));
        }
        Err(error) => {
            let text = format!("rules of others can't be listed: {error}");
            findings.push(NamespaceFinding::warn("foreign", text, "see above for rights and programs"));
        }
    }
    findings.extend(processes(&proxy.uids));
    findings.push(ipv6());
    findings
}

fn host() -> NamespaceFinding {
    match namespace::is_host() {
        Some(false) => NamespaceFinding::ok("namespace", "not the machine's own"),
        None => NamespaceFinding::warn(
            "namespace",
            "without /proc it is not known whether it is the machine's own",
            "mount /proc",
        ),
        Some(true) => NamespaceFinding::warn(
            "namespace",
            "the machine's own: capturing here would catch the traffic of everything that runs on it",
            "name the pod's with --network-namespace",
        ),
    }
}

fn rights() -> [NamespaceFinding; 2] {
    [
        right(process::NET_ADMIN, "NET_ADMIN", FindingLevel::Fail, "nothing can be changed without it"),
        right(process::NET_RAW, "NET_RAW", FindingLevel::Warn, "the legacy variant of iptables needs it"),
    ]
}

/// Whether the process has a capability, and how severe it is if not.
fn right(capability: u32, name: &str, level: FindingLevel, need: &str) -> NamespaceFinding {
    match process::holds(capability) {
        Some(true) => NamespaceFinding::ok("rights", format!("CAP_{name} is held")),
        Some(false) => NamespaceFinding {
            level,
            topic: "rights",
            text: format!("CAP_{name} is not held; {need}"),
            remedy: Some(format!("run this as root; in a pod: securityContext.capabilities.add: [{name}]")),
        },
        None => NamespaceFinding::warn("rights", format!("CAP_{name} can't be seen"), "mount /proc"),
    }
}

fn programs(kernel: &Kernel) -> Vec<NamespaceFinding> {
    let mut findings = Vec::new();
    for variant in Variant::ALL {
        let Some(programs) = kernel.programs(variant) else {
            findings.push(NamespaceFinding::warn(
                "programs",
                format!("{variant} is not on PATH"),
                "install iptables",
            ));
            continue;
        };
        let version =
            programs.version().map_or("of unknown version".to_owned(), |version| version.to_string());
        let text = format!("{variant} {version}");
        findings.push(match programs.restore(Family::V6) {
            Ok(_) => NamespaceFinding::ok("programs", text),
            Err(error) => {
                NamespaceFinding::warn("programs", format!("{text}, for IPv4 only"), error.to_string())
            }
        });
        // Listing a table of the legacy variant would create it. A failure to see tables is reported with the rules.
        let exists = variant == Variant::Nft
            || iptables::legacy_tables(Family::V4, &[]).is_ok_and(|tables| tables.contains(Table::Nat));
        if exists && process::holds(process::NET_ADMIN) == Some(true) {
            findings.extend(unlisted(programs, variant));
        }
    }
    if findings.iter().all(|finding| finding.text.contains("not on PATH")) {
        findings.push(NamespaceFinding::ok("programs", "rules are set by nftables, which needs no program"));
    }
    findings
}

/// Whether the program can list what the kernel holds: an old one can't list what a newer one has written.
fn unlisted(programs: &iptables::Programs, variant: Variant) -> Option<NamespaceFinding> {
    let error = programs.can_list(Table::Nat, &Chain::Base(Hook::Output)).err()?;
    let text = format!("{variant} can't list the chain OUTPUT of the table nat: {error}");
    Some(NamespaceFinding::fail(
        "programs",
        text,
        "use the version of iptables that wrote the rules, or the other variant",
    ))
}

/// What our rules are made of.
const MATCHES: [&str; 8] = ["tcp", "udp", "owner", "conntrack", "multiport", "mark", "connmark", "comment"];
const TARGETS: [&str; 6] = ["REDIRECT", "TPROXY", "MARK", "CONNMARK", "CT", "NFLOG"];

fn extensions() -> Vec<NamespaceFinding> {
    let named = |kind, names: &'static [&'static str]| names.iter().map(move |name| (kind, *name));
    let families = match no_interface_has_ipv6() {
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
                    let remedy = match process::holds(process::NET_ADMIN) {
                        Some(false) => "see above for rights".to_owned(),
                        Some(true) | None => modprobe("nft_compat"),
                    };
                    return vec![NamespaceFinding::warn("kernel", text, remedy)];
                }
            }
        }
    }
    if missing.is_empty() {
        let text = format!("has all matches and targets: {}, {}", MATCHES.join(", "), TARGETS.join(", "));
        return vec![NamespaceFinding::ok("kernel", text)];
    }
    let lack = |(family, name)| {
        NamespaceFinding::fail(
            "kernel",
            format!("has no {name} for {family}"),
            modprobe(&module_alias(family, name)),
        )
    };
    missing.into_iter().map(lack).collect()
}

/// The name by which the kernel itself requests an extension. The module's own may be another: `MARK` is in `xt_mark`.
fn module_alias(family: Family, name: &str) -> String {
    match family {
        Family::V4 => format!("ipt_{name}"),
        Family::V6 => format!("ip6t_{name}"),
    }
}

fn modprobe(module: &str) -> String {
    let enforcing = fs::read("/sys/fs/selinux/enforce").is_ok_and(|mode| mode == b"1");
    let hint = if enforcing { "; SELinux keeps containers from loading modules themselves" } else { "" };
    format!("on the node: modprobe {module}{hint}")
}

/// All rules that a packet meets, family by family.
fn views(kernel: &mut Kernel) -> Result<Vec<View>, backend::Error> {
    Family::BOTH.into_iter().map(|family| live(kernel, family)).collect()
}

/// Processes that run as the proxy's user by design, their names cut as the kernel does (`TASK_COMM_LEN`).
const PROXIES: [&str; 5] = ["envoy", "pilot-agent", "linkerd2-proxy", "kuma-dp", "coredns"];

fn processes(proxy_uids: &[u32]) -> Vec<NamespaceFinding> {
    let processes = match process::of_users(proxy_uids) {
        Ok(processes) => processes,
        Err(error) => {
            let text = format!("who runs as the proxy's user can't be seen: {error}");
            return vec![NamespaceFinding::warn("processes", text, "mount /proc")];
        }
    };
    let is_other = |process: &RunningProcess| {
        !PROXIES.contains(&process.name.as_str()) && process.id != std::process::id()
    };
    let finding = |RunningProcess { id, name, uid, is_here }: RunningProcess| {
        let who = format!("{name} (process {id}) runs as user {uid}");
        match is_here {
            Some(_) => NamespaceFinding::warn(
                "processes",
                format!("{who}, so its traffic passes as the proxy's own"),
                "run it as another user, unless it is the proxy",
            ),
            None => NamespaceFinding::warn(
                "processes",
                format!("{who}; whether in this network namespace can't be seen"),
                "look as root, or with CAP_SYS_PTRACE",
            ),
        }
    };
    processes.into_iter().filter(is_other).map(finding).collect()
}

/// Whether IPv6 is off everywhere. The setting of `all` says only what was last written to all interfaces: each can be
/// changed afterwards, as container runtimes do for `lo`.
fn no_interface_has_ipv6() -> bool {
    let folders = fs::read_dir("/proc/sys/net/ipv6/conf").into_iter().flatten().flatten();
    let mut interfaces = folders
        .filter_map(|folder| folder.file_name().into_string().ok())
        .filter(|name| name != "all" && name != "default");
    namespace::lacks_ipv6("all") && interfaces.all(|name| namespace::lacks_ipv6(&name))
}

fn ipv6() -> NamespaceFinding {
    match (no_interface_has_ipv6(), namespace::lacks_ipv6("lo")) {
        (true, _) => NamespaceFinding::ok("ipv6", "disabled in this namespace"),
        (false, false) => NamespaceFinding::ok("ipv6", "enabled"),
        (false, true) => NamespaceFinding::warn(
            "ipv6",
            "enabled, but not on lo, so the address ::6 can't be set and the proxy can't call the application by it",
            "sysctl net.ipv6.conf.lo.disable_ipv6=0",
        ),
    }
}

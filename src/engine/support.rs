//! Support for rules in a network namespace, its kernel and the iptables programs. Reads only.

use crate::backend::{Kernel, Variant, iptables};
use crate::sys::netfilter::{self, Extension};
use crate::sys::{namespace, process};
use rules::finding::{Code, Finding, Level};
use rules::{Chain, Family, Hook, Table};
use std::fs;

pub fn support(kernel: &Kernel) -> Vec<Finding> {
    let mut findings = vec![
        host(),
        right(process::NET_ADMIN, "NET_ADMIN", Level::Failure, "nothing can be changed without it"),
        right(process::NET_RAW, "NET_RAW", Level::Warning, "iptables-legacy needs it"),
    ];
    findings.extend(programs(kernel));
    findings.extend(extensions());
    findings.push(ipv6());
    findings
}

fn ok(code: Code, text: impl Into<String>) -> Finding {
    Finding::plain(Level::Ok, code, text)
}

fn unknown(text: String, remedy: impl Into<String>) -> Finding {
    Finding::warning(Code::Unreadable, "", text, remedy)
}

fn host() -> Finding {
    match namespace::is_host() {
        Some(false) => ok(Code::HostNamespace, "network namespace of a pod"),
        None => unknown(
            "without /proc, this may be the machine's own network namespace".to_owned(),
            "mount /proc",
        ),
        Some(true) => {
            let text = "this is the machine's own network namespace: rules here would capture its traffic";
            Finding::warning(Code::HostNamespace, "", text, "give the pod's with --network-namespace")
        }
    }
}

fn right(capability: u32, name: &str, level: Level, need: &str) -> Finding {
    match process::holds(capability) {
        Some(true) => ok(Code::MissingCapability, format!("CAP_{name}")),
        Some(false) => {
            let remedy = format!("run this as root; in a pod: securityContext.capabilities.add: [{name}]");
            let text = format!("CAP_{name} is missing: {need}");
            Finding { level, ..Finding::warning(Code::MissingCapability, "", text, remedy) }
        }
        None => unknown(format!("CAP_{name} can't be read"), "mount /proc"),
    }
}

fn programs(kernel: &Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    let warning = |text, remedy| Finding::warning(Code::MissingProgram, "", text, remedy);
    for variant in Variant::ALL {
        let Some(programs) = kernel.programs(variant) else {
            findings.push(warning(format!("{variant} is not on PATH"), "install iptables".to_owned()));
            continue;
        };
        let version =
            programs.version().map_or("of unknown version".to_owned(), |version| version.to_string());
        let text = format!("{variant} {version}");
        findings.push(match programs.restore(Family::V6) {
            Ok(_) => ok(Code::MissingProgram, text),
            Err(error) => warning(format!("{text}, for IPv4 only"), error.to_string()),
        });
        // Listing a table of the legacy variant would create it.
        let exists = variant == Variant::Nft
            || iptables::legacy_tables(Family::V4, &[]).is_ok_and(|found| found.tables.contains(&Table::Nat));
        // An old program can't list rules of a newer one.
        if exists
            && process::holds(process::NET_ADMIN) == Some(true)
            && let Err(error) = programs.can_list(Table::Nat, &Chain::Base(Hook::Output))
        {
            let text = format!("{variant} can't list the chain OUTPUT of the table nat: {error}");
            let remedy = "use the version of iptables that wrote the rules, or the other variant";
            findings.push(Finding::failure(Code::MissingProgram, "", text, remedy));
        }
    }
    if Variant::ALL.into_iter().all(|variant| kernel.programs(variant).is_none()) {
        findings.push(ok(Code::MissingProgram, "rules are set with nftables, which needs no program"));
    }
    findings
}

const MATCHES: [&str; 8] = ["tcp", "udp", "owner", "conntrack", "multiport", "mark", "connmark", "comment"];
const TARGETS: [&str; 6] = ["REDIRECT", "TPROXY", "MARK", "CONNMARK", "CT", "NFLOG"];

fn extensions() -> Vec<Finding> {
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
                Ok(false) => {
                    // The kernel itself requests an extension by this name. The module's own name may differ.
                    let prefix = if family == Family::V4 { "ipt" } else { "ip6t" };
                    let remedy = modprobe(&format!("{prefix}_{name}"));
                    let text = format!("the kernel has no {name} for {family}");
                    missing.push(Finding::failure(Code::MissingExtension, "", text, remedy));
                }
                Err(error) => {
                    let remedy = match process::holds(process::NET_ADMIN) {
                        Some(false) => "see the missing capability above".to_owned(),
                        Some(true) | None => modprobe("nft_compat"),
                    };
                    let text = format!("the kernel's matches and targets can't be read: {error}");
                    return vec![unknown(text, remedy)];
                }
            }
        }
    }
    if missing.is_empty() {
        let all = [&MATCHES[..], &TARGETS].concat().join(", ");
        missing.push(ok(Code::MissingExtension, format!("the kernel has all matches and targets: {all}")));
    }
    missing
}

fn modprobe(module: &str) -> String {
    let enforcing = fs::read("/sys/fs/selinux/enforce").is_ok_and(|mode| mode == b"1");
    let hint = if enforcing { "; SELinux prevents containers from loading modules" } else { "" };
    format!("on the node: modprobe {module}{hint}")
}

/// `all` shows the last change to all interfaces: each can be changed afterwards, as container runtimes do for `lo`.
fn no_interface_has_ipv6() -> bool {
    let folders = fs::read_dir("/proc/sys/net/ipv6/conf").into_iter().flatten().flatten();
    let mut interfaces = folders
        .filter_map(|folder| folder.file_name().into_string().ok())
        .filter(|name| name != "all" && name != "default");
    namespace::lacks_ipv6("all") && interfaces.all(|name| namespace::lacks_ipv6(&name))
}

fn ipv6() -> Finding {
    match (no_interface_has_ipv6(), namespace::lacks_ipv6("lo")) {
        (true, _) => ok(Code::LoLacksIpv6, "IPv6 is disabled in this network namespace"),
        (false, false) => ok(Code::LoLacksIpv6, "IPv6 is enabled"),
        (false, true) => Finding::warning(
            Code::LoLacksIpv6,
            "",
            "IPv6 is enabled, but not on lo: the address ::6 can't be set, and the proxy can't call the application from it",
            "sysctl net.ipv6.conf.lo.disable_ipv6=0",
        ),
    }
}

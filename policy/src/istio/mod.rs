//! The policy: which rules a configuration asks for. The only place that decides it.
//!
//! Pure: a [`CaptureConfig`] goes in, rules for one family come out. Who calls it, and which program or
//! kernel interface will take the rules, is unknown here. The order of the rules is upstream's, because
//! people compare previews; each step's reason stands beside it.

mod config;
pub mod defaults;
mod dns;
mod inbound;
mod kin;
mod made;
mod names;
mod outbound;
mod owner;
mod reason;
mod resolve;
mod routing;
mod tproxy;
mod words;
mod writer;

pub use config::{
    CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups, RouteTable,
};
pub use made::{made, said};
pub use reason::Reason;
pub use resolve::{Resolved, configure, resolve};
pub use routing::{PolicyRoute, Routing, routing};

use rules::{Chains, Checked, Family, Ownership, RuleSet, Table, Target, desired::Desired};
use words::{OUTPUT, PREROUTING, own};
use writer::Writer;

/// By what this policy's rules and routing are known again. The chains' prefix is upstream's, which we succeed; 137 is
/// in nobody's `/etc/iproute2/rt_protos`.
pub const OWNERSHIP: Ownership = Ownership {
    name: "Istio's sidecar",
    mesh: "istio",
    chains: Chains::Prefix(PREFIX),
    namesakes: &kin::NAMESAKES,
    comment: "sidecar-init",
    comment_prefix: None,
    table: "sidecar_init",
    protocol: 137,
    address: Some(defaults::PASSTHROUGH_V6),
    predecessor: Some(&kin::ISTIO_IPTABLES),
    opt_out: "label the pod sidecar.istio.io/inject=false",
    joined: &[],
};

/// What the names of its chains in the tables of iptables begin with.
pub const PREFIX: &str = "ISTIO_";

/// The ownerships of all policies whose rules may stand in a namespace, this one's included.
pub const ALL: &[Ownership] = &[OWNERSHIP, kin::AMBIENT];

/// The name of the program whose work we take over.
pub const PREDECESSOR: &str = kin::ISTIO_IPTABLES.name;

/// The rules for one family, in the order in which they take effect.
///
/// For a family that is not captured, and with interception `NONE`, there are none.
///
/// # Panics
/// If the policy broke the rules of the rule model, which would be a defect of this module.
pub fn rules(config: &CaptureConfig, family: Family) -> Checked {
    let wanted = config.interception != Interception::None && config.families().any(|f| f == family);
    let rules = if wanted { write(config, family) } else { RuleSet::empty(family) };
    rules::check::check(rules, &OWNERSHIP).unwrap_or_else(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        panic!("the policy made a bad rule set: {}", faults.join("; "))
    })
}

/// All that a configuration asks of a network namespace.
///
/// # Panics
/// As [`rules()`].
pub fn desired(config: &CaptureConfig) -> Desired {
    Desired {
        owner: OWNERSHIP,
        v4: rules(config, Family::V4),
        v6: config.ipv6.then(|| rules(config, Family::V6)),
        routing: routing(config).objects(),
        stale_flows: dns::stale_flows(config),
        made: None,
    }
}

fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = Writer::new(config, family);
    interfaces(&mut writer);
    if config.drop_invalid {
        drop_invalid(&mut writer);
    }
    inbound::write(&mut writer);
    outbound::start(&mut writer);
    owner::write(&mut writer);
    dns::write(&mut writer);
    outbound::finish(&mut writer);
    if let Interception::Tproxy { mark, .. } = config.interception {
        tproxy::write(&mut writer, mark);
    }
    writer.finish()
}

/// Excluded interfaces see none of the rules that follow; virtual ones none of the inbound rules.
fn interfaces(writer: &mut Writer<'_>) {
    let config = writer.config;
    let origin = Reason::ExcludedInterface.origin();
    let tables: &[Table] = match config.interception {
        Interception::Tproxy { .. } => &[Table::Nat, Table::Mangle],
        Interception::Redirect | Interception::None => &[Table::Nat],
    };
    for interface in &config.excluded_interfaces {
        for &table in tables {
            writer.append(table, PREROUTING, [words::from_interface(interface)], Target::Return, origin);
            writer.append(table, OUTPUT, [words::to_interface(interface)], Target::Return, origin);
        }
    }
    let origin = Reason::VmInterface.origin();
    for interface in &config.vm_interfaces {
        writer.insert(Table::Nat, PREROUTING, 1, [words::from_interface(interface)], Target::Return, origin);
    }
}

/// A packet outside its connection's window would otherwise reach the application past the proxy, which
/// answers with a reset that ends the redirected connection.
fn drop_invalid(writer: &mut Writer<'_>) {
    let origin = Reason::DropInvalid.origin();
    let invalid = [words::state([rules::ConnState::Invalid])];
    let drop = own("ISTIO_DROP");
    writer.append(Table::Mangle, PREROUTING, invalid, words::jump(drop), origin);
    writer.append(Table::Mangle, drop, [], Target::Drop, origin);
}

//! The meshes, what each of them wants, and namespaces in memory that hold it.

use policy::istio;
use rules::{
    Chain, Chains, Checked, Family, Hook, Line, Mark, Ownership, PolicyRules, State, Table, Target,
    check::check,
    desired::Desired,
    parse,
    routing::{Object, Standing},
};
use sidecar_init::{
    backend::{BackendName, Snapshot, Variant, memory::Memory},
    engine::{self, Choice, OnDrift, Options, Summary},
};
use std::net::Ipv6Addr;

/// Istio's sidecar, with the marks of the real one.
pub(crate) const SIDECAR: Ownership = Ownership { joined: &[], ..istio::OWNERSHIP };

/// One with names of its own.
pub(crate) const OTHER: Ownership = Ownership {
    name: "the other mesh",
    mesh: "other",
    chains: Chains::Prefix("PROXY_INIT_"),
    namesakes: &[],
    comment: "sidecar-init-other",
    comment_prefix: Some("proxy-init/"),
    table: "sidecar_init_other",
    protocol: 150,
    policy_rules: PolicyRules::PLAIN,
    address: Some(SIX),
    predecessor: None,
    opt_out: "annotate the pod",
    joined: &[],
};

/// One whose chains are called like the sidecar's.
pub(crate) const NAMESAKE: Ownership = Ownership {
    name: "the namesake",
    mesh: "namesake",
    chains: Chains::Named("ISTIO_PRERT", &["ISTIO_OUTPUT"]),
    comment: "sidecar-init-namesake",
    comment_prefix: None,
    table: "sidecar_init_namesake",
    protocol: 151,
    address: None,
    ..OTHER
};

/// All of them.
pub(crate) const ALL: &[Ownership] = &[SIDECAR, OTHER, NAMESAKE];

const SIX: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);
const ADDRESS: Object = Object::Address(SIX);

/// What is wanted by one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Redirect,
    Transparent,
    Other,
    Namesake,
}

impl Goal {
    pub(crate) const ALL: [Self; 4] = [Self::Redirect, Self::Transparent, Self::Other, Self::Namesake];

    /// Any two of different meshes.
    pub(crate) fn pairs() -> impl Iterator<Item = (Self, Self)> {
        let all = Self::ALL.into_iter().flat_map(|old| Self::ALL.map(|new| (old, new)));
        all.filter(|(old, new)| old.owner() != new.owner())
    }

    /// Whose it is.
    pub(crate) fn owner(self) -> Ownership {
        match self {
            Self::Redirect | Self::Transparent => SIDECAR,
            Self::Other => OTHER,
            Self::Namesake => NAMESAKE,
        }
    }

    /// As `iptables-restore` takes it.
    pub(crate) fn text(self, family: Family) -> String {
        let text = match (self, family) {
            (Self::Redirect, Family::V4) => include_str!("../../rules/scenarios/dns-both-families/v4.rules"),
            (Self::Redirect, Family::V6) => include_str!("../../rules/scenarios/dns-both-families/v6.rules"),
            (Self::Transparent, Family::V4) => {
                include_str!("../../rules/scenarios/tproxy-dual-stack/v4.rules")
            }
            (Self::Transparent, Family::V6) => {
                include_str!("../../rules/scenarios/tproxy-dual-stack/v6.rules")
            }
            (Self::Other, _) => OTHERS_RULES,
            (Self::Namesake, _) => NAMESAKES_RULES,
        };
        let loopback = if family == Family::V4 { "127.0.0.1/32" } else { "::1/128" };
        let text = text.replace("LOOPBACK", loopback);
        match self {
            // The catalogue's leaves what goes out alone.
            Self::Transparent => {
                let last = format!("-A ISTIO_OUTPUT -d {loopback} -j RETURN\n");
                let captures = format!("{last}-A ISTIO_OUTPUT -j ISTIO_REDIRECT\n");
                assert!(text.contains(&last), "{text}");
                text.replace(&last, &captures)
            }
            Self::Redirect | Self::Other | Self::Namesake => text,
        }
    }

    fn routing(self) -> Vec<Object> {
        let rule = |family, mark, table| {
            let mark = Mark::whole(mark);
            Object::Rule { family, mark, table, preference: None }
        };
        let local = |mark, table| {
            let of = move |family| [Object::Route { family, table }, rule(family, mark, table)];
            Family::BOTH.into_iter().flat_map(of)
        };
        match self {
            Self::Redirect | Self::Other => vec![ADDRESS],
            Self::Transparent => [ADDRESS].into_iter().chain(local(1337, 133)).collect(),
            Self::Namesake => local(273, 100).collect(),
        }
    }

    /// All that it asks of a namespace, on behalf of this owner.
    pub(crate) fn desired(self, owner: Ownership) -> Desired {
        let rules = |family| -> Checked {
            check(parse::restore(&self.text(family), family).expect("rules"), &self.owner()).expect("valid")
        };
        Desired {
            owner,
            v4: rules(Family::V4),
            v6: Some(rules(Family::V6)),
            routing: self.routing().into_iter().collect(),
            stale_flows: None,
            made: None,
        }
    }
}

const OTHERS_RULES: &str = "* nat
-N PROXY_INIT_REDIRECT
-N PROXY_INIT_OUTPUT
-A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4190,4191 -m comment --comment proxy-init/ignore-port-4190,4191 -j RETURN
-A PROXY_INIT_REDIRECT -p tcp -m comment --comment proxy-init/redirect-all-incoming-to-proxy-port -j REDIRECT --to-ports 15006
-A PREROUTING -m comment --comment proxy-init/install-proxy-init-prerouting -j PROXY_INIT_REDIRECT
-A PROXY_INIT_OUTPUT -m owner --uid-owner 1337 -m comment --comment proxy-init/ignore-proxy-user-id -j RETURN
-A PROXY_INIT_OUTPUT -o lo -m comment --comment proxy-init/ignore-loopback -j RETURN
-A PROXY_INIT_OUTPUT -p tcp -m comment --comment proxy-init/redirect-all-outgoing-to-proxy-port -j REDIRECT --to-ports 15001
-A OUTPUT -m comment --comment proxy-init/install-proxy-init-output -j PROXY_INIT_OUTPUT
COMMIT
";

const NAMESAKES_RULES: &str = "* nat
-N ISTIO_PRERT
-N ISTIO_OUTPUT
-A OUTPUT -j ISTIO_OUTPUT
-A PREROUTING -j ISTIO_PRERT
-A ISTIO_PRERT ! -d LOOPBACK -p tcp -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15006
-A ISTIO_OUTPUT ! -d LOOPBACK -o lo -j ACCEPT
-A ISTIO_OUTPUT ! -d LOOPBACK -p tcp -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15001
COMMIT
";

/// How to apply: by this backend, beside nobody.
pub(crate) fn options(backend: BackendName) -> Options {
    let choice = match backend {
        BackendName::Iptables(variant) => Choice::Iptables(Some(variant)),
        BackendName::Nftables => Choice::Nftables,
    };
    Options { choice, on_drift: OnDrift::Replace, anew: false, others: ALL }
}

const STRANGERS: &str = "*nat
:PREROUTING ACCEPT [0:0]
:KUBE-HOSTPORTS - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS
-A KUBE-HOSTPORTS -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.9:80
COMMIT
";

/// A namespace that holds what strangers have set.
pub(crate) fn strangers() -> Memory {
    let state = parse::save(STRANGERS, Family::V4, &SIDECAR).expect("a listing");
    let mut snapshot = Snapshot::default();
    for variant in Variant::ALL {
        snapshot.set_iptables(variant, Family::V4, state.clone());
    }
    Memory { snapshot, programs: Variant::ALL.into(), ..Memory::default() }
}

/// A namespace that holds what is wanted by this backend, beside strangers, as this owner reads it.
pub(crate) fn holding(goal: Goal, backend: BackendName, reader: Ownership) -> Memory {
    let mut memory = strangers();
    let alone = Options { others: &[], ..options(backend) };
    engine::apply(&mut memory, &goal.desired(goal.owner()), &alone).expect("nothing breaks");
    memory.committed.clear();
    memory.snapshot = read_by(reader, &memory.snapshot, goal.owner());
    memory
}

/// What another owner reads where one has read this.
pub(crate) fn read_by(reader: Ownership, snapshot: &Snapshot, by: Ownership) -> Snapshot {
    let mut read = Snapshot::default();
    for (variant, family) in places() {
        let state = snapshot.iptables(variant, family);
        let state = if reader.joined.is_empty() { state.seen_by(&reader) } else { state };
        read.set_iptables(variant, family, state);
    }
    for one in ALL {
        let table = snapshot.table_named(one.table).cloned();
        if one.table == reader.table {
            read.set_nftables(table);
        } else {
            read.tables_of_others.extend(table.is_some().then(|| one.table.to_owned()));
            if reader.owns_table(one.table) {
                read.tables_joined.insert(one.table.to_owned(), table);
            }
        }
    }
    let own = snapshot.routes.iter().map(|object| Standing { protocol: by.protocol, ..(*object).into() });
    for standing in own.chain(snapshot.routes_of_others.iter().copied()) {
        match standing.protocol == reader.protocol {
            true => drop(read.routes.insert(standing.object)),
            false => drop(read.routes_of_others.insert(standing)),
        }
    }
    read
}

/// Puts a goal in the place of whatever the others have set.
pub(crate) fn replace(memory: &mut Memory, goal: Goal, backend: BackendName) -> Result<Summary, String> {
    let desired = goal.desired(goal.owner().joined_with(ALL));
    engine::apply(memory, &desired, &options(backend)).map_err(|error| error.to_string())
}

fn places() -> impl Iterator<Item = (Variant, Family)> {
    Variant::ALL.into_iter().flat_map(|variant| Family::BOTH.map(|family| (variant, family)))
}

/// Whether both hold the same rules, those of strangers included, and the same routing.
pub(crate) fn same(one: &Snapshot, other: &Snapshot) -> bool {
    let tables = places().all(|(variant, family)| {
        let (one, other) = (one.iptables(variant, family), other.iptables(variant, family));
        Table::ALL.into_iter().all(|table| one.same_table(&other, table))
    });
    let routing = one.routes == other.routes && one.routes_of_others == other.routes_of_others;
    tables && routing && one.nftables() == other.nftables() && one.tables_joined == other.tables_joined
}

/// Whether connections of a family, made by the pod and to it, are taken by rules of any mesh.
pub(crate) fn captures(snapshot: &Snapshot, family: Family) -> bool {
    let by_iptables = Variant::ALL.into_iter().any(|variant| {
        let state = snapshot.iptables(variant, family);
        [Hook::Prerouting, Hook::Output].into_iter().all(|hook| {
            let tables = [Table::Nat, Table::Mangle];
            tables.into_iter().any(|table| takes(&state, table, &Chain::Base(hook)))
        })
    });
    by_iptables || snapshot.nftables().is_some() || snapshot.joined().next().is_some()
}

fn takes(state: &State, table: Table, chain: &Chain) -> bool {
    state.lines(table, chain).iter().any(|line| match line {
        Line::Typed(rule) => match &rule.target {
            Target::Redirect(_) | Target::Tproxy { .. } => true,
            Target::Jump(name) => takes(state, table, &Chain::User(name.clone())),
            _ => false,
        },
        Line::Inherited(_) | Line::Foreign(_) => false,
    })
}

//! Namespaces in memory with the goals of meshes, beside rules of other owners.

use crate::support::memory::Memory;
use crate::takeover::meshes::{Goal, options};
use mesh::{Mesh, OWNERS};
use rules::{Chain, Family, Hook, ListedRule, Ownership, State, Table, Target, parse, routing::RoutingEntry};
use sidecar_init::{
    backend::{BackendName, Snapshot, Variant},
    engine::{self, Options},
};

const STRANGERS: &str = "*nat
:PREROUTING ACCEPT [0:0]
:KUBE-HOSTPORTS - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS
-A KUBE-HOSTPORTS -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.9:80
COMMIT
";

pub(crate) fn foreign_rules() -> Memory {
    let state = parse::save(STRANGERS, Family::V4, &Mesh::Istio.ownership()).expect("a listing");
    let mut snapshot = Snapshot::default();
    for variant in Variant::ALL {
        snapshot.set_iptables(variant, Family::V4, state.clone());
    }
    Memory { snapshot, programs: Variant::ALL.into(), ..Memory::default() }
}

/// A namespace with the goal in this backend, beside foreign rules, as read by this owner.
pub(crate) fn holding(goal: Goal, backend: BackendName, reader: Ownership) -> Memory {
    let mut memory = foreign_rules();
    let alone = Options { known_owners: &[], ..options(backend) };
    engine::apply(&mut memory, &goal.desired(goal.owner()), &alone).expect("nothing breaks");
    memory.committed.clear();
    memory.snapshot = read_by(reader, &memory.snapshot, goal.owner());
    memory
}

/// A snapshot of one owner as read by another.
pub(crate) fn read_by(reader: Ownership, snapshot: &Snapshot, by: Ownership) -> Snapshot {
    let mut read = Snapshot::default();
    for (variant, family) in places() {
        let state = snapshot.iptables(variant, family);
        let state = if reader.joined.is_empty() { state.seen_by(&reader) } else { state };
        read.set_iptables(variant, family, state);
    }
    for one in OWNERS {
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
    let own = snapshot.routes.iter().map(|object| RoutingEntry { protocol: by.protocol, ..(*object).into() });
    for standing in own.chain(snapshot.routes_of_others.iter().copied()) {
        match standing.protocol == reader.protocol {
            true => drop(read.routes.insert(standing.object)),
            false => drop(read.routes_of_others.insert(standing)),
        }
    }
    read
}

fn places() -> impl Iterator<Item = (Variant, Family)> {
    Variant::ALL.into_iter().flat_map(|variant| Family::BOTH.map(|family| (variant, family)))
}

/// True if all rules, including foreign ones, and routing are equal.
pub(crate) fn same(one: &Snapshot, other: &Snapshot) -> bool {
    let tables = places().all(|(variant, family)| {
        let (one, other) = (one.iptables(variant, family), other.iptables(variant, family));
        Table::ALL.into_iter().all(|table| one.same_table(&other, table))
    });
    let routing = one.routes == other.routes && one.routes_of_others == other.routes_of_others;
    let nftables = one.nftables() == other.nftables() && one.tables_joined == other.tables_joined;
    tables && routing && nftables && one.duplicates == other.duplicates
}

/// True if connections of a family, both from the pod and to it, are captured by any mesh.
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
        ListedRule::Typed(rule) => match &rule.target {
            Target::Redirect(_) | Target::Tproxy { .. } => true,
            Target::Jump(name) => takes(state, table, &Chain::User(name.clone())),
            _ => false,
        },
        ListedRule::Inherited(_) | ListedRule::Foreign(_) => false,
    })
}

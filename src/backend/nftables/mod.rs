//! Reads and writes our nf_tables table over netlink, without any other program. Every change is one batch, so the kernel holds
//! the old table or the new one. Base chains stay, and their rules are exchanged. If the table has changed since it was read, the
//! kernel refuses, and the caller reads again. Deletions are avoided: each delays closing the socket by 10 to 30 ms.

mod agreed;
mod batch;
mod bridge;
pub mod bytecode;
mod compare;
mod expression;
mod lift;
mod listed;
mod lower;
mod read;
mod record;
mod removal;
pub mod snat;
#[cfg(test)]
mod tests;
pub mod tracing;

pub use agreed::agreed;
use batch::{BatchOperation, TRIES, kind};
pub use batch::{Nftables, Refusal, retry};
pub use bridge::{both, guarded, marks};
pub use compare::{differences, dormant, predecessor, same};
pub use expression::{CmpOperator, Ct, EncodedVerdict, Expression, Header, Meta, Register};
pub use read::{BlockedTable, Counts, Obstacle, RuleHandles, Tables};
use read::{TableCounters, TableHeader};
pub use record::TableRecord;

use crate::sys::{header::*, link};
use bytecode::EncodedTable;
use rules::nft::{LiveTable, family_number};
use rules::{Family, Listing, Table};
use std::io;

#[derive(Debug)]
pub struct VisibleTable {
    /// Encoded table if iptables made it, to compare with its program's output.
    pub as_read: Option<EncodedTable>,
    pub listed: LiveTable,
}

impl Nftables {
    /// Reads our table; `None` if it is missing. Reading creates nothing.
    pub fn read(&mut self) -> io::Result<Option<EncodedTable>> {
        let tables = self.tables()?.unwrap_or_default();
        self.read_named(&tables, self.table)
    }

    /// Reads an `inet` table; `None` if it is not in `tables`.
    pub fn read_named(&mut self, tables: &Tables, name: &str) -> io::Result<Option<EncodedTable>> {
        let ours = tables.0.iter().find(|table| table.family == NFPROTO_INET && table.name == name);
        let Some(ours) = ours else { return Ok(None) };
        Ok(self.read_counted(ours)?.map(|(table, _)| table))
    }

    /// Returns `None` if the table disappeared after the tables were listed.
    fn read_counted(&mut self, header: &TableHeader) -> io::Result<Option<(EncodedTable, TableCounters)>> {
        let mut now = Some(header.clone());
        for _ in 0..TRIES {
            let Some(found) = now else { return Ok(None) };
            match read::counted(&mut self.socket, &found) {
                // The table, or a set in it, has gone because another program changed the table.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let mut tables = self.tables()?.unwrap_or_default().0.into_iter();
                    now = tables.find(|table| (table.family, &table.name) == (found.family, &found.name));
                }
                other => return other.map(Some),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// All tables with chains for packets of a family, with counters. Reading creates nothing.
    pub fn listing(&mut self, family: Family) -> io::Result<Vec<VisibleTable>> {
        let interfaces = listed::interfaces();
        let mut tables = Vec::new();
        let found = self.tables()?.unwrap_or_default().0;
        // Only packets crossing this namespace's bridges pass through that family's rules.
        let bridges = match found.iter().any(|outside| outside.family == NFPROTO_BRIDGE) {
            true => link::bridges()?,
            false => Vec::new(),
        };
        for outside in found {
            let of = outside.family;
            let is_trace = of == NFPROTO_INET && outside.name == tracing::TABLE;
            let is_met = match of {
                NFPROTO_BRIDGE => !bridges.is_empty(),
                of => [NFPROTO_INET, NFPROTO_NETDEV, family_number(family)].contains(&of),
            };
            if is_trace || !is_met || outside.is_dormant() {
                continue;
            }
            let Some((table, counters)) = self.read_counted(&outside)? else { continue };
            let listed = listed::table(of, &table, &interfaces, &bridges, &counters);
            let Some(listed) = listed else { continue };
            let as_read = listed::is_of_iptables(of, &table).then_some(table);
            tables.push(VisibleTable { as_read, listed });
        }
        Ok(tables)
    }

    /// The printed rules that agree with the kernel, from the family's tables that iptables may have made.
    pub fn agreed(&mut self, tables: &Tables, printed: Listing) -> io::Result<Listing> {
        let of = family_number(printed.family);
        let mut found = Vec::new();
        for outside in &tables.0 {
            if outside.family != of || !Table::ALL.iter().any(|table| table.name() == outside.name) {
                continue;
            }
            found.extend(self.read_counted(outside)?.map(|(table, _)| table));
        }
        Ok(agreed::agreed(printed, &found))
    }

    /// Replaces the table `live`, as read, with `desired`, possibly under another name, in one step. Conflict if `live` is gone,
    /// or has changed and `desired` exists.
    pub fn replace(
        &mut self,
        live: Option<&EncodedTable>,
        desired: Option<&EncodedTable>,
    ) -> Result<(), Refusal> {
        match (live, desired) {
            (None, None) => Ok(()),
            (None, Some(desired)) => self.commit(&[BatchOperation::Create(desired)], None),
            (Some(live), None) => self.commit(&[BatchOperation::Delete(NFPROTO_INET, &live.name)], None),
            (Some(live), Some(desired)) => self.exchange(live, desired),
        }
    }

    fn exchange(&mut self, live: &EncodedTable, desired: &EncodedTable) -> Result<(), Refusal> {
        let generation = self.generation().map_err(Refusal::Conflict)?;
        let tables = self.tables().map_err(Refusal::Conflict)?.unwrap_or_default();
        let now = self.read_named(&tables, &live.name).map_err(Refusal::Conflict)?;
        let Some(now) = now.filter(|now| same(Some(now), Some(live))) else {
            return Err(Refusal::Conflict(io::ErrorKind::ResourceBusy.into()));
        };
        let whole = [BatchOperation::Delete(NFPROTO_INET, &live.name), BatchOperation::Create(desired)];
        // The flags count too: the kernel skips a dormant table's chains.
        if (&live.name, live.flags) != (&desired.name, desired.flags) {
            return self.commit(&whole, Some(generation));
        }
        match self.commit(&[BatchOperation::Exchange(&now, desired)], Some(generation)) {
            // Another program has added something without a name, such as an anonymous chain.
            Err(Refusal::Refused { .. }) => self.commit(&whole, Some(generation)),
            done => done,
        }
    }

    /// Removes all of these tables or none. A missing one is a conflict.
    pub fn remove(&mut self, names: &[String]) -> Result<(), Refusal> {
        let jobs: Vec<BatchOperation<'_>> =
            names.iter().map(|name| BatchOperation::Delete(NFPROTO_INET, name)).collect();
        self.commit(&jobs, None)
    }
}

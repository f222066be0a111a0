//! What iptables (nft) leaves behind when its rules are gone: tables with base chains and nothing else.

use super::batch::Job;
use super::header::{
    CHAIN_HOOK, CHAIN_POLICY, CHAIN_TABLE, GET_CHAIN, GET_RULE, GET_SET, GET_TABLE, NF_ACCEPT, RULE_TABLE,
    SET_TABLE, TABLE_NAME,
};
use super::{Nftables, Refusal};
use crate::sys::{
    message::{attribute, text},
    netfilter::{Family, lacks_nf_tables},
    netlink::{Request, Socket},
};
use std::io;

/// The tables of iptables that we use.
const NAMES: [&str; 3] = ["nat", "mangle", "raw"];

/// How often to look again when others change rules meanwhile.
const TRIES: u32 = 10;

impl Nftables {
    /// Deletes tables of iptables that hold no rule, no set and no chain but base chains that let everything pass;
    /// says how many. Only if nothing changes between the look and the deletion.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove_empty_iptables_tables(&mut self) -> Result<usize, Refusal> {
        let mut tries = TRIES;
        loop {
            let (generation, empty) = match self.empty_tables() {
                Err(error) if lacks_nf_tables(&error) => return Ok(0),
                other => other.map_err(|source| Refusal::Refused {
                    subject: "listing the tables of iptables".to_owned(),
                    explanation: None,
                    source,
                })?,
            };
            if empty.is_empty() {
                return Ok(0);
            }
            let jobs: Vec<Job<'_>> =
                empty.iter().map(|(family, name)| Job::Delete(*family as u8, name)).collect();
            tries -= 1;
            match self.commit(&jobs, Some(generation)) {
                Err(Refusal::Conflict(_)) if tries > 0 => {}
                other => return other.map(|()| empty.len()),
            }
        }
    }

    fn empty_tables(&mut self) -> io::Result<(u32, Vec<(Family, &'static str)>)> {
        let generation = self.generation()?;
        let mut empty = Vec::new();
        for family in [Family::V4, Family::V6] {
            let tables = names(&mut self.socket, family, GET_TABLE, TABLE_NAME, |_| true)?;
            let mut there = NAMES.iter().filter(|name| tables.iter().any(|table| table == *name)).peekable();
            if there.peek().is_none() {
                continue;
            }
            let mut in_use = names(&mut self.socket, family, GET_RULE, RULE_TABLE, |_| true)?;
            in_use.extend(names(&mut self.socket, family, GET_SET, SET_TABLE, |_| true)?);
            in_use
                .extend(names(&mut self.socket, family, GET_CHAIN, CHAIN_TABLE, |chain| !lets_pass(chain))?);
            empty.extend(
                there.filter(|name| !in_use.iter().any(|table| table == *name)).map(|name| (family, *name)),
            );
        }
        Ok((generation, empty))
    }
}

/// The tables that the objects of a kind are in, of those objects that count.
fn names(
    socket: &mut Socket,
    family: Family,
    kind: u16,
    table: u16,
    counts: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<String>> {
    let request = Request { kind, flags: 0, head: &[family as u8, 0, 0, 0] };
    socket.dump(&request, |payload| {
        let attributes = payload.get(4..)?;
        let name = text(attribute(attributes, table)?);
        (payload.first() == Some(&(family as u8)) && counts(attributes)).then(|| name.to_owned())
    })
}

/// Whether a chain is a base chain that accepts what no rule decides.
fn lets_pass(chain: &[u8]) -> bool {
    let policy = attribute(chain, CHAIN_POLICY).and_then(|policy| policy.try_into().ok());
    attribute(chain, CHAIN_HOOK).is_some() && policy.map(u32::from_be_bytes) == Some(NF_ACCEPT)
}

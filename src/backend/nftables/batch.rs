//! Batches: messages that the kernel applies as a whole or not at all; only the last one is acknowledged. An error's subject is
//! read from the message's bytes, so a successful batch pays nothing for descriptions.

use super::bytecode::{self, Element, EncodedChain, EncodedRule, EncodedSet, EncodedTable};
use crate::sys::header::*;
use crate::sys::message::{self, Messages, attribute, number, wire_u16};
use crate::sys::netfilter::{body, message_type, nfgenmsg};
use crate::sys::netlink::{NetlinkSocket, Rejection};
use nix::libc;
use std::io;

/// Number of elements that safely fit into one nested attribute (16-bit length).
const ELEMENTS_A_MESSAGE: usize = 1_000;

/// An attribute of libnftnl's `udata.h`: type, length, number.
const NFTNL_UDATA_SET_KEYBYTEORDER: u8 = 0;

#[derive(Clone, Copy, Debug)]
pub(super) enum BatchOperation<'a> {
    Delete(u8, &'a str),
    DeleteChain(u8, &'a str, &'a str),
    /// Deletes one rule (by handle) or all rules from the chain with this family, table and name.
    DeleteRules(u8, &'a str, &'a str, Option<u64>),
    AddElements(&'a str, &'a EncodedSet),
    /// Deletes elements from a set in our table of this name; every element must exist.
    DeleteElements(&'a str, &'a EncodedSet),
    Create(&'a EncodedTable),
    /// Changes our table from the first to the second. Chains with the same name and base are kept.
    Exchange(&'a EncodedTable, &'a EncodedTable),
}

pub(super) struct Batch {
    pub(super) messages: Messages,
    starts: Vec<usize>,
    first: u32,
}

impl Batch {
    /// Builds messages numbered from `first`. With a generation, the kernel accepts the batch only if nothing has changed since.
    pub(super) fn new(jobs: &[BatchOperation<'_>], first: u32, generation: Option<u32>) -> Self {
        let mut batch = Self { messages: Messages::default(), starts: Vec::new(), first };
        batch.border(NFNL_MSG_BATCH_BEGIN);
        if let Some(generation) = generation {
            batch.messages.number(NFNL_BATCH_GENID, generation);
        }
        for job in jobs {
            match job {
                BatchOperation::Delete(family, name) => {
                    batch.delete(NFT_MSG_DELTABLE, *family, &[(NFTA_TABLE_NAME, name)]);
                }
                BatchOperation::DeleteChain(family, table, chain) => {
                    batch.delete_chain(*family, table, chain);
                }
                BatchOperation::DeleteRules(family, table, chain, handle) => {
                    let names = [(NFTA_RULE_TABLE, *table), (NFTA_RULE_CHAIN, *chain)];
                    let message = batch.delete(NFT_MSG_DELRULE, *family, &names);
                    handle.map(|handle| message.attribute(NFTA_RULE_HANDLE, &handle.to_be_bytes()));
                }
                BatchOperation::AddElements(table, set) => batch.elements(NFT_MSG_NEWSETELEM, table, set),
                BatchOperation::DeleteElements(table, set) => batch.elements(NFT_MSG_DELSETELEM, table, set),
                BatchOperation::Create(table) => batch.create(table, None),
                BatchOperation::Exchange(live, desired) => {
                    batch.empty(live, desired);
                    batch.create(desired, Some(live));
                }
            }
        }
        batch.end();
        batch
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.starts.len()).expect("far fewer messages")
    }

    fn message(&self, place: u32) -> Option<(u16, &[u8])> {
        let start = *self.starts.get(usize::try_from(place).ok()?)?;
        let message = message::received(self.messages.bytes().get(start..)?).next()?;
        Some((message.kind, body(message.payload)?))
    }

    pub(super) fn subject(&self, place: u32) -> String {
        let Some((message, attributes)) = self.message(place) else { return "the change".to_owned() };
        let find = |kind| attribute(attributes, kind).map(message::text);
        let name = |kind| find(kind).unwrap_or_default();
        let (verb, what, named, table) = match i32::from(message ^ kind(0)) {
            NFT_MSG_NEWTABLE => ("", "table", NFTA_TABLE_NAME, None),
            NFT_MSG_NEWSET => ("", "set", NFTA_SET_NAME, None),
            NFT_MSG_NEWSETELEM | NFT_MSG_DELSETELEM => {
                ("the values of ", "set", NFTA_SET_ELEM_LIST_SET, None)
            }
            NFT_MSG_NEWCHAIN => ("", "chain", NFTA_CHAIN_NAME, None),
            NFT_MSG_NEWRULE => {
                let userdata = attribute(attributes, NFTA_RULE_USERDATA).unwrap_or_default();
                let comment = bytecode::comment_of(userdata);
                return format!("the rule {comment:?} of the chain {}", name(NFTA_RULE_CHAIN));
            }
            NFT_MSG_DELTABLE => ("deleting ", "table", NFTA_TABLE_NAME, None),
            NFT_MSG_DELSET => ("deleting ", "set", NFTA_SET_NAME, Some(NFTA_SET_TABLE)),
            NFT_MSG_DELCHAIN => ("deleting ", "chain", NFTA_CHAIN_NAME, Some(NFTA_CHAIN_TABLE)),
            NFT_MSG_DELRULE if find(NFTA_RULE_CHAIN).is_some() => {
                ("deleting rules of ", "chain", NFTA_RULE_CHAIN, Some(NFTA_RULE_TABLE))
            }
            NFT_MSG_DELRULE => ("deleting the rules of ", "table", NFTA_RULE_TABLE, None),
            _ => return "the change as a whole".to_owned(),
        };
        let table = table.map(|table| format!(" of the table {}", name(table))).unwrap_or_default();
        format!("{verb}the {what} {}{table}", name(named))
    }

    /// Name of the expression at this offset in the message with this index, if there is one.
    pub(super) fn expression(&self, place: u32, offset: usize) -> Option<&str> {
        let start = *self.starts.get(usize::try_from(place).ok()?)?;
        let desired = self.messages.bytes().get(start + offset..)?.as_ptr_range().start;
        let (_, attributes) = self.message(place)?;
        let list = attribute(attributes, NFTA_RULE_EXPRESSIONS)?;
        let items = message::attributes(list).map(|(_, item)| item);
        // The kernel points at the item's header.
        let item =
            items.filter(|item| item.as_ptr_range().contains(&desired.wrapping_add(NLA_HDRLEN))).last()?;
        attribute(item, NFTA_EXPR_NAME).map(message::text)
    }
}

impl Batch {
    fn begin(&mut self, kind: u16, flags: i32, head: [u8; 4]) -> &mut Messages {
        let sequence = self.first + self.count();
        self.starts.push(self.messages.bytes().len());
        self.messages.message(kind, flags, sequence, &head)
    }

    fn ours(&mut self, message: i32, flags: i32) -> &mut Messages {
        self.begin(kind(message), flags, nfgenmsg(NFPROTO_INET, 0))
    }

    fn border(&mut self, message: i32) {
        let head = nfgenmsg(NFPROTO_UNSPEC, wire_u16(NFNL_SUBSYS_NFTABLES));
        self.begin(wire_u16(message), 0, head);
    }

    fn end(&mut self) {
        self.messages.acknowledge();
        self.border(NFNL_MSG_BATCH_END);
    }

    fn delete(&mut self, message: i32, family: u8, names: &[(u16, &str)]) -> &mut Messages {
        let message = self.begin(kind(message), 0, nfgenmsg(family, 0));
        for (kind, name) in names {
            message.text(*kind, name);
        }
        message
    }

    fn delete_chain(&mut self, family: u8, table: &str, chain: &str) {
        let names = [(NFTA_CHAIN_TABLE, table), (NFTA_CHAIN_NAME, chain)];
        self.delete(NFT_MSG_DELCHAIN, family, &names);
    }

    /// Empties a table except for chains that `desired` has too: first the rules, which refer to sets and chains.
    fn empty(&mut self, live: &EncodedTable, desired: &EncodedTable) {
        let name = live.name.as_str();
        self.ours(NFT_MSG_DELRULE, 0).text(NFTA_RULE_TABLE, name);
        // Deleting a rule deletes its anonymous set.
        for set in live.sets.iter().filter(|set| set.flags & NFT_SET_ANONYMOUS == 0) {
            let message = self.ours(NFT_MSG_DELSET, 0);
            message.text(NFTA_SET_TABLE, name).text(NFTA_SET_NAME, &set.name);
        }
        for chain in live.written().filter(|chain| !is_kept(chain, desired)) {
            self.delete_chain(NFPROTO_INET, name, &chain.name);
        }
    }

    /// Creates a table; in an existing one, only the missing objects.
    fn create(&mut self, table: &EncodedTable, live: Option<&EncodedTable>) {
        let name = table.name.as_str();
        let exclusively = if live.is_none() { NLM_F_EXCL } else { 0 };
        self.ours(NFT_MSG_NEWTABLE, NLM_F_CREATE | exclusively)
            .text(NFTA_TABLE_NAME, name)
            .number(NFTA_TABLE_FLAGS, table.flags);
        for (index, set) in table.sets.iter().enumerate() {
            self.set(name, index, set);
        }
        let chains: Vec<_> = table.written().collect();
        for chain in chains.iter().filter(|chain| live.is_none_or(|live| !is_kept(chain, live))) {
            self.chain(name, chain);
        }
        for (chain, rule) in chains.iter().flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)))
        {
            self.rule(name, chain, rule);
        }
    }

    fn set(&mut self, table: &str, index: usize, set: &EncodedSet) {
        // The kernel requires an identifier, by which a batch can refer to the set.
        let id = u32::try_from(index).expect("few sets") + 1;
        let order = set.byte_order().to_ne_bytes();
        let userdata = [&[NFTNL_UDATA_SET_KEYBYTEORDER, 4], order.as_slice()].concat();
        let message = self
            .ours(NFT_MSG_NEWSET, NLM_F_CREATE)
            .text(NFTA_SET_TABLE, table)
            .text(NFTA_SET_NAME, &set.name)
            .number(NFTA_SET_FLAGS, set.flags.cast_unsigned())
            .number(NFTA_SET_KEY_TYPE, set.key_type)
            .number(NFTA_SET_KEY_LEN, set.key_length)
            .number(NFTA_SET_ID, id)
            .attribute(NFTA_SET_USERDATA, &userdata);
        if set.flags & NFT_SET_TIMEOUT != 0 {
            let size = u32::try_from(set.elements.len()).expect("ports");
            message
                .number(NFTA_SET_GC_INTERVAL, rules::nft::NEVER_DAYS * 24 * 60 * 60 * 1_000)
                .nest(NFTA_SET_DESC, |description| _ = description.number(NFTA_SET_DESC_SIZE, size));
        }
        self.elements(NFT_MSG_NEWSETELEM, table, set);
    }

    fn elements(&mut self, message: i32, table: &str, set: &EncodedSet) {
        let flags = if message == NFT_MSG_NEWSETELEM { NLM_F_CREATE } else { 0 };
        for chunk in set.elements.chunks(ELEMENTS_A_MESSAGE) {
            self.ours(message, flags)
                .text(NFTA_SET_ELEM_LIST_TABLE, table)
                .text(NFTA_SET_ELEM_LIST_SET, &set.name)
                .nest(NFTA_SET_ELEM_LIST_ELEMENTS, |list| {
                    chunk.iter().for_each(|one| element(list, set.key_length, one));
                });
        }
    }

    fn chain(&mut self, table: &str, chain: &EncodedChain) {
        let message = self.ours(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
        message.text(NFTA_CHAIN_TABLE, table).text(NFTA_CHAIN_NAME, &chain.name);
        if let Some(base) = &chain.base {
            message
                .nest(NFTA_CHAIN_HOOK, |hook| {
                    hook.number(NFTA_HOOK_HOOKNUM, base.hook)
                        .number(NFTA_HOOK_PRIORITY, base.priority.cast_unsigned());
                })
                .number(NFTA_CHAIN_POLICY, base.policy)
                .text(NFTA_CHAIN_TYPE, &base.kind);
        }
    }

    fn rule(&mut self, table: &str, chain: &EncodedChain, rule: &EncodedRule) {
        let message = self.ours(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
        message.text(NFTA_RULE_TABLE, table).text(NFTA_RULE_CHAIN, &chain.name);
        message.nest(NFTA_RULE_EXPRESSIONS, |list| {
            rule.expressions.iter().for_each(|expression| expression.encode(list));
        });
        if !rule.userdata.is_empty() {
            message.attribute(NFTA_RULE_USERDATA, &rule.userdata);
        }
    }
}

fn is_kept(chain: &EncodedChain, table: &EncodedTable) -> bool {
    table.written().any(|other| (&other.name, &other.base) == (&chain.name, &chain.base))
}

fn element(list: &mut Messages, key_length: u32, element: &Element) {
    list.nest(NFTA_LIST_ELEM, |item| {
        item.nest(NFTA_SET_ELEM_KEY, |key| {
            key.attribute(NFTA_DATA_VALUE, &element.key[..key_length.min(16) as usize]);
        });
        if element.is_end {
            item.number(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END.cast_unsigned());
        }
    });
}

pub struct Nftables {
    pub(super) socket: NetlinkSocket,
    pub(super) table: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("another program changed nf_tables at the same time")]
    Conflict(#[source] io::Error),
    #[error("the kernel refused {subject}{}", .explanation.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        subject: String,
        /// The rule's rejected expression, and the kernel's message.
        explanation: Option<String>,
        source: io::Error,
    },
}

impl Refusal {
    pub(crate) fn of(subject: impl Into<String>, source: io::Error) -> Self {
        Self::Refused { subject: subject.into(), explanation: None, source }
    }

    pub fn cause(&self) -> &io::Error {
        match self {
            Self::Conflict(source) | Self::Refused { source, .. } => source,
        }
    }
}

pub(super) const TRIES: usize = 10;

pub fn retry<T>(mut change: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    for _ in 1..TRIES {
        match change() {
            Err(Refusal::Conflict(_)) => {}
            done => return done,
        }
    }
    change()
}

impl Nftables {
    /// Opens a socket for our `inet` table of this name.
    pub fn open(table: &'static str) -> io::Result<Self> {
        Ok(Self { socket: NetlinkSocket::open(NETLINK_NETFILTER)?, table })
    }

    pub(super) fn commit(
        &mut self,
        jobs: &[BatchOperation<'_>],
        generation: Option<u32>,
    ) -> Result<(), Refusal> {
        if jobs.is_empty() {
            return Ok(());
        }
        let first = self.socket.next_sequence();
        let batch = Batch::new(jobs, first, generation);
        let sequences = first..first + batch.count();
        let acknowledged = sequences.end - 2;
        let sent = self.socket.batch(batch.messages.bytes(), sequences, acknowledged);
        sent.map_err(|rejection| refusal(&batch, first, jobs, rejection))
    }

    pub fn generation(&mut self) -> io::Result<u32> {
        let answer = self.socket.one(kind(NFT_MSG_GETGEN), &nfgenmsg(NFPROTO_UNSPEC, 0), |_| {})?;
        let id = body(&answer).and_then(|answer| number(answer, NFTA_GEN_ID));
        id.ok_or(io::ErrorKind::InvalidData.into())
    }
}

pub(super) const fn kind(message: i32) -> u16 {
    message_type(NFNL_SUBSYS_NFTABLES, message)
}

/// Job that begins with the message at this index; `None` unless all earlier jobs delete tables, with one message each.
fn job_at<'a>(jobs: &[BatchOperation<'a>], place: u32) -> Option<BatchOperation<'a>> {
    let (job, earlier) = jobs.get(..usize::try_from(place).ok()?)?.split_last()?;
    earlier.iter().all(|job| matches!(job, BatchOperation::Delete(..))).then_some(*job)
}

fn refusal(batch: &Batch, first: u32, jobs: &[BatchOperation<'_>], rejection: Rejection) -> Refusal {
    let Rejection { sequence, message, offset, source } = rejection;
    let place = sequence.wrapping_sub(first);
    // The generation is old, a table to delete is gone, or a table to create already exists.
    let is_conflict = matches!(
        (source.raw_os_error(), job_at(jobs, place)),
        (Some(libc::ERESTART), _)
            | (Some(libc::ENOENT), Some(BatchOperation::Delete(..)))
            | (Some(libc::EEXIST), Some(BatchOperation::Create(_)))
    );
    match is_conflict {
        true => Refusal::Conflict(source),
        false => {
            let expression = offset.and_then(|offset| batch.expression(place, offset));
            let expression = expression.map(|name| format!("expression {name}"));
            let explanation: Vec<String> = expression.into_iter().chain(message).collect();
            let explanation = (!explanation.is_empty()).then(|| explanation.join(": "));
            Refusal::Refused { subject: batch.subject(place), explanation, source }
        }
    }
}

//! Batches: messages that the kernel takes as a whole or not at all.
//!
//! Only the last message is acknowledged. What each message is about is remembered by its number, so that a
//! complaint can be told in terms of rules and options.

use super::header::{
    BATCH_BEGIN, BATCH_END, BATCH_GENERATION, CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TABLE, CHAIN_TYPE,
    DATA_VALUE, DELETE_CHAIN, DELETE_TABLE, ELEMENT_FLAGS, ELEMENT_IS_END, ELEMENT_KEY, ELEMENTS_LIST,
    ELEMENTS_SET, ELEMENTS_TABLE, HOOK_NUMBER, HOOK_PRIORITY, INET, ITEM, NEW_CHAIN, NEW_ELEMENTS, NEW_RULE,
    NEW_SET, NEW_TABLE, RULE_CHAIN, RULE_EXPRESSIONS, RULE_TABLE, RULE_USERDATA, SET_FLAGS, SET_ID,
    SET_KEY_LENGTH, SET_KEY_TYPE, SET_NAME, SET_TABLE, SET_USERDATA, SUBSYSTEM, TABLE_FLAGS, TABLE_NAME,
};
use super::image::{Element, Image, ImageChain, ImageRule, ImageSet};
use crate::sys::{
    header::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL},
    message::{self, Messages},
};
use rules::nft::TABLE;

/// As many elements as safely fit into one nest, whose length is a number of 16 bits.
const ELEMENTS_A_MESSAGE: usize = 1_000;

/// `NFTNL_UDATA_SET_KEYBYTEORDER` of libnftnl: type, length, number.
const KEY_BYTE_ORDER: u8 = 0;

/// A table to delete or an image to create, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job<'a> {
    /// Deletes a table of this family and name, with all that is in it.
    Delete(u8, &'a str),
    /// Deletes a chain of this family, table and name.
    DeleteChain(u8, &'a str, &'a str),
    /// Makes our table, which must not be there.
    Create(&'a Image),
}

/// A batch ready to be sent.
pub(super) struct Batch {
    /// The bytes.
    pub(super) messages: Messages,
    /// What each message is about and where it starts, from the one that begins the batch.
    subjects: Vec<(String, usize)>,
}

impl Batch {
    /// The batch for these jobs. It counts its messages from `first`. With a generation, the kernel takes it only
    /// if nothing has changed since.
    pub(super) fn new(jobs: &[Job<'_>], first: u32, generation: Option<u32>) -> Self {
        let mut writer =
            Writer { batch: Self { messages: Messages::default(), subjects: Vec::new() }, first };
        writer.border(BATCH_BEGIN);
        if let Some(generation) = generation {
            writer.batch.messages.number(BATCH_GENERATION, generation);
        }
        for (index, job) in jobs.iter().enumerate() {
            let last = index + 1 == jobs.len();
            match job {
                Job::Delete(family, name) => writer.delete(*family, name, last),
                Job::DeleteChain(family, table, chain) => writer.delete_chain(*family, table, chain, last),
                Job::Create(image) => writer.create(image, last),
            }
        }
        writer.border(BATCH_END);
        writer.batch
    }

    /// How many messages there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.subjects.len()).expect("far fewer messages")
    }

    /// What the message at this place is about.
    pub(super) fn subject(&self, place: u32) -> &str {
        let subject = usize::try_from(place).ok().and_then(|place| self.subjects.get(place));
        subject.map_or("the change", |(subject, _)| subject.as_str())
    }

    /// The name of the expression that stands at this offset of the message at this place, if one does.
    pub(super) fn expression(&self, place: u32, offset: usize) -> Option<&str> {
        let (_, start) = self.subjects.get(usize::try_from(place).ok()?)?;
        let bytes = self.messages.bytes();
        let wanted = bytes.get(start + offset..)?.as_ptr_range().start;
        let message = message::received(bytes.get(*start..)?).next()?;
        let list = message::attribute(message.payload.get(4..)?, RULE_EXPRESSIONS)?;
        let items = message::attributes(list).map(|(_, item)| item);
        // The kernel points at the header of the item.
        let item = items.filter(|item| item.as_ptr_range().contains(&wanted.wrapping_add(4))).last()?;
        message::attribute(item, 1).map(message::text)
    }
}

struct Writer {
    batch: Batch,
    first: u32,
}

impl Writer {
    fn message(&mut self, kind: u16, flags: u16, head: [u8; 4], subject: String) -> &mut Messages {
        let sequence = self.first + self.batch.count();
        self.batch.subjects.push((subject, self.batch.messages.bytes().len()));
        self.batch.messages.message(kind, flags, sequence, &head)
    }

    /// A message about our table. `struct nfgenmsg`: family, version, resource.
    fn ours(&mut self, kind: u16, flags: u16, subject: String) -> &mut Messages {
        self.message(kind, flags, [INET, 0, 0, 0], subject)
    }

    fn border(&mut self, kind: u16) {
        let [high, low] = SUBSYSTEM.to_be_bytes();
        self.message(kind, 0, [0, 0, high, low], "the change as a whole".to_owned());
    }

    fn delete_chain(&mut self, family: u8, table: &str, chain: &str, last: bool) {
        let flags = if last { NLM_F_ACK } else { 0 };
        let subject = format!("deleting the chain {chain} of the table {table}");
        let message = self.message(DELETE_CHAIN, flags, [family, 0, 0, 0], subject);
        message.text(CHAIN_TABLE, table).text(CHAIN_NAME, chain);
    }

    fn delete(&mut self, family: u8, name: &str, last: bool) {
        let flags = if last { NLM_F_ACK } else { 0 };
        let subject = format!("deleting the table {name}");
        self.message(DELETE_TABLE, flags, [family, 0, 0, 0], subject).text(TABLE_NAME, name);
    }

    fn create(&mut self, image: &Image, last: bool) {
        let rules =
            || image.chains.iter().flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)));
        // Every image has a chain, and most have a rule; the last of whatever comes last is acknowledged.
        let (chains, mut rules_left) = (image.chains.len(), rules().count());
        let flags = |is_last: bool| if last && is_last { NLM_F_ACK } else { 0 };
        let alone = chains == 0 && image.sets.is_empty();
        self.ours(NEW_TABLE, NLM_F_CREATE | NLM_F_EXCL | flags(alone), format!("the table {TABLE}"))
            .text(TABLE_NAME, TABLE)
            .number(TABLE_FLAGS, image.flags);
        for (index, set) in image.sets.iter().enumerate() {
            self.set(index, set, flags(chains == 0 && index + 1 == image.sets.len()));
        }
        for (index, chain) in image.chains.iter().enumerate() {
            self.chain(chain, flags(rules_left == 0 && index + 1 == chains));
        }
        for (chain, rule) in rules() {
            rules_left -= 1;
            self.rule(chain, rule, flags(rules_left == 0));
        }
    }

    fn set(&mut self, index: usize, set: &ImageSet, flags: u16) {
        // The kernel insists on an identifier, by which others could refer to the set within the batch.
        let id = u32::try_from(index).expect("few sets") + 1;
        let order = set.byte_order().to_ne_bytes();
        let userdata = [&[KEY_BYTE_ORDER, 4], order.as_slice()].concat();
        let chunks = set.elements.chunks(ELEMENTS_A_MESSAGE);
        let mut left = chunks.len();
        self.ours(NEW_SET, NLM_F_CREATE | if left == 0 { flags } else { 0 }, format!("the set {}", set.name))
            .text(SET_TABLE, TABLE)
            .text(SET_NAME, &set.name)
            .number(SET_FLAGS, set.flags)
            .number(SET_KEY_TYPE, set.key_type)
            .number(SET_KEY_LENGTH, set.key_length)
            .number(SET_ID, id)
            .attribute(SET_USERDATA, &userdata);
        for chunk in chunks {
            left -= 1;
            let flags = NLM_F_CREATE | if left == 0 { flags } else { 0 };
            self.ours(NEW_ELEMENTS, flags, format!("the values of the set {}", set.name))
                .text(ELEMENTS_TABLE, TABLE)
                .text(ELEMENTS_SET, &set.name)
                .nest(ELEMENTS_LIST, |list| chunk.iter().for_each(|one| element(list, set.key_length, one)));
        }
    }

    fn chain(&mut self, chain: &ImageChain, flags: u16) {
        let message = self.ours(NEW_CHAIN, NLM_F_CREATE | flags, format!("the chain {}", chain.name));
        message.text(CHAIN_TABLE, TABLE).text(CHAIN_NAME, &chain.name);
        if let Some(base) = &chain.base {
            message
                .nest(CHAIN_HOOK, |hook| {
                    hook.number(HOOK_NUMBER, base.hook).number(HOOK_PRIORITY, base.priority.cast_unsigned());
                })
                .number(CHAIN_POLICY, base.policy)
                .text(CHAIN_TYPE, &base.kind);
        }
    }

    fn rule(&mut self, chain: &ImageChain, rule: &ImageRule, flags: u16) {
        let subject = format!("the rule {:?} of the chain {}", rule.comment(), chain.name);
        let message = self.ours(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND | flags, subject);
        message.text(RULE_TABLE, TABLE).text(RULE_CHAIN, &chain.name).nest(RULE_EXPRESSIONS, |list| {
            rule.expressions.iter().for_each(|expression| expression.encode(list));
        });
        if !rule.userdata.is_empty() {
            message.attribute(RULE_USERDATA, &rule.userdata);
        }
    }
}

fn element(list: &mut Messages, key_length: u32, element: &Element) {
    list.nest(ITEM, |item| {
        item.nest(ELEMENT_KEY, |key| {
            key.attribute(DATA_VALUE, &element.key[..key_length.min(16) as usize]);
        });
        if element.is_end {
            item.number(ELEMENT_FLAGS, ELEMENT_IS_END);
        }
    });
}

//! Reads our table back.

use super::expression::Expression;
use super::header::{
    CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TABLE, CHAIN_TYPE, DATA_VALUE, ELEMENT_FLAGS, ELEMENT_IS_END,
    ELEMENT_KEY, ELEMENTS_LIST, ELEMENTS_SET, ELEMENTS_TABLE, GET_CHAIN, GET_ELEMENTS, GET_RULE, GET_SET,
    GET_TABLE, HOOK_NUMBER, HOOK_PRIORITY, INET, NF_ACCEPT, RULE_CHAIN, RULE_EXPRESSIONS, RULE_TABLE,
    RULE_USERDATA, SET_FLAGS, SET_KEY_LENGTH, SET_KEY_TYPE, SET_NAME, SET_TABLE, TABLE_FLAGS, TABLE_NAME,
};
use super::image::{self, Element, Image, ImageBase, ImageChain, ImageRule, ImageSet};
use crate::sys::{
    message::{Messages, attribute, attributes, text},
    netlink::{Request, Socket},
};
use rules::nft::TABLE;
use std::io;

/// `struct nfgenmsg`: family, version, resource.
const HEAD: [u8; 4] = [INET, 0, 0, 0];

/// Our table; `None` if it is not there.
pub(super) fn table(socket: &mut Socket) -> io::Result<Option<Image>> {
    let request = Request { kind: GET_TABLE, flags: 0, head: &HEAD };
    let table = match socket.one(&request, |message| {
        message.text(TABLE_NAME, TABLE);
    }) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let flags = body(&table).and_then(|table| number(table, TABLE_FLAGS)).unwrap_or(0);
    let mut image = Image { flags, sets: sets(socket)?, chains: chains(socket)? };
    for (name, rule) in rules(socket)? {
        if let Some(chain) = image.chains.iter_mut().find(|chain| chain.name == name) {
            chain.rules.push(rule);
        }
    }
    for set in &mut image.sets {
        set.elements = elements(socket, &set.name)?;
        image::sort(&mut set.elements);
    }
    Ok(Some(image))
}

/// The attributes behind the family's header.
fn body(payload: &[u8]) -> Option<&[u8]> {
    payload.get(HEAD.len()..)
}

fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    attribute(attributes, kind)?.try_into().ok().map(u32::from_be_bytes)
}

fn name(attributes: &[u8], kind: u16) -> Option<String> {
    attribute(attributes, kind).map(|payload| text(payload).to_owned())
}

/// All objects of a kind in our table. Old kernels ignore the wish for one table only.
fn dump<T>(
    socket: &mut Socket,
    kind: u16,
    table: u16,
    read: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let request = Request { kind, flags: 0, head: &HEAD };
    let of_table = |message: &mut Messages| {
        message.text(table, TABLE);
    };
    socket.dump_some(&request, of_table, |payload| {
        let attributes = body(payload)?;
        (attribute(attributes, table).map(text) == Some(TABLE)).then(|| read(attributes)).flatten()
    })
}

fn chains(socket: &mut Socket) -> io::Result<Vec<ImageChain>> {
    dump(socket, GET_CHAIN, CHAIN_TABLE, |chain| {
        let base = attribute(chain, CHAIN_HOOK).and_then(|hook| {
            Some(ImageBase {
                kind: name(chain, CHAIN_TYPE)?,
                hook: number(hook, HOOK_NUMBER)?,
                priority: number(hook, HOOK_PRIORITY)?.cast_signed(),
                policy: number(chain, CHAIN_POLICY).unwrap_or(NF_ACCEPT),
            })
        });
        Some(ImageChain { name: name(chain, CHAIN_NAME)?, base, rules: Vec::new() })
    })
}

fn rules(socket: &mut Socket) -> io::Result<Vec<(String, ImageRule)>> {
    dump(socket, GET_RULE, RULE_TABLE, |rule| {
        let list = attribute(rule, RULE_EXPRESSIONS).unwrap_or_default();
        let expressions = attributes(list).filter_map(|(_, item)| Expression::decode(item)).collect();
        let userdata = attribute(rule, RULE_USERDATA).unwrap_or_default().to_vec();
        Some((name(rule, RULE_CHAIN)?, ImageRule { expressions, userdata }))
    })
}

fn sets(socket: &mut Socket) -> io::Result<Vec<ImageSet>> {
    dump(socket, GET_SET, SET_TABLE, |set| {
        Some(ImageSet {
            name: name(set, SET_NAME)?,
            key_type: number(set, SET_KEY_TYPE)?,
            key_length: number(set, SET_KEY_LENGTH)?,
            flags: number(set, SET_FLAGS).unwrap_or(0),
            elements: Vec::new(),
        })
    })
}

fn elements(socket: &mut Socket, set: &str) -> io::Result<Vec<Element>> {
    let request = Request { kind: GET_ELEMENTS, flags: 0, head: &HEAD };
    let of_set = |message: &mut Messages| {
        message.text(ELEMENTS_TABLE, TABLE).text(ELEMENTS_SET, set);
    };
    let chunks = socket.dump_some(&request, of_set, |payload| {
        let list = attribute(body(payload)?, ELEMENTS_LIST)?;
        Some(attributes(list).filter_map(|(_, item)| element(item)).collect::<Vec<_>>())
    })?;
    let mut elements = chunks.concat();
    // `nft` may put the end of nothing at zero, before the first range.
    elements.retain(|element| *element != Element { key: [0; 16], is_end: true });
    Ok(elements)
}

fn element(item: &[u8]) -> Option<Element> {
    let value = attribute(attribute(item, ELEMENT_KEY)?, DATA_VALUE)?;
    let mut key = [0; 16];
    key.get_mut(..value.len())?.copy_from_slice(value);
    let is_end = number(item, ELEMENT_FLAGS).unwrap_or(0) & ELEMENT_IS_END != 0;
    Some(Element { key, is_end })
}

//! Batches, and other programs' expressions. `tests/apply/native` compares our expressions with `nft` rules.

use super::batch::{Batch, BatchOperation};
use super::bytecode::{self, Element};
use super::expression::{EncodedVerdict, Expression, Register};
use crate::sys::header::NLM_F_ACK;
use crate::sys::message::{self, Messages};

#[test]
fn foreign_expressions_decode_to_other() {
    let item = |name: &str, numbers: &[(u16, u32)]| {
        Messages::alone(|item| {
            item.text(1, name).nest(2, |data| {
                for (kind, number) in numbers {
                    data.number(*kind, *number);
                }
            });
        })
    };
    let strange = [
        item("meta", &[(1, 8), (2, 16)]),
        item("meta", &[(1, 1), (2, 99)]),
        item("cmp", &[(1, 1), (2, 7)]),
        item("redir", &[(1, 1), (2, 1), (3, 6)]),
        item("lookup", &[(2, 1), (5, 2)]),
        item("immediate", &[]),
        item("quota", &[(1, 1)]),
        item("log", &[(5, 8)]),
        item("byteorder", &[(1, 1), (2, 1), (3, 1), (4, 8), (5, 8)]),
    ];
    for item in strange {
        assert!(matches!(Expression::decode(&item), Some(Expression::Other { .. })), "{item:?}");
    }
    assert_eq!(Expression::decode(&[]), None);
    let whole = Messages::alone(|item| Expression::Lookup("ports".to_owned(), false).encode(item));
    for cut in 0..whole.len() {
        let _ = Expression::decode(&whole[..cut]);
    }
}

fn table(elements: usize) -> bytecode::EncodedTable {
    let key = |n: usize| {
        let mut key = [0; 16];
        key[..2].copy_from_slice(&u16::try_from(n).expect("a port").to_be_bytes());
        key
    };
    bytecode::EncodedTable {
        name: "sidecar_init".to_owned(),
        flags: 0,
        sets: vec![bytecode::EncodedSet {
            name: "ports".to_owned(),
            key_type: 13,
            key_length: 2,
            flags: 4,
            others: 0,
            verdicts: Vec::new(),
            elements: (0..elements).map(|n| Element { key: key(n), is_end: n % 2 == 1 }).collect(),
        }],
        chains: vec![bytecode::EncodedChain {
            name: "nat_OUTPUT".to_owned(),
            base: Some(bytecode::BaseChain {
                kind: "nat".to_owned(),
                hook: 3,
                priority: -100,
                policy: 1,
                devices: Vec::new(),
            }),
            rules: vec![bytecode::EncodedRule {
                expressions: vec![Expression::Counter],
                userdata: b"\0\x05here\0".to_vec(),
            }],
        }],
        record: None,
    }
}

#[test]
fn batch_is_acknowledged_once_and_names_its_parts() {
    let table = table(2_001);
    let batch =
        Batch::new(&[BatchOperation::Delete(1, "sidecar_init"), BatchOperation::Create(&table)], 7, Some(42));
    let messages: Vec<_> = message::received(batch.messages.bytes()).collect();
    let kinds: Vec<u16> = messages.iter().map(|message| message.kind).collect();
    // Begin, delete, table, set, three portions of elements, chain, rule, end.
    assert_eq!(kinds, [0x10, 0xa02, 0xa00, 0xa09, 0xa0c, 0xa0c, 0xa0c, 0xa03, 0xa06, 0x11]);
    assert!(messages.iter().map(|message| message.sequence).eq(7..17));
    let acknowledged: Vec<u32> =
        messages.iter().filter(|m| m.flags & NLM_F_ACK != 0).map(|m| m.sequence).collect();
    assert_eq!(acknowledged, [15]);
    assert_eq!(messages[0].payload, [&[0, 0, 0, 10][..], &[8, 0, 1, 0, 0, 0, 0, 42]].concat());
    assert_eq!(batch.subject(8), "the rule \"here\" of the chain nat_OUTPUT");
    assert_eq!(batch.subject(5), "the values of the set ports");
    assert_eq!(batch.subject(99), "the change");
}

#[test]
fn exchange_keeps_chains_with_the_same_name() {
    let live = table(3);
    let kinds = |desired: &bytecode::EncodedTable| -> Vec<u16> {
        let batch = Batch::new(&[BatchOperation::Exchange(&live, desired)], 1, None);
        let messages = message::received(batch.messages.bytes());
        messages.map(|message| message.kind & 0xff).collect()
    };
    // Begin; the rules and the set go; table, set, its values and rule; end.
    assert_eq!(kinds(&table(3)), [0x10, 8, 11, 0, 9, 12, 6, 0x11]);
    let mut elsewhere = table(3);
    elsewhere.chains[0].base.as_mut().expect("a base chain").priority = -99;
    assert_eq!(kinds(&elsewhere), [0x10, 8, 11, 5, 0, 9, 12, 3, 6, 0x11]);
}

#[test]
fn device_chain_is_called_only_for_its_devices() {
    use super::listed::{self, Interfaces};
    let chain = |devices: &[&str]| {
        let mut table = table(0);
        let base = table.chains[0].base.as_mut().expect("a base chain");
        // `ingress` of a `netdev` table.
        base.kind = "filter".to_owned();
        base.hook = 0;
        base.devices = devices.iter().map(|name| (*name).to_owned()).collect();
        let table =
            listed::table(5, &table, &Interfaces::default(), &[], &super::read::TableCounters::default());
        table.expect("packets pass it").chains.remove(0)
    };
    assert_eq!(chain(&[]).base, None);
    for (device, is_covered) in
        [("eth0", true), ("eth1", false), ("eth*", true), ("*", true), ("eth0*", true), ("lo*", false)]
    {
        let chain = chain(&[device]);
        assert!(chain.base.is_some(), "{device}");
        let [rules::ListedCondition::Nft(condition)] = chain.rules[0].conditions.as_slice() else {
            panic!("{device}: {:?}", chain.rules)
        };
        assert_eq!(condition.holds(rules::nft::interface_number("eth0")), is_covered, "{device}");
    }
    let hook = Messages::alone(|hook| {
        hook.nest(4, |devices| _ = devices.text(1, "lo").text(2, "eth"));
    });
    assert_eq!(super::read::devices(&hook), ["eth*", "lo"]);
}

/// A policy for single interfaces is listed as rules without counters, as are bridge rules.
#[test]
fn counters_belong_to_the_rules_of_the_kernel() {
    use super::listed::{self, Interfaces};
    use super::read::TableCounters;
    use rules::Hits;
    let rule = |verdict| bytecode::EncodedRule {
        expressions: vec![Expression::Counter, Expression::Verdict(verdict)],
        userdata: Vec::new(),
    };
    let mut table = table(0);
    table.chains[0].rules =
        vec![rule(EncodedVerdict::Goto("other".to_owned())), rule(EncodedVerdict::Accept)];
    // `ingress` of a `netdev` table, `prerouting` of a `bridge` table; the policy is `drop`.
    let base = table.chains[0].base.as_mut().expect("a base chain");
    base.kind = "filter".to_owned();
    (base.hook, base.policy) = (0, 0);
    base.devices = vec!["eth0".to_owned()];
    let hits = |packets| Some(Hits { packets, bytes: 0 });
    let counters: TableCounters = [("nat_OUTPUT".to_owned(), vec![hits(1), hits(2)])].into();
    let counted = |family| -> Vec<Option<Hits>> {
        let bridges = ["br0".to_owned()];
        let table = listed::table(family, &table, &Interfaces::default(), &bridges, &counters);
        table.expect("packets pass it").chains[0].rules.iter().map(|rule| rule.hits).collect()
    };
    assert_eq!(counted(5), [hits(1), None, hits(2), None]);
    assert_eq!(counted(7), [None]);
}

/// `tproxy ip to :15001 accept`, to which `nft` adds no family test.
#[test]
fn tproxy_for_one_family_tests_the_family() {
    use super::{lift, listed::Interfaces};
    use rules::{Family, ListedCondition, nft::Condition};
    let asks = |family: u32, of_table: Option<Family>| {
        let expressions = vec![
            Expression::Immediate(Register::First, vec![0x3a, 0x99]),
            Expression::Tproxy(family),
            Expression::Verdict(EncodedVerdict::Accept),
        ];
        let rule = bytecode::EncodedRule { expressions, userdata: Vec::new() };
        let (table, interfaces) = (table(0), Interfaces::default());
        lift::rule(&rule, &lift::Context { family: of_table, table: &table, interfaces: &interfaces })
            .conditions
    };
    assert_eq!(asks(2, None), [ListedCondition::Nft(Condition::family(Family::V4))]);
    assert_eq!(asks(10, None), [ListedCondition::Nft(Condition::family(Family::V6))]);
    assert!(asks(0, None).is_empty());
    assert!(asks(2, Some(Family::V4)).is_empty());
}

#[test]
fn last_message_is_acknowledged() {
    let only_chain = bytecode::EncodedTable {
        chains: vec![bytecode::EncodedChain { rules: Vec::new(), ..table(0).chains.remove(0) }],
        ..table(3)
    };
    let only_sets = bytecode::EncodedTable { chains: Vec::new(), ..table(3) };
    let tables = [table(0), only_chain, only_sets, bytecode::EncodedTable::default()];
    let before = table(3);
    let jobs = tables
        .iter()
        .flat_map(|table| [BatchOperation::Create(table), BatchOperation::Exchange(&before, table)]);
    for job in jobs {
        let batch = Batch::new(&[job], 1, None);
        let flags: Vec<bool> =
            message::received(batch.messages.bytes()).map(|message| message.flags & NLM_F_ACK != 0).collect();
        let last = flags.len() - 2;
        assert!(flags.iter().enumerate().all(|(index, &flag)| flag == (index == last)), "{flags:?}");
    }
}

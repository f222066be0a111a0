//! Advice to drop settings without effect (items within other items, rules that no packet reaches), and the resulting edits.

use super::{Code, Finding, comparison::LintComparison};
use mesh::sources::{Given, Host, Raw, STAND_IN, SettingReader};
use mesh::{Capture, ListItem, RuleReason, Selector, Setting};
use rules::nft::{Condition, Field, Interval};
use rules::{Cidr, Family, Gid, Origin, Rule, Statement, Target, Uid, finding::Edit, simulate::Unreached};
use std::{cell::OnceCell, cmp::Reverse, collections::BTreeMap, io, net::IpAddr};

/// Removal of an option or of one of its items.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AdvisedChange {
    pub(crate) setting: Setting,
    /// Item of the option's list; `None` for the whole option.
    pub(crate) item: Option<Selector>,
    /// True to keep one of equal items.
    pub(crate) once: bool,
}

/// Finding about a setting without effect, and the setting's removal, which must not change any verdict.
#[derive(Clone, Debug)]
pub(super) struct Redundant {
    pub(super) finding: Finding,
    pub(super) change: AdvisedChange,
}

impl Redundant {
    pub(super) fn finding_with_edit(self, raw: &Raw) -> Finding {
        Finding { edit: self.change.edit(raw), ..self.finding }
    }
}

/// True if the list item `text` names the selector. Interfaces come first in an item, users last.
fn names(text: &str, selector: &Selector) -> bool {
    let text = text.trim();
    match selector {
        Selector::Destination(cidr) | Selector::Source(cidr) => {
            text.parse() == Ok(*cidr) || text.parse().map(Cidr::host).ok() == Some(*cidr)
        }
        Selector::OutboundPort(range, _) | Selector::InboundPort(range) => text.parse() == Ok(*range),
        Selector::Interface(name) | Selector::VmInterface(name) => {
            text.split(':').next().and_then(|text| text.parse().ok()).as_ref() == Some(name)
        }
        Selector::User(users) => {
            text.rsplit(':').next().and_then(|text| text.trim().parse().ok()) == Some(*users)
        }
        Selector::Group(gid) => text.parse::<u32>().ok() == Some(gid.number()),
        Selector::Server(address) => text.parse().ok() == Some(*address),
        Selector::Tunnel(_) => false,
    }
}

#[derive(Clone, Debug)]
pub(super) struct Configured {
    pub(super) capture: Capture,
    pub(super) raw: Raw,
    /// True if the settings alone determine the configuration; computed on demand by parsing them.
    is_complete: OnceCell<bool>,
}

impl Configured {
    pub(super) fn new(capture: Capture, raw: Raw) -> Self {
        Self { capture, raw, is_complete: OnceCell::new() }
    }

    fn is_complete(&self) -> bool {
        let read = || read(&self.raw, &Remembered(&self.capture)).as_ref() == Some(&self.capture);
        *self.is_complete.get_or_init(read)
    }
}

impl AdvisedChange {
    pub(crate) fn without_option(setting: Setting) -> Self {
        Self { setting, item: None, once: false }
    }

    pub(crate) fn without(ListItem { setting, selector, .. }: &ListItem) -> Self {
        Self { setting: *setting, item: Some(selector.clone()), once: false }
    }

    /// Configuration after the advice; `None` if the settings do not determine it.
    pub(super) fn follow(&self, configured: &Configured) -> Option<Configured> {
        if !configured.is_complete() {
            return None;
        }
        let raw = self.removed_from(&configured.raw)?;
        Some(Configured::new(read(&raw, &Remembered(&configured.capture))?, raw))
    }

    /// Advice as a new value of its setting; `None` if the given value does not name the item.
    pub(super) fn edit(&self, raw: &Raw) -> Option<Edit> {
        let after = self.removed_from(raw)?;
        let value = after.get(self.setting).map(|given| given.value.clone());
        Some(Edit { flag: self.setting.row().long, value: value.filter(|value| !value.trim().is_empty()) })
    }

    fn removed_from(&self, raw: &Raw) -> Option<Raw> {
        let Given { value, source } = raw.get(self.setting)?;
        let Some(item) = &self.item else { return Some(raw.clone().without(self.setting)) };
        // User items are lists themselves.
        let separator = if matches!(item, Selector::User(_)) { ";" } else { "," };
        let mut kept = !self.once;
        let mut is_removed = |text: &&str| names(text, item) && std::mem::replace(&mut kept, true);
        let items: Vec<&str> = value.split(separator).collect();
        let rest: Vec<&str> = items.iter().copied().filter(|text| !is_removed(text)).collect();
        let given = Given { value: rest.join(separator), source: source.clone() };
        (rest.len() < items.len()).then(|| Raw::of([(self.setting, given)]).over(raw.clone()))
    }
}

fn read(raw: &Raw, host: &dyn Host) -> Option<Capture> {
    let mut reader = SettingReader::new(raw, Vec::new());
    let capture = mesh::configure(&mut reader, host, false);
    reader.finish().ok().map(|_| capture)
}

/// Host reconstructed from a configuration; it suffices if the settings, parsed with it, give the same configuration.
struct Remembered<'a>(&'a Capture);

impl Host for Remembered<'_> {
    fn user(&self, _: &str) -> io::Result<Option<Uid>> {
        Ok(self.0.proxy().uids.first().copied())
    }

    fn has_user(&self, uid: Uid) -> io::Result<bool> {
        Ok(self.0.proxy().uids.contains(&uid))
    }

    fn group(&self, _: &str) -> io::Result<Option<Gid>> {
        Ok(self.0.proxy().gids.first().copied())
    }

    /// Placeholders, one per captured family; the first one may enable IPv6.
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let v6 = self.0.ipv6().then_some(STAND_IN.1.into());
        Ok(v6.into_iter().chain([STAND_IN.0.into()]).collect())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        let server = |listed: ListItem| match listed.selector {
            Selector::Server(address) => Some(address),
            _ => None,
        };
        Ok(self.0.lists().into_iter().filter_map(server).collect())
    }

    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        let rules = self.0.rules(family);
        let leads = |statement: &Statement| matches!(&statement.rule.target, Target::JumpForeign(chain) if chain.as_str() == name);
        Ok(rules.rules().statements.iter().any(leads))
    }

    fn name_servers_in(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.name_servers()
    }
}

pub(super) fn overlaps(lists: &[ListItem]) -> Vec<Redundant> {
    let mut of_fields: BTreeMap<(Setting, Field), Vec<(&ListItem, Interval)>> = BTreeMap::new();
    for listed in lists {
        let condition = listed.selector.condition();
        let is_compared = condition.field.is_port() || condition.field.family().is_some();
        if let Some(values) = condition.values.single().filter(|_| is_compared) {
            of_fields.entry((listed.setting, condition.field)).or_default().push((listed, values));
        }
    }
    of_fields.values().flat_map(|items| covered(items)).collect()
}

/// Items contained in another item, in order; of equal items, the later.
fn covered(items: &[(&ListItem, Interval)]) -> Vec<Redundant> {
    let values = |at: usize| items[at].1;
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| (values(*at).first, Reverse(values(*at).last), *at));
    let mut widest: Option<usize> = None;
    let mut found: Vec<(usize, usize)> = Vec::new();
    for at in order {
        match widest {
            Some(wide) if values(at).last <= values(wide).last => found.push((at, wide)),
            Some(_) | None => widest = Some(at),
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(at, wide)| redundant(items[at].0, items[wide].0)).collect()
}

fn redundant(listed: &ListItem, wide: &ListItem) -> Redundant {
    let (item, once) = (&listed.selector, listed == wide);
    let (text, remedy) = match once {
        true => (format!("lists {item} twice"), format!("list {item} once")),
        false => (format!("lists {item}, which {} contains", wide.selector), format!("drop {item}")),
    };
    let finding = Finding::warning(Code::CoveredItem, &listed.setting.row().mention(), text, remedy);
    Redundant { finding, change: AdvisedChange { once, ..AdvisedChange::without(listed) } }
}

/// List items by setting name and rule condition.
pub(super) struct ItemsByCondition<'a>(BTreeMap<(&'static str, Condition), &'a ListItem>);

impl<'a> ItemsByCondition<'a> {
    pub(super) fn of(lists: &'a [ListItem]) -> Self {
        let key = |listed: &ListItem| (listed.setting.row().name(), listed.selector.condition());
        // The first of equal items wins.
        Self(lists.iter().rev().map(|listed| (key(listed), listed)).collect())
    }

    pub(super) fn that_makes(&self, origin: Origin, rule: &Rule) -> Option<&'a ListItem> {
        let field = origin.item?;
        let criterion = rule.matches.iter().find(|criterion| criterion.field() == Some(field))?;
        self.0.get(&(origin.option, criterion.condition()?)).copied()
    }
}

/// Unreachable rules whose list item can be dropped.
pub(super) fn unreachable(
    comparison: &mut LintComparison<'_>,
    items: &ItemsByCondition<'_>,
) -> Vec<Redundant> {
    let redundant = |Unreached { rule, by }: Unreached<'_>| {
        let (origin, by_origin) = (rule.origin?, by.origin?);
        let item = items.that_makes(origin, &rule.rule)?;
        let is_by_itself = items.that_makes(by_origin, &by.rule) == Some(item);
        let finding = finding(origin, &item.selector, &rule.rule, &by.rule, by_origin);
        (!is_by_itself).then(|| Redundant { finding, change: AdvisedChange::without(item) })
    };
    comparison.unreached().into_iter().filter_map(redundant).collect()
}

fn mention(origin: Origin) -> String {
    RuleReason::setting_of(origin).map_or_else(|| origin.option_text(), |setting| setting.row().mention())
}

fn finding(origin: Origin, item: &Selector, rule: &Rule, first: &Rule, by: Origin) -> Finding {
    let option = mention(by);
    let otherwise = match by.option {
        "" => String::new(),
        _ if by.option == origin.option => String::new(),
        _ => format!(", or remove it from {option} if it should take effect"),
    };
    Finding::warning(
        Code::Unreachable,
        &mention(origin),
        format!("the rule `{rule}` is never reached: `{first}` ({option}) comes first"),
        format!("drop {item}{otherwise}"),
    )
}

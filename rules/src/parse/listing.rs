//! The text of `iptables-save` as a [`Listing`]: all tables, all rules, each as far as it is understood.

use super::{ParseError, chain, line::Entry, loose, read_tables};
use crate::{Family, Layer, Listing, Policy, Position};

/// What `iptables-save` of this family printed, whoever made the rules.
///
/// # Errors
/// The first line that is none of such a listing.
pub fn listing(text: &str, family: Family) -> Result<Listing, ParseError> {
    let mut listing = Listing::empty(family);
    let named = |name: &str| Layer::ALL.into_iter().find(|layer| layer.name() == name);
    read_tables(text, named, |layer, entry| {
        let Some(layer) = layer else { return Ok(()) };
        let (Entry::Chain { chain: name, .. } | Entry::Rule { chain: name, .. }) = &entry;
        // Whatever leads to a chain of another name is unknown, so that leaving it out is no guess.
        let Ok(chain) = chain(name) else { return Ok(()) };
        match entry {
            Entry::Chain { drops, .. } => {
                let policy = if drops { Policy::Drop } else { Policy::Accept };
                listing.chains.entry((layer, chain)).or_default().policy = policy;
            }
            Entry::Rule { position, words, text, .. } => {
                let rules = &mut listing.chains.entry((layer, chain)).or_default().rules;
                let rule = loose::rule(&words, text, family);
                match position {
                    Position::Append => rules.push(rule),
                    Position::Insert(number) => rules.insert((number - 1).min(rules.len()), rule),
                }
            }
        }
        Ok(())
    })?;
    Ok(listing)
}

//! Lists as annotations and values hold them: ports, networks, interfaces; checked by the policy, and typed.

use mesh::settings::mapping::AnnotationForm;
use mesh::sources::Wildcard;
use rules::InterfaceName;
use std::{fmt, net::IpAddr};

/// A network as it was written, with its host bits, which the rules interpret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub address: IpAddr,
    /// Of the prefix, in bits.
    pub length: u8,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// The most items of a list in an annotation, such as ports: far more than an application listens at, and few enough
/// for each to become a rule. The API server limits annotations (to 256 KiB) only after it has called webhooks.
const MAX_ITEMS: usize = 16_384;

/// The complaint about a list that is too long.
pub(crate) fn excess(text: &str) -> Option<String> {
    let items = text.split(',').count();
    (items > MAX_ITEMS).then(|| format!("holds {items} items; expected at most {MAX_ITEMS}"))
}

/// The item at fault and what is wrong with it.
pub(crate) type Faults = Vec<(String, String)>;

/// A comma-separated list whose items `read` reads.
pub(crate) fn listed<T>(
    text: &str,
    form: AnnotationForm,
    read: fn(&str) -> Option<T>,
) -> Result<Wildcard<T>, Faults> {
    let faults = form.faults(text);
    if !faults.is_empty() {
        return Err(faults.into_iter().map(|(item, text)| (item.to_owned(), text)).collect());
    }
    match text.trim() {
        "" => Ok(Wildcard::Items(Vec::new())),
        "*" => Ok(Wildcard::All),
        // The form has taken each of them, so that none is lost.
        text => Ok(Wildcard::Items(text.split(',').filter_map(|item| read(item.trim())).collect())),
    }
}

/// A list for which `*` is not valid.
pub(crate) fn items<T>(list: Wildcard<T>) -> Vec<T> {
    match list {
        Wildcard::All => Vec::new(),
        Wildcard::Items(items) => items,
    }
}

pub(crate) fn port(item: &str) -> Option<u16> {
    item.parse().ok()
}

pub(crate) fn network(item: &str) -> Option<Network> {
    let (address, length) = item.split_once('/')?;
    Some(Network { address: address.parse().ok()?, length: length.parse().ok()? })
}

pub(crate) fn interface(item: &str) -> Option<InterfaceName> {
    item.parse().ok()
}

/// The list as an argument or an annotation holds it.
pub(crate) fn written<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// The same of a list that may be everything.
pub(crate) fn written_or_all<T: fmt::Display>(list: &Wildcard<T>) -> String {
    match list {
        Wildcard::All => "*".to_owned(),
        Wildcard::Items(items) => written(items),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_millions_of_faults_the_first_are_returned() {
        let commas = ",".repeat(2_000_000);
        let faults = listed(&commas, AnnotationForm::PortsOrAll, port).expect_err("empty items");
        assert_eq!(faults.len(), mesh::Problems::MAX_ITEMS);
    }
}

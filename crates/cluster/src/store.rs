//! Objects by key, as last reported by the API server. A new list replaces them only once it is complete.

use kube::runtime::watcher::Event;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Store<K, T> {
    known: BTreeMap<K, T>,
    listing: BTreeMap<K, T>,
    is_listed: bool,
}

impl<K, T> Default for Store<K, T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: BTreeMap::new(), is_listed: false }
    }
}

impl<K: Clone + Ord, T> Store<K, T> {
    /// Applies an event, whose objects `read` parses. Returns the keys that may have changed, with their previous values.
    pub fn take<O>(
        &mut self,
        event: Event<O>,
        read: impl FnOnce(O) -> Option<(K, T)>,
    ) -> Vec<(K, Option<T>)> {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => self.listing.extend(read(object)),
            Event::InitDone => {
                self.is_listed = true;
                let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.listing));
                let new = self.known.keys().filter(|key| !before.contains_key(key));
                let new: Vec<_> = new.map(|key| (key.clone(), None)).collect();
                return before.into_iter().map(|(key, value)| (key, Some(value))).chain(new).collect();
            }
            Event::Apply(object) => {
                let entry = read(object).into_iter();
                return entry.map(|(key, value)| (key.clone(), self.known.insert(key, value))).collect();
            }
            Event::Delete(object) => {
                let gone = read(object).and_then(|(key, _)| self.known.remove_entry(&key));
                return gone.map(|(key, value)| (key, Some(value))).into_iter().collect();
            }
        }
        Vec::new()
    }

    pub fn known(&self) -> &BTreeMap<K, T> {
        &self.known
    }

    pub fn is_listed(&self) -> bool {
        self.is_listed
    }
}

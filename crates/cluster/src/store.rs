//! Objects by key, as the API server last listed and changed them.
//!
//! A new list replaces what was known when it is complete, and not before.

use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Store<K, T> {
    known: BTreeMap<K, T>,
    /// The list that is not complete yet.
    listing: BTreeMap<K, T>,
    is_listed: bool,
}

impl<K, T> Default for Store<K, T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: BTreeMap::new(), is_listed: false }
    }
}

impl<K: Ord, T> Store<K, T> {
    pub fn begin(&mut self) {
        self.listing.clear();
    }

    pub fn list(&mut self, key: K, value: T) {
        self.listing.insert(key, value);
    }

    /// The list is complete. Returns what was known before.
    pub fn complete(&mut self) -> BTreeMap<K, T> {
        self.is_listed = true;
        std::mem::replace(&mut self.known, std::mem::take(&mut self.listing))
    }

    pub fn insert(&mut self, key: K, value: T) -> Option<T> {
        self.known.insert(key, value)
    }

    pub fn remove(&mut self, key: &K) -> Option<T> {
        self.known.remove(key)
    }

    pub fn known(&self) -> &BTreeMap<K, T> {
        &self.known
    }

    pub fn is_listed(&self) -> bool {
        self.is_listed
    }
}

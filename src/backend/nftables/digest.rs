//! Digests that tell a table as it was written from one edited since.

use super::bytecode::{Element, EncodedChain, EncodedSet, EncodedTable};
use super::{batch::Batch, record::TableRecord};
use rules::desired::Made;

impl EncodedTable {
    #[must_use]
    pub fn with_record(self, made: Option<&Made>) -> Self {
        let record = made.map(|made| Box::new(TableRecord::of(made, &self)));
        Self { record, ..self }
    }

    /// `None` where there is no record.
    pub fn is_as_made(&self) -> Option<bool> {
        self.record.as_ref().map(|record| record.rules_digest == rules_digest(self))
    }
}

impl TableRecord {
    pub(super) fn of(made: &Made, table: &EncodedTable) -> Self {
        let settings_digest = Digest::of(made.settings.as_bytes()).hexadecimal();
        let made = made.clone();
        let settings = Some(made.settings.clone());
        Self { made, settings, settings_digest, rules_digest: rules_digest(table) }
    }
}

/// A digest of all that a table says: in the kernel's own encoding, which no version of ours can change, and the keys of
/// sets. The order of sets and chains is of no consequence, and so is the record.
fn rules_digest(table: &EncodedTable) -> String {
    let mut sets: Vec<&EncodedSet> = table.sets.iter().collect();
    sets.sort_by(|one, other| one.name.cmp(&other.name));
    let mut chains: Vec<&EncodedChain> = table.chains.iter().collect();
    chains.sort_by(|one, other| one.name.cmp(&other.name));
    // Elements can be many, and their keys say all: they are not encoded once more.
    let without_elements = |set: &&EncodedSet| {
        let EncodedSet { key_type, key_length, flags, others, .. } = **set;
        let (elements, verdicts) = (Vec::new(), Vec::new());
        EncodedSet { name: set.name.clone(), key_type, key_length, flags, elements, others, verdicts }
    };
    let bare: Vec<EncodedSet> = sets.iter().map(without_elements).collect();
    let mut digest = Digest::default();
    digest.take(Batch::content((&table.name, table.flags), &bare, chains).bytes());
    for set in sets {
        digest.step(set.elements.len() as u64);
        for Element { key, is_end } in &set.elements {
            digest.take(key);
            digest.step((*is_end).into());
        }
    }
    digest.hexadecimal()
}

/// FNV-1a of 64 bits, eight bytes a step: it detects edits, and does not prevent forgery.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn of(bytes: &[u8]) -> Self {
        let mut digest = Self::default();
        digest.take(bytes);
        digest
    }

    fn take(&mut self, bytes: &[u8]) {
        self.step(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            self.step(u64::from_le_bytes(eight));
        }
    }

    fn step(&mut self, word: u64) {
        const PRIME: u64 = 0x0100_0000_01b3;
        self.0 = (self.0 ^ word).wrapping_mul(PRIME);
        // What is high comes down, or the last bits would know of few bytes.
        self.0 ^= self.0 >> 29;
    }

    fn hexadecimal(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn a_digest_knows_every_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        let whole = Digest::of(&bytes).0;
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(Digest::of(&other).0, whole, "{at}");
        }
        assert_ne!(Digest::of(&[0]).0, Digest::of(&[0, 0]).0);
    }
}

//! One table's step from one state to another, taken by the kernel as a whole.

use crate::{Chain, ChainName, ListedRule, Table};

/// What to do in a table. The parts take effect in the order of the fields, in one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChange {
    pub table: Table,
    /// Chains of ours to create or to give these rules instead of those they have.
    pub replace: Vec<(ChainName, Vec<ListedRule>)>,
    /// Rules of ours to delete from chains that are not ours, by what they say, never by number: a number
    /// could mean another rule by the time it is used.
    pub delete: Vec<(Chain, ListedRule)>,
    /// Rules of ours to insert into base chains at these positions, counted from 1.
    pub insert: Vec<(Chain, usize, ListedRule)>,
    /// Chains of ours to empty and remove.
    pub remove: Vec<ChainName>,
}

impl TableChange {
    pub fn is_empty(&self) -> bool {
        self.replace.is_empty() && self.delete.is_empty() && self.insert.is_empty() && self.remove.is_empty()
    }
}

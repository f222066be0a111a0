//! Why a rule is there, of whichever mesh.
//!
//! Each policy has a table of its reasons, written by the macro `reasons!`: a row a reason, with a name that no other
//! mesh's reason has. Explanations, reports and counters work with [`Reason`], which is a row of any table, and go
//! by what such a rule does ([`Meaning`]); they know no mesh. Inside of a policy's folder the same rows are an enum, which
//! its rules name.

mod meaning;
mod row;

pub use meaning::{About, Effect, Meaning, Phrase, Row as MeaningRow};
pub(crate) use row::reasons;
pub use row::{Reason, Row};

use crate::limit::{Caution, Limit};
use crate::recognition::{RecognizedRule, Role, RuleContext};
use crate::settings::Setting;
use rules::Family;

/// What is known of a mesh's rules, beside what each carries.
pub trait Reasons {
    /// The reasons, in the order of their names.
    fn rows(&self) -> &'static [Row];

    /// The chains of iptables that the mesh's rules lead to, in capitals, each with what it is for.
    fn chains(&self) -> &'static [(&'static str, Role)];

    /// Who answers captured DNS queries.
    fn resolver(&self) -> &'static str {
        "the proxy"
    }

    /// What its rules do, or leave undone, though people expect otherwise.
    fn limits(&self) -> &'static [Limit] {
        &[]
    }

    /// What to know of settings that work as they are given.
    fn cautions(&self) -> &'static [Caution] {
        &[]
    }

    /// What to do where rules capture one family, and the pod has addresses of this one, too.
    fn remedy_of_gap(&self, family: Family) -> &'static str;

    /// Why a rule of iptables, or of the predecessor's, is there: by its comment where that shows it, else by its chain, by
    /// its conditions and by its target.
    fn read(&self, context: &RuleContext<'_>) -> Option<Reason>;

    /// Of several settings that make such rules, the one that this rule shows.
    fn setting(&self, _reason: Reason, _context: &RuleContext<'_>) -> Option<Setting> {
        None
    }

    /// Whether a rule of a chain that the kernel calls is the mesh's, of those that lead to no chain of it and carry no
    /// comment of it.
    fn owns(&self, _context: &RuleContext<'_>) -> bool {
        false
    }

    /// Mends what was read of each rule by what all together show.
    fn settle(&self, _all: &mut [RecognizedRule<'_>]) {}
}

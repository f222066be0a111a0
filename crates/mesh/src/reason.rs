//! The reason of a rule, of any mesh.
//!
//! Each policy has a table of its reasons, written by the macro `reasons!`: a row a reason, with a name that no other
//! mesh's reason has. Explanations, reports and counters work with [`RuleReason`], which is a row of any table, and go
//! by what such a rule does ([`Meaning`]); they know no mesh. Inside of a policy's folder the same rows are an enum, which
//! its rules name.

mod meaning;
mod row;

pub use meaning::{Meaning, MeaningRow, Phrase};
pub(crate) use row::{Cause, reasons};
pub use row::{ReasonRow, RuleReason};

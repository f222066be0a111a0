//! Front end for a web page, without a kernel: takes a command line, a pod's manifest and a packet, and returns the answer.
//! The binary's own crates read the settings and answer, so the page shows the same output.

mod answer;
mod compared;
mod fields;
mod findings;
mod interface;
mod link;
mod words;

pub use answer::{PageAnswer, PagePacket, PageVerdict, PodSection, answer};
pub use compared::{PodChanges, VerdictChange};
pub use fields::{FieldProblems, PageRequest};
pub use findings::{FieldFix, PageFinding};
pub use link::Link;

//! Rules for a web page: words of a call, a pod's manifest and a question about a packet go in, the answer comes out.
//!
//! Another front end beside those of the binary, for a machine that has no kernel to ask. It holds no knowledge of its
//! own: how settings are read and answered is the policy's, so that the page shows what the binary prints.

mod answer;
mod compared;
mod edit;
mod fields;
mod findings;
mod interface;
mod link;
mod packets;
mod words;

pub use answer::{PageAnswer, PageVerdict, PodSection, answer};
pub use compared::{PodChanges, VerdictChange};
pub use fields::{FieldProblems, PageRequest};
pub use findings::{FieldFix, PageFinding};
pub use link::Link;
pub use packets::PagePacket;

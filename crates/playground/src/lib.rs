//! Rules for a web page: the words of a call, a pod's manifest and a packet go in, the answer comes out. A front end beside those
//! of the binary, without a kernel. Settings are read and answered by the policy crate, so that the page shows the binary's
//! output.

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

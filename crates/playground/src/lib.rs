//! Front end for a web page, without a kernel: the words of a call, a pod's manifest and a packet go in, the answer comes out. The
//! policy crate reads the settings and answers, so that the page shows the binary's output.

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

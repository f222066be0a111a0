//! What a web page knows of rules: words of a call, a pod's manifest and a question about a packet go in, all that is to
//! be shown comes out.
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
mod request;
mod styles;
mod tables;
mod words;

pub use answer::{Answer, Arrow, Arrows, Part, Verdict, answer};
pub use compared::{Changed, Compared, Ended};
pub use fields::Told;
pub use findings::{Fix, Shown};
pub use link::Link;
pub use request::Request;
pub use styles::Span;
pub use tables::{Cases, Cell, Meaning, Packet, Row, Table};

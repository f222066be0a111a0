//! From what was said to what is meant.
//!
//! Data flows through once: flags and variables become a [`Raw`], which [`resolve`] turns into a
//! [`Resolved`] or into all its problems at once. Nothing here changes anything; what has to be asked of
//! the machine goes through [`Host`].

mod capture;
pub mod duration;
mod host;
mod names;
mod problem;
mod raw;
mod reader;
mod resolve;
mod run;
mod setting;

pub use capture::{
    CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups, PROXY_MARK, RouteTable,
};
pub use host::Host;
pub use problem::{Problem, Problems};
pub use raw::{Given, Raw, Source, text};
pub use resolve::{Resolved, resolve, resolve_run};
pub use run::{BackendChoice, Format, Logging, Mode, Preview, Run, Validation, VariantChoice};
pub use setting::{Kind, Row, Setting, TABLE, Topic};

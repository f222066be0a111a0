//! Typed netfilter rules: the vocabulary of `sidecar-init`, without I/O, environment, clock or logging. Types validate single
//! rules, [`check`] validates sets; text exists only at the borders ([`render`], [`parse`]).
#![forbid(unsafe_code)]

pub mod bridge;
pub mod check;
pub mod desired;
pub mod drift;
pub mod field;
pub mod finding;
mod hook;
pub mod inheritance;
mod intervals;
mod listed;
pub mod listing;
pub mod matches;
pub mod model;
pub mod name;
pub mod net;
pub mod nft;
pub mod number;
mod ownership;
pub mod parse;
pub mod plan;
pub mod render;
pub mod report;
pub mod routing;
pub mod saved;
pub mod simulate;
pub mod state;
pub mod target;
pub mod version;

pub use check::Checked;
pub use hook::{Hook, Table};
pub use listed::{Action, Foreign, ListedCondition, ListedRule, Policy};
pub use listing::{ListedChain, Listing, PrintedRule};
pub use matches::{ConnState, ConnStates, Match, Negatable, Protocol};
pub use model::{Chain, Origin, Position, Rule, RuleSet, Statement, TrafficEffect};
pub use name::{ChainName, Comment, InterfaceName, LogLevel, LogPrefix, NameError};
pub use net::{ByFamily, Cidr, CidrError, Family};
pub use number::{Gid, Mark, NumberError, Port, PortRange, PortSet, Range, Uid, UidRange, Zone};
pub use ownership::{Chains, Ownership, Pattern, PolicyRules, Predecessor, Proof};
pub use report::Hits;
pub use state::{State, TableChange};
pub use target::{Target, WriteSet};
pub use version::Version;

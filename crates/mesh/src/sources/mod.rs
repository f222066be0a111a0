//! Flags and variables become a [`Raw`], which a [`SettingReader`]
//! turns into values, collecting problems and warnings.

mod dialect;
pub mod duration;
mod host;
mod names;
pub mod pflag;
mod raw;
mod reader;
mod remote;

pub use dialect::Dialect;
pub use host::{Host, NullHost, STAND_IN, name_servers};
pub(crate) use names::Names;
pub use raw::{Given, Raw, Source, boolean, text};
pub use reader::{SettingReader, Wildcard};
pub use remote::RemoteHost;

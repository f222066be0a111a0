//! Flags and variables become a [`Raw`], which a [`SettingReader`] turns into values, collecting problems and warnings.

mod dialect;
pub mod duration;
mod host;
pub mod keys;
mod origin;
pub mod pflag;
mod raw;
mod reader;

pub use dialect::Dialect;
pub use host::{Host, NullHost, RemoteHost, STAND_IN, name_servers};
pub use origin::{ObjectPlace, PodOrigin};
pub use raw::{Given, Raw, Source, boolean, text};
pub(crate) use reader::Names;
pub use reader::SettingReader;

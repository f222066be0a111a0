//! Why an installation, or its removal, fails.

use std::{io, net::SocketAddr, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("{} is not a directory; {flag} names the one that the runtime reads", .folder.display())]
    NoFolder { folder: PathBuf, flag: &'static str },
    #[error("the entry can't be put into, or taken out of, the network configurations in {}", .0.display())]
    Configurations(PathBuf, #[source] io::Error),
    #[error("the program can't be put into, or taken out of, {}", .0.display())]
    Programs(PathBuf, #[source] io::Error),
    #[error("another install is at work in {}; end it first", .0.display())]
    Busy(PathBuf),
    #[error("{0} can't be served at")]
    Serve(SocketAddr, #[source] io::Error),
    #[error("{} can't be written (--ready-file)", .0.display())]
    ReadyFile(PathBuf, #[source] io::Error),
    #[error("folders can't be watched")]
    Watch(#[source] io::Error),
    #[error("{} was removed while it was watched", .0.display())]
    Removed(PathBuf),
    #[error("nothing to install into has come in time: {0}")]
    Late(String),
    #[error("asked to end before there was anything to install into")]
    Ended,
}

//! Why the server has no certificate to show.

use crate::serve::tls;

/// Why a certificate can't be made or shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no certificate can be made")]
    Make(#[source] rcgen::Error),
    #[error("a certificate just made can't be shown")]
    Show(#[source] tls::Refused),
}

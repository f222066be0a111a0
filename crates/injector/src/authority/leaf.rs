//! The server's own certificate: for which names, and when the next one is due.
//!
//! It is made by each replica for itself and never stored, so its key leaves no process.

use super::ca::{Ca, Life};
use crate::serve::tls::{IdentityError, ServerIdentity};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::{sync::Arc, time::Duration};

#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) life: Life,
}

/// The names by which a Service is called; the API server uses the one that ends in `svc`
/// (`ServerName` of `k8s.io/apiserver/pkg/util/webhook`).
pub(super) fn names(service: &str, namespace: &str) -> Vec<String> {
    let short = format!("{service}.{namespace}.svc");
    vec![
        short.clone(),
        format!("{short}.cluster.local"),
        format!("{service}.{namespace}"),
        service.to_owned(),
    ]
}

#[derive(Debug)]
pub(super) struct ServedLeaf {
    pub(super) identity: Arc<ServerIdentity>,
    signer: CertificateDer<'static>,
    life: Life,
}

impl ServedLeaf {
    /// When the next one is due: after two thirds of this one's life, or at once if another authority signs now.
    pub(super) fn due(&self, signer: &Ca) -> i64 {
        if self.signer == signer.trusted.der { self.life.part(2, 3) } else { i64::MIN }
    }
}

/// Why a certificate can't be made or shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeafError {
    #[error("no certificate can be made")]
    Make(#[source] rcgen::Error),
    #[error("a certificate just made can't be shown")]
    Show(#[source] IdentityError),
}

/// Shows a new certificate if one is due. Open connections keep the one that they were opened with.
pub(super) fn refresh(
    shown: &mut Option<ServedLeaf>,
    signer: &Ca,
    names: &[String],
    now: i64,
    lifetime: Duration,
) -> Result<bool, LeafError> {
    if shown.as_ref().is_some_and(|shown| now < shown.due(signer)) {
        return Ok(false);
    }
    let Leaf { chain, key, life } = signer.sign(names, now, lifetime).map_err(LeafError::Make)?;
    let identity = match shown {
        Some(ServedLeaf { identity, .. }) => identity.set(chain, key).map(|()| Arc::clone(identity)),
        None => ServerIdentity::new(chain, key),
    };
    let identity = identity.map_err(LeafError::Show)?;
    *shown = Some(ServedLeaf { identity, signer: signer.trusted.der.clone(), life });
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_certificate_is_exchanged_before_it_ends_and_when_another_signs() {
        let names = names("injector", "mesh");
        assert_eq!(
            names,
            ["injector.mesh.svc", "injector.mesh.svc.cluster.local", "injector.mesh", "injector"]
        );
        let now = 1_795_305_600;
        let (one, two) = (Ca::make(now, 48 * HOUR), Ca::make(now, 48 * HOUR));
        let (one, two) = (one.expect("an authority"), two.expect("an authority"));
        let mut shown = None;
        let mut at = |signer: &Ca, after: i64| {
            refresh(&mut shown, signer, &names, now + after, HOUR).expect("a certificate")
        };
        let exchanged =
            [(&one, 0), (&one, 2399), (&one, 2400), (&one, 4799), (&two, 4799), (&two, 4800), (&two, 7199)];
        let exchanged = exchanged.map(|(signer, after)| at(signer, after));
        assert_eq!(exchanged, [true, false, true, false, true, false, true]);
        assert_eq!(shown.expect("a certificate").identity.expires(), now + 7199 + 3600);
    }
}

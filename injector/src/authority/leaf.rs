//! The server's own certificate: for which names, and when the next one is due.
//!
//! It is made by each replica for itself and never stored, so its key leaves no process.

use super::ca::{Ca, Life};
use crate::serve::tls::{Identity, Refused};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{sync::Arc, time::Duration};

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// PKCS #8.
    pub(super) key: Vec<u8>,
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

/// What the server shows at present.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) identity: Arc<Identity>,
    /// Who has signed it.
    signer: CertificateDer<'static>,
    life: Life,
}

impl Shown {
    /// The first one.
    pub(super) fn first(signer: &Ca, leaf: Leaf) -> Result<Self, Refused> {
        let life = leaf.life;
        let (chain, key) = leaf.parts();
        Ok(Self { identity: Identity::new(chain, key)?, signer: signer.trusted.der.clone(), life })
    }

    /// The next one. Connections that are open stay as they are.
    pub(super) fn next(&mut self, signer: &Ca, leaf: Leaf) -> Result<(), Refused> {
        let life = leaf.life;
        let (chain, key) = leaf.parts();
        self.identity.set(chain, key)?;
        (self.signer, self.life) = (signer.trusted.der.clone(), life);
        Ok(())
    }

    /// When the next one is due: after two thirds of this one's life, or at once if another authority signs now.
    pub(super) fn due(&self, signer: &Ca) -> i64 {
        if self.signer == signer.trusted.der { self.life.part(2, 3) } else { i64::MIN }
    }
}

impl Leaf {
    fn parts(self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (self.chain, PrivatePkcs8KeyDer::from(self.key).into())
    }
}

/// Shows a new certificate if one is due.
pub(super) fn refresh(
    shown: &mut Option<Shown>,
    signer: &Ca,
    names: &[String],
    now: i64,
    lifetime: Duration,
) -> Result<bool, super::Failure> {
    if shown.as_ref().is_some_and(|shown| now < shown.due(signer)) {
        return Ok(false);
    }
    let leaf = signer.sign(names, now, lifetime).map_err(super::Failure::Make)?;
    match shown {
        Some(shown) => shown.next(signer, leaf).map_err(super::Failure::Show)?,
        None => *shown = Some(Shown::first(signer, leaf).map_err(super::Failure::Show)?),
    }
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

//! The Secret that holds the authorities, so that replicas share them and a restart keeps them.
//!
//! | key | holds |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that signs |
//! | `next.crt`, `next.key` | the one that will sign, if it is announced |
//! | `previous.crt` | those that have signed and have not ended |

use super::{
    ca::{Ca, CaError, read_all},
    rotation::Authorities,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::ObjectMeta;
use std::collections::BTreeMap;

/// Why a Secret's content can't be used.
#[derive(Debug, thiserror::Error)]
#[error("key {key}")]
pub(super) struct Damaged {
    key: String,
    #[source]
    source: CaError,
}

/// The authorities of a Secret; none if it holds nothing yet.
pub(super) fn read(secret: &Secret) -> Result<Option<Authorities>, Damaged> {
    let data = secret.data.as_ref();
    let bytes = |key: &str| data.and_then(|data| data.get(key)).map_or(&[][..], |bytes| &bytes.0);
    if data.is_none_or(BTreeMap::is_empty) {
        return Ok(None);
    }
    let pair = |certificate: &str, key: &str| {
        Ca::read(bytes(certificate), bytes(key))
            .map_err(|source| Damaged { key: format!("{certificate} or {key}"), source })
    };
    let has_next = !bytes("next.crt").is_empty();
    let previous = read_all(bytes("previous.crt"));
    Ok(Some(Authorities {
        current: pair("ca.crt", "ca.key")?,
        next: has_next.then(|| pair("next.crt", "next.key")).transpose()?,
        previous: previous.map_err(|source| Damaged { key: "previous.crt".to_owned(), source })?,
    }))
}

/// The Secret for authorities. Written over the one that was read, it keeps that one's version: the second writer is refused.
pub(super) fn write(authorities: &Authorities, name: &str, over: Option<&Secret>) -> Secret {
    let mut secret = over.cloned().unwrap_or_else(|| Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Secret::default()
    });
    secret.metadata.managed_fields = None;
    let mut data = BTreeMap::new();
    let mut put = |key: &str, text: String| data.insert(key.to_owned(), ByteString(text.into_bytes()));
    let (certificate, key) = authorities.current.pem();
    put("ca.crt", certificate);
    put("ca.key", key);
    if let Some(next) = &authorities.next {
        let (certificate, key) = next.pem();
        put("next.crt", certificate);
        put("next.key", key);
    }
    if !authorities.previous.is_empty() {
        put("previous.crt", authorities.previous.iter().map(super::ca::Trusted::pem).collect());
    }
    secret.data = Some(data);
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::rotation::step;
    use std::time::Duration;

    #[test]
    fn what_is_stored_is_read_at_each_stage() {
        let (mut known, now) = (None, 1_795_305_600);
        for (after, keys) in [(0, 2), (200, 4), (210, 3), (401, 4), (420, 3)] {
            while step(&mut known, now + after, Duration::from_secs(300), true).expect("keys").is_some() {}
            let kept = known.as_ref().expect("authorities");
            let secret = write(kept, "certificates", None);
            assert_eq!(secret.data.as_ref().map(BTreeMap::len), Some(keys), "{after}");
            let read = read(&secret).expect("usable").expect("authorities");
            assert_eq!(read.bundle(), kept.bundle());
            assert_eq!(read.current.pem(), kept.current.pem());
        }
    }

    #[test]
    fn nothing_is_no_mistake_and_half_is_one() {
        assert!(read(&Secret::default()).expect("usable").is_none());
        let mut known = None;
        step(&mut known, 1_795_305_600, Duration::from_secs(300), true).expect("keys");
        let mut secret = write(&known.expect("authorities"), "certificates", None);
        let data = secret.data.as_mut().expect("data");
        data.remove("ca.key");
        assert_eq!(read(&secret).expect_err("half of it").to_string(), "key ca.crt or ca.key");
    }
}

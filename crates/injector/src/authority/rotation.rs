//! Steps of an authority: creation, announcement, signing and removal. Reads no clock: times are arguments.
//!
//! ```text
//!   born                 two thirds                           ends
//!   |--- signs ----------|--- signs, the next is announced -|    (trusted until it ends)
//!                        |-- announced --|--- signs ------------------------ ...
//! ```
//!
//! Callers have to trust an authority before it signs. So the next one is announced in the bundle, and signs only once all
//! webhooks are known to have the bundle. The previous one is trusted until it expires.

use super::ca::{Ca, CaError, Trusted, read_all};
use cluster::error::describe;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::ObjectMeta;
use std::{collections::BTreeMap, time::Duration};

#[derive(Debug)]
pub(crate) struct Authorities {
    pub(super) current: Ca,
    pub(super) next: Option<Ca>,
    /// Authorities whose certificates may still be in use.
    pub(super) previous: Vec<Trusted>,
}

/// Steps, as logged. The first step makes an authority if none can sign.
pub(super) const BEGUN: &str = "a CA is created";
pub(super) const ANNOUNCED: &str = "the next CA is announced";
pub(super) const EXCHANGED: &str = "the next CA signs now";
pub(super) const FORGOTTEN: &str = "an expired CA is removed";

impl Authorities {
    /// Certificates that callers must trust, oldest first: an exchange of signers changes nothing.
    pub(crate) fn bundle(&self) -> String {
        let mut all: Vec<&Trusted> = self.previous.iter().collect();
        all.push(&self.current.trusted);
        all.extend(self.next.as_ref().map(|next| &next.trusted));
        all.sort_by_key(|trusted| trusted.life);
        all.into_iter().map(Trusted::pem).collect()
    }

    /// Expiry of the current authority's certificate, in seconds since 1970.
    pub(crate) fn ends(&self) -> i64 {
        self.current.trusted.life.ends
    }

    /// Time of the next step. An exchange also waits for the webhooks, not considered here.
    pub(super) fn due(&self) -> i64 {
        let forget = self.previous.iter().map(|trusted| trusted.life.ends).min();
        let exchange = self.next.as_ref().map_or(self.current.trusted.life.part(2, 3), takes_over);
        exchange.min(self.ends()).min(forget.unwrap_or(i64::MAX))
    }
}

/// An authority may sign after a hundredth of its life.
fn takes_over(next: &Ca) -> i64 {
    next.trusted.life.part(1, 100)
}

/// Performs the due step. `announced`: all webhooks have the current bundle.
pub(super) fn step(
    known: &mut Option<Authorities>,
    now: i64,
    lifetime: Duration,
    announced: bool,
) -> Result<Option<&'static str>, rcgen::Error> {
    let Some(authorities) = known else {
        let current = Ca::make(now, lifetime)?;
        *known = Some(Authorities { current, next: None, previous: Vec::new() });
        return Ok(Some(BEGUN));
    };
    let Authorities { current, next, previous } = authorities;
    let before = previous.len();
    previous.retain(|trusted| !trusted.life.is_over(now));
    let forgotten = previous.len() < before;
    next.take_if(|next| next.trusted.life.is_over(now));
    let life = current.trusted.life;
    if let Some(next) = next.take_if(|next| life.is_over(now) || (announced && now >= takes_over(next))) {
        let last = std::mem::replace(current, next).trusted;
        previous.extend((!life.is_over(now)).then_some(last));
        return Ok(Some(EXCHANGED));
    }
    if next.is_none() && life.is_over(now) {
        *current = Ca::make(now, lifetime)?;
        return Ok(Some(BEGUN));
    }
    if next.is_none() && now >= life.part(2, 3) {
        *next = Some(Ca::make(now, lifetime)?);
        return Ok(Some(ANNOUNCED));
    }
    Ok(forgotten.then_some(FORGOTTEN))
}

/// `None` for an empty Secret.
pub(crate) fn read(secret: &Secret) -> Result<Option<Authorities>, String> {
    let data = secret.data.as_ref();
    let bytes = |key: &str| data.and_then(|data| data.get(key)).map_or(&[][..], |bytes| &bytes.0);
    if data.is_none_or(BTreeMap::is_empty) {
        return Ok(None);
    }
    let damaged = |keys: &str, error: &CaError| format!("key {keys}: {}", describe(error));
    let pair = |certificate: &str, key: &str| {
        Ca::read(bytes(certificate), bytes(key))
            .map_err(|error| damaged(&format!("{certificate} or {key}"), &error))
    };
    let has_next = !bytes("next.crt").is_empty();
    let previous = read_all(bytes("previous.crt"));
    Ok(Some(Authorities {
        current: pair("ca.crt", "ca.key")?,
        next: has_next.then(|| pair("next.crt", "next.key")).transpose()?,
        previous: previous.map_err(|error| damaged("previous.crt", &error))?,
    }))
}

/// The authorities' Secret. It keeps the version of the Secret `over`, so a second writer is refused.
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
        put("previous.crt", authorities.previous.iter().map(Trusted::pem).collect());
    }
    secret.data = Some(data);
    secret
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(300);
    const START: i64 = 1_795_305_600;

    /// Steps, second by second; all webhooks have the bundle if `announced`.
    fn story(until: i64, announced: impl Fn(i64) -> bool) -> (Vec<(i64, &'static str)>, Option<Authorities>) {
        let (mut known, mut text) = (None, Vec::new());
        let mut trusted = String::new();
        for second in 0..until {
            let now = START + second;
            let due = known.as_ref().map_or(i64::MIN, Authorities::due);
            let done = step(&mut known, now, LIFETIME, announced(second)).expect("keys");
            let authorities = known.as_ref().expect("it has begun");
            assert!(done.is_none() || due <= now, "{second}: {done:?} was due at {}", due - START);
            assert!(!authorities.current.trusted.life.is_over(now), "{second}: the signer has expired");
            if done == Some(EXCHANGED) {
                assert!(
                    trusted.contains(&authorities.current.trusted.pem()),
                    "{second}: no client trusts it yet"
                );
            }
            trusted = authorities.bundle();
            text.extend(done.map(|done| (second, done)));
        }
        (text, known)
    }

    #[test]
    fn an_authority_follows_the_other_and_each_is_trusted_first() {
        let (text, known) = story(510, |_| true);
        let expected = [
            (0, BEGUN),
            (200, ANNOUNCED),
            (203, EXCHANGED),
            (300, FORGOTTEN),
            (400, ANNOUNCED),
            (403, EXCHANGED),
            (500, FORGOTTEN),
        ];
        assert_eq!(text, expected);
        assert_eq!(known.expect("authorities").bundle().matches("BEGIN").count(), 1);
    }

    #[test]
    fn an_exchange_waits_for_webhooks_up_to_a_limit() {
        let (text, _) = story(260, |second| second > 250);
        assert_eq!(text[1..], [(200, ANNOUNCED), (251, EXCHANGED)]);
        let (text, known) = story(301, |_| false);
        assert_eq!(text[1..], [(200, ANNOUNCED), (300, EXCHANGED)], "it ends");
        assert!(known.expect("authorities").previous.is_empty());
    }

    #[test]
    fn an_exchange_changes_no_bundle() {
        let (_, known) = story(202, |_| true);
        let bundle = known.as_ref().expect("authorities").bundle();
        let mut known = known;
        let done = step(&mut known, START + 210, LIFETIME, true).expect("keys");
        assert_eq!(done, Some(EXCHANGED));
        assert_eq!(known.expect("authorities").bundle(), bundle);
    }

    #[test]
    fn a_new_authority_follows_a_long_sleep() {
        let (_, mut known) = story(202, |_| true);
        let done = step(&mut known, START + 10_000, LIFETIME, true).expect("keys");
        assert_eq!(done, Some(BEGUN));
        let authorities = known.expect("authorities");
        assert!(authorities.next.is_none() && authorities.previous.is_empty());
    }

    #[test]
    fn stored_authorities_are_read_at_each_stage() {
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
    fn an_empty_secret_is_valid_and_a_partial_one_is_not() {
        assert!(read(&Secret::default()).expect("usable").is_none());
        let mut known = None;
        step(&mut known, 1_795_305_600, Duration::from_secs(300), true).expect("keys");
        let mut secret = write(&known.expect("authorities"), "certificates", None);
        let data = secret.data.as_mut().expect("data");
        data.remove("ca.key");
        assert!(read(&secret).expect_err("half of it").starts_with("key ca.crt or ca.key: no PEM block"));
    }
}

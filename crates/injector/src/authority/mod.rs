//! `serve --self-signed`: the injector's certificate authority, the server's certificate, and the `caBundle` with which the API
//! server checks it. No other program is needed, and no request is dropped when any of these changes.
//!
//! ```text
//! Secret ------> rotation: is a step due? ---> Secret (a second writer is refused, and rereads it)
//!                  |
//!                  +------> ca: the server's certificate, signed by the current authority, only in memory
//!                  |
//!                  +------> webhooks: caBundle of each webhook configuration, whenever it differs
//! ```
//!
//! All state comes from watches, which also report the program's own writes, so events have only one source.

mod ca;
mod reconciler;
mod rotation;
mod webhooks;

pub(crate) use rotation::read as stored;
use webhooks::host;
pub(crate) use webhooks::{CallerCount, Callers, WebhookService, webhooks};

use crate::{input::namespace, serve::tls};
use clap::Args;
use cluster::access;
use injection::manifests::NAMESPACE;
use reconciler::CertificateReconciler;
use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct AuthorityFlags {
    /// Maintain a certificate authority in a Secret, and the webhooks' caBundle
    #[arg(long)]
    pub(crate) self_signed: bool,
    /// Service that the webhooks call; certificates contain its names
    #[arg(long, value_name = "NAME", default_value = "sidecar-injector", value_parser = namespace, requires = "self_signed")]
    service: String,
    /// Namespace of the Service and the Secret
    #[arg(long, value_name = "NAME", default_value = NAMESPACE, value_parser = namespace, requires = "self_signed")]
    namespace: String,
    /// The authority's Secret
    #[arg(long, value_name = "NAME", default_value = "sidecar-injector-ca", requires = "self_signed")]
    ca_secret: String,
    /// Host of webhooks with a URL instead of a Service: certificates contain it, and caBundle is set; repeatable
    #[arg(long = "name", value_name = "HOST", value_parser = host, requires = "self_signed")]
    names: Vec<String>,
    /// Comma-separated webhook configurations in which to set caBundle
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "sidecar-injector",
        requires = "self_signed"
    )]
    webhook_configurations: Vec<String>,
    /// Validity of an authority: a number with s, m, h or d
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = lifetime, requires = "self_signed")]
    ca_lifetime: Duration,
    /// Validity of a server certificate
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = lifetime, requires = "self_signed")]
    certificate_lifetime: Duration,
    /// Kubeconfig for the API server, outside a cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// Read timeout of connections to the API server. An idle watch is silent, but the API server ends it earlier, after 290
/// seconds (`timeoutSeconds`, `kube`'s default).
pub(crate) const SILENCE: Duration = Duration::from_secs(295);

fn lifetime(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_secs(1)..=Duration::from_secs(36_500 * 86_400);
    let life = humantime::parse_duration(text).ok().filter(|life| limits.contains(life));
    life.ok_or_else(|| "expected a positive number with s, m, h or d, such as 90d, up to 36500d".to_owned())
}

/// Waits until the API server answers and the authority exists, and makes the first server certificate.
pub(crate) async fn begin(
    flags: &AuthorityFlags,
) -> Result<(Arc<tls::ServerIdentity>, CertificateReconciler), Box<dyn Error>> {
    let client = access::client(flags.kubeconfig.as_deref(), SILENCE).await?;
    let mut reconciler = CertificateReconciler::new(&client, flags);
    loop {
        reconciler.reconcile().await?;
        if let Some(identity) = reconciler.identity() {
            return Ok((identity, reconciler));
        }
        reconciler.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses() {
        for (text, expected) in
            [("Injector.Example", "injector.example"), ("10.1.2.3", "10.1.2.3"), ("FD00:0::1", "fd00::1")]
        {
            assert_eq!(host(text).as_deref(), Ok(expected));
        }
        for text in ["", "https://a", "a:443", "[::1]", "a b", "*.example"] {
            assert!(host(text).is_err_and(|error| error.contains("expected a DNS name")), "{text}");
        }
    }

    #[test]
    fn lifetimes_are_numbers_with_a_unit() {
        let read = [("1s", 1), ("90m", 5400), ("24h", 86_400), ("365d", 31_536_000)];
        for (text, seconds) in read {
            assert_eq!(lifetime(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "0d", "5", "-1d", "1x", "36501d", "99999999999999999999d", "1é"] {
            assert!(lifetime(text).is_err(), "{text}");
        }
    }
}

//! Access to the API server: with a kubeconfig, or as a pod of the cluster. A kubeconfig's credential programs run only for a
//! user's commands ([`user_client`]), as in kubectl: otherwise, the file could make a node agent run any program. Token files are
//! reread at least once a minute, and the whole configuration after a failed call (`renewal`).

use crate::renewal::Renewing;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("--kubeconfig: {} can't be read", .path.display())]
    Read { path: PathBuf, source: kube::config::KubeconfigError },
    #[error(
        "--kubeconfig: {}: user {user:?} gets credentials from a program (exec, auth-provider), which is not \
         supported; expected token, tokenFile, or client-certificate and client-key",
        .path.display()
    )]
    Exec { path: PathBuf, user: String },
    #[error("--kubeconfig: {} is invalid", .path.display())]
    Use { path: PathBuf, source: kube::config::KubeconfigError },
    #[error("no usable kubeconfig; give one with --kubeconfig or KUBECONFIG")]
    NoKubeconfig(#[source] kube::config::KubeconfigError),
    #[error("not in a pod, or without a service account token; give --kubeconfig")]
    NoPod(#[source] kube::config::InClusterError),
    #[error("cannot create a client for the API server")]
    Client(#[source] kube::Error),
}

const CONNECT: Duration = Duration::from_secs(10);

/// Creates a client whose calls end after `silence` without data. Errors: unknown API server address or credentials.
pub async fn client(kubeconfig: Option<&Path>, silence: Duration) -> Result<Client, AccessError> {
    reach(kubeconfig, silence).await.map(|(client, _)| client)
}

/// Client, and the API server's address, which the client's errors omit.
pub async fn reach(kubeconfig: Option<&Path>, silence: Duration) -> Result<(Client, String), AccessError> {
    let source = ClientSource { kubeconfig: kubeconfig.map(Path::to_owned), silence };
    let (client, server) = source.connect().await?;
    let namespace = client.default_namespace().to_owned();
    Ok((Client::new(Renewing::new(client, source), namespace), server))
}

/// Client for a user's command, and the API server's address: from the given kubeconfig or kubectl's, in the given or current
/// context. Errors: unknown API server address or credentials.
pub async fn user_client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    silence: Duration,
) -> Result<(Client, String), AccessError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => from_file(path, &options, true).await?,
        None => Config::from_kubeconfig(&options).await.map_err(AccessError::NoKubeconfig)?,
    };
    client_of(config, silence)
}

pub(crate) struct ClientSource {
    /// `None` in a pod.
    kubeconfig: Option<PathBuf>,
    silence: Duration,
}

impl ClientSource {
    /// Creates a client from freshly read files, and returns the API server's address.
    pub(crate) async fn connect(&self) -> Result<(Client, String), AccessError> {
        let config = match &self.kubeconfig {
            Some(path) => from_file(path, &KubeConfigOptions::default(), false).await?,
            None => Config::incluster().map_err(AccessError::NoPod)?,
        };
        client_of(config, self.silence)
    }
}

fn client_of(mut config: Config, silence: Duration) -> Result<(Client, String), AccessError> {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(silence);
    let server = config.cluster_url.to_string();
    Client::try_from(config).map(|client| (client, server)).map_err(AccessError::Client)
}

async fn from_file(
    path: &Path,
    options: &KubeConfigOptions,
    starts_programs: bool,
) -> Result<Config, AccessError> {
    let path = path.to_owned();
    let kubeconfig =
        Kubeconfig::read_from(&path).map_err(|source| AccessError::Read { path: path.clone(), source })?;
    let fetches = |user: &&kube::config::NamedAuthInfo| {
        user.auth_info.as_ref().is_some_and(|info| info.exec.is_some() || info.auth_provider.is_some())
    };
    if let Some(user) = kubeconfig.auth_infos.iter().find(fetches).filter(|_| !starts_programs) {
        return Err(AccessError::Exec { path, user: user.name.clone() });
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, options).await;
    config.map_err(|source| AccessError::Use { path, source })
}

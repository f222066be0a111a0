//! `check`: a cluster's state before and after an installation of the injector. Reports all findings in one run and
//! changes nothing.

mod after;
mod before;
mod finding;
mod rights;
mod trial;
mod webhooks;

use crate::api::{ApiServer, CONFIGURATIONS, block_on};
use crate::output::{ColourChoice, print, print_folded};
use crate::{authority::WebhookService, manifests::InstalledFlags};
use ::cluster::{access, error::describe};
use clap::{Args, ValueEnum};
use diagnose::lint::Level;
use finding::{CheckedInstallation, InstallationFinding, InstallationTopic};
use injection::manifests::files;
use injection::webhook::{self, Webhook};
use serde_json::json;
use std::{error::Error, path::PathBuf, process::ExitCode, time::Duration};

#[derive(Args, Debug)]
#[command(after_help = "\
Before an installation, check tests your permissions, name conflicts, other pod webhooks and Pod Security; afterwards, also the \
Deployment, the certificates, the programs' permissions and an injection. For the injection, you need permission to create pods \
in a namespace with injection; the pod is not stored (`dryRun=All`).")]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    installed: InstalledFlags,
    /// Also check the webhook for environments
    #[arg(long)]
    environment_tag: bool,
    /// Also check the operator for environment routes
    #[arg(long)]
    operator: bool,
    /// Kubeconfig of the cluster [default: kubectl's]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = CheckFormat::Text)]
    output: CheckFormat,
    /// Colours: auto follows the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CheckFormat {
    Text,
    Json,
}

const FAILED: u8 = 3;
/// Maximum silence of the API server: our webhook may take 10 seconds, others 30.
const SILENCE: Duration = Duration::from_secs(35);

pub(crate) fn run(flags: &CheckFlags) -> Result<ExitCode, Box<dyn Error>> {
    flags.color.choose();
    let target = flags.installed.installation(true, flags.environment_tag, flags.operator)?;
    let findings = block_on(async {
        let connected =
            access::user_client(flags.kubeconfig.as_deref(), flags.context.as_deref(), SILENCE).await?;
        let (client, server) = connected;
        let objects = files(&target).into_iter().flat_map(|file| file.objects).collect();
        let checked = CheckedInstallation {
            api: ApiServer(client),
            objects,
            service: WebhookService {
                namespace: target.namespace.clone(),
                name: target.name(),
                hosts: Vec::new(),
            },
            target,
        };
        findings(&checked, &server).await
    })??;
    match flags.output {
        CheckFormat::Json => print(&format!("{:#}\n", json!({ "findings": findings })))?,
        CheckFormat::Text => print_folded(&finding::text(&findings), 7)?,
    }
    let has_failed = findings.iter().any(|finding| finding.level == Level::Failure);
    Ok(if has_failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

async fn findings(
    checked: &CheckedInstallation,
    server: &str,
) -> Result<Vec<InstallationFinding>, Box<dyn Error>> {
    let version = checked.api.get("/version").await;
    let version =
        version.map_err(|error| format!("the API server {server} does not answer: {}", describe(&error)))?;
    let mut findings = vec![before::version(&version.unwrap_or_default())];
    let existing = before::existing(checked).await;
    findings.extend(before::rights(checked, &existing).await);
    findings.extend(before::names(checked, &existing));
    let configurations = checked.api.list(CONFIGURATIONS).await;
    findings.extend(webhooks::findings(checked, &configurations));
    let namespaces = checked.api.list("/api/v1/namespaces").await;
    let ours = webhooks::ours(checked, &configurations);
    let own: Vec<Webhook> = ours.iter().flat_map(|one| webhook::read(one)).collect();
    findings.extend(trial::findings(&existing, &own, &namespaces));
    let deployment = existing.iter().find(|found| found.object["kind"] == "Deployment");
    let found = deployment.expect("an installation has a Deployment");
    match &found.answer {
        Ok(None) => findings.push(after::absent(&found.object, &ours)),
        Err(error) => {
            findings.push(InstallationTopic::Server.unknown("the Deployment can't be read", error));
        }
        Ok(Some(deployment)) => {
            findings.extend(after::server(checked, deployment).await);
            findings.extend(after::certificates(checked, &ours).await);
            findings.extend(after::roles(checked, &existing).await);
            findings.push(trial::injected(checked, &own, &namespaces).await);
        }
    }
    Ok(findings)
}

//! The injector's command line and help sections. Each command's flags are in its module.

use clap::{Parser, Subcommand};
use command_line::{program::CommandHelp, sections::Exits};

/// Adds a service mesh's init container and proxy to pods.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct InjectorArguments {
    #[command(subcommand)]
    pub(crate) command: InjectorCommand,
}

#[derive(Subcommand)]
pub(crate) enum InjectorCommand {
    /// Inject the pods of a manifest
    Inject(crate::inject::InjectFlags),
    /// Show whether a pod would be injected, by which webhook, and why
    Explain(crate::explain::ExplainFlags),
    /// Find likely mistakes in manifests or a cluster: pods without a sidecar, ports that are not captured, webhooks that fail
    Lint(crate::lint::LintFlags),
    /// Print the manifests that install the injector
    Manifests(crate::manifests::ManifestsFlags),
    /// Check a cluster before and after an installation
    Check(crate::check::CheckFlags),
    /// Print what to delete to remove the injector
    Uninstall(crate::manifests::UninstallFlags),
    /// Run the admission webhook
    Serve(Box<crate::serve::ServeFlags>),
    /// Compare running pods with this injector's output
    CheckTemplates(crate::check_templates::CheckTemplatesFlags),
    /// Route tagged requests to environments, offline and in a cluster
    Environment(crate::environment::EnvironmentFlags),
}

const EXITS: &Exits = &[("0", "done"), ("1", "failed, or invalid input"), ("2", "invalid flags")];

pub(crate) const SECTIONS: &[CommandHelp] = &[
    CommandHelp {
        command: "inject",
        examples: &[
            "sidecar-injector inject -f shop.yaml | kubectl apply -f -",
            "sidecar-injector inject -f shop.yaml --diff",
        ],
        exits: &[
            ("0", "injected; with --diff, nothing would change"),
            ("1", "an object cannot be injected; with --diff, something would change"),
            ("2", "invalid flags; with --diff, also invalid input"),
        ],
    },
    CommandHelp {
        command: "explain",
        examples: &[
            "sidecar-injector explain -f shop.yaml --namespace-labels istio-injection=enabled",
            "sidecar-injector explain -f shop.yaml --context prod",
        ],
        exits: &[
            ("0", "all pods are injected"),
            ("1", "a refused pod, or invalid input"),
            ("2", "invalid flags"),
            ("3", "a pod is not injected"),
            ("other", "with --explain, sidecar-init's exit status if it fails"),
        ],
    },
    CommandHelp {
        command: "lint",
        examples: &[
            "sidecar-injector lint -f shop.yaml --deny",
            "sidecar-injector lint -f shop.yaml -o sarif > lint.sarif",
            "kubectl get pods,services,namespaces,mutatingwebhookconfigurations -A -o json | sidecar-injector lint -f -",
        ],
        exits: &[
            ("0", "done; with --deny, no warning"),
            ("1", "with --deny, there is a warning"),
            ("2", "invalid flags or input"),
        ],
    },
    CommandHelp {
        command: "manifests",
        examples: &[
            "sidecar-injector manifests --image registry.example/sidecar-injector:0.1.0 --proxy-image istio/proxyv2:1.31.0",
        ],
        exits: EXITS,
    },
    CommandHelp {
        command: "check",
        examples: &["sidecar-injector check", "sidecar-injector check --revision canary -o json"],
        exits: &[
            ("0", "no failure; warnings may be printed"),
            ("1", "unreachable API server, or invalid input"),
            ("2", "invalid flags"),
            ("3", "a check failed"),
        ],
    },
    CommandHelp {
        command: "uninstall",
        examples: &["sidecar-injector uninstall | kubectl delete --ignore-not-found -f -"],
        exits: EXITS,
    },
    CommandHelp {
        command: "serve",
        examples: &["sidecar-injector serve --self-signed"],
        exits: &[("0", "stopped by a signal"), ("1", "failed, or invalid input"), ("2", "invalid flags")],
    },
    CommandHelp {
        command: "check-templates",
        examples: &[
            "kubectl -n istio-system get configmap istio-sidecar-injector istio -o yaml > maps.yaml",
            "kubectl get pods --all-namespaces -o yaml > pods.yaml",
            "sidecar-injector check-templates -f maps.yaml --against pods.yaml",
        ],
        exits: &[
            ("0", "every template renders, and no pod would change"),
            ("2", "invalid input"),
            ("3", "a template fails, or a pod would differ"),
        ],
    },
    CommandHelp {
        command: "environment routes",
        examples: &["sidecar-injector environment routes -f shop.yaml"],
        exits: EXITS,
    },
    CommandHelp {
        command: "environment crd",
        examples: &["sidecar-injector environment crd | kubectl apply -f -"],
        exits: EXITS,
    },
    CommandHelp {
        command: "environment operator",
        examples: &["sidecar-injector environment operator --namespace shop"],
        exits: &[("0", "stopped by a signal"), ("1", "failed"), ("2", "invalid flags")],
    },
    CommandHelp {
        command: "environment inspect",
        examples: &["sidecar-injector environment inspect --address 10.1.2.3:8000 status"],
        exits: EXITS,
    },
    CommandHelp {
        command: "environment inspect status",
        examples: &["sidecar-injector environment inspect status"],
        exits: EXITS,
    },
    CommandHelp {
        command: "environment inspect version",
        examples: &["sidecar-injector environment inspect version --address 10.1.2.3:8000"],
        exits: EXITS,
    },
    CommandHelp {
        command: "environment inspect log",
        examples: &["sidecar-injector environment inspect log level=DEBUG"],
        exits: EXITS,
    },
];

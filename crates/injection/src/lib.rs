//! Parts that a service mesh puts into pods: the init container that sets capture rules, and the proxy.
//!
//! Pure: no file, no clock, no network, no log. Texts become a [`Configuration`]; a pod, the context of its admission, and the
//! configuration become an [`InjectionOutcome`] by [`inject`]. The caller is a webhook's server, or a user with a
//! manifest.
//!
//! ```text
//! config, values, mesh     configuration   texts, understood once, all problems at once
//! pod, namespace           decision        whether, and why
//!                          sidecar         what this pod's sidecar is to be: typed, validated
//!                          template        that as a patch of the pod
//!                          merge, pipeline the patch on the pod, and what a second injection must know
//! pods of a cluster        compare         what would change if they were made by this configuration
//! ```
#![forbid(unsafe_code)]

pub mod admission;
pub mod chart;
pub mod cluster_lint;
pub mod compare;
pub mod configuration;
pub mod decision;
pub mod explain;
pub mod manifests;
pub mod merge;
mod mesh_config;
pub mod offline;
pub mod patch;
pub mod pipeline;
pub mod review;
pub mod sidecar;
pub mod syntax;
pub mod tag;
pub mod template;
pub mod trial;
pub mod webhook;

pub use admission::Namespaces;
pub use configuration::Configuration;
pub use pipeline::{AdmissionContext, Injected, InjectionOutcome, Namespace, Workload, inject};

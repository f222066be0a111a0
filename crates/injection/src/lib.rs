//! Parts that a service mesh injects into pods: the init container that sets capture rules, and the proxy.
//!
//! Pure: no files, clock, network or log. Documents become a [`Configuration`]; [`inject`] turns a pod, its admission context and
//! the configuration into an [`InjectionOutcome`]. The caller is a webhook server, or a command with manifests.
//!
//! ```text
//! config, values, mesh     configuration   documents, parsed once, with all problems
//! pod, namespace           decision        the decision with its reason
//!                          sidecar         settings of the pod's sidecar: typed, validated
//!                          template        the sidecar as a patch for the pod
//!                          merge, pipeline the patched pod, and the record for a second injection
//! pods of a cluster        compare         changes that this configuration would make
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

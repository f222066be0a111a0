//! Manifests whose pods are injected where they are written.

//! What a cluster's owner applies to have pods injected.

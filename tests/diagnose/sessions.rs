//! Sessions about flags and manifests, which need no privileges.

use crate::support::rows::rows;
use crate::support::session::check;

rows! {
    diff: check("diff");
    explain: check("explain");
    lint: check("lint");
    manifests: check("manifests");
}

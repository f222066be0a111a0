//! A real Envoy as the proxy, with the configurations of `docker/`, behind rules that the binary has set.
//!
//! The kernel tests have listeners of their own in the proxy's place and see where packets land. Here is shown that a
//! proxy people run works with that: every connection is followed from its caller through Envoy to its destination, by
//! what both ends and Envoy's own log say of it.
//!
//! `scripts/envoy` installs Envoy; `scripts/test` calls it, as tests have no network. Where Envoy is missing, or root's
//! rights are, the tests fail; they never skip.

mod application;
mod calls;
mod dns;
mod injected;
mod proxy;
mod readme;
mod restart;
mod stage;

/// Plays each scene, a `fn(&Stage)`, in both modes and on every backend; both families are on each stage.
macro_rules! on_every_stage {
    ($($scene:ident),+ $(,)?) => {$(
        mod $scene {
            crate::meshes::envoy::on_every_stage! { @tests $scene
                legacy_redirect: Legacy Redirect,
                legacy_tproxy: Legacy Tproxy,
                nft_redirect: Nft Redirect,
                nft_tproxy: Nft Tproxy,
                native_redirect: Native Redirect,
                native_tproxy: Native Tproxy,
            }
        }
    )+};
    (@tests $scene:ident $($name:ident: $variant:ident $mode:ident,)+) => {$(
        #[test]
        #[ignore = "needs Envoy"]
        fn $name() {
            use crate::{meshes::envoy::{stage::Stage}, support::setting::{Mode, Variant}};
            super::$scene(&Stage::new(Variant::$variant, Mode::$mode));
        }
    )+};
}
use on_every_stage;

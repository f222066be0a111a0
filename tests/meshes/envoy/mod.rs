//! A real Envoy as the proxy, with the configurations of `docker/` and rules set by the binary. The kernel tests use their own
//! listeners in the proxy's place. These tests show that a production proxy works with the rules: every connection is followed
//! from its caller through Envoy to its destination, at both ends and in Envoy's log. `scripts/envoy` installs Envoy;
//! `scripts/test` calls it, as tests have no network. Without Envoy or root, the tests fail; they never skip.

mod application;
mod calls;
mod dns;
mod injected;
mod proxy;
mod readme;
mod restart;
mod stage;

/// Runs each scene, a `fn(&Stage)`, in both modes and on every backend; each stage has both families.
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

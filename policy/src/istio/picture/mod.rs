//! The picture of Istio's sidecar, drawn from its configuration in the words that its users know.
//!
//! Pictures of other meshes are made from their rules ([`crate::picture::of`]). This one says more: what each option is for,
//! and which arrows of traffic within the pod are worth a reader's time.

mod arriving;
mod leaving;
mod writer;

use super::{CaptureConfig, Interception};
use crate::Setting;
use crate::picture::Picture;
use crate::sources::Dialect;

/// What becomes of the traffic that the configuration describes, in the words of whoever has written it.
pub(super) fn draw(config: &CaptureConfig, dialect: &Dialect) -> Picture {
    let panels = [
        Some(arriving::inbound(config, dialect)),
        arriving::machines(config, dialect),
        Some(leaving::outbound(config, dialect)),
        leaving::within(config, dialect),
    ];
    let dual_stack =
        dialect.name(Setting::DualStack).map_or_else(|| Setting::DualStack.row().option(), str::to_owned);
    let families = match config.ipv6 {
        true => "IPv4 and IPv6".to_owned(),
        false => format!("IPv4; all IPv6 passes ({dual_stack})"),
    };
    let mode = match config.interception {
        Interception::Redirect => format!("REDIRECT, {families}"),
        Interception::Tproxy { .. } => format!("TPROXY inbound, REDIRECT outbound, {families}"),
        Interception::None => "NONE: nothing is captured".to_owned(),
    };
    let panels = panels.into_iter().flatten().collect();
    Picture::new(format!("Mode {mode}."), panels, config.ipv6, config.vm_interfaces.clone())
}

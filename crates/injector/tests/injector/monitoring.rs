//! The webhook exports the metrics that `docker/monitoring` reads.

use super::installation::Kubelet;
use super::manifests::objects;
use super::webhook::address;
use testkit::{
    cluster::Cluster,
    http::get,
    monitoring::{Exporter, check},
    until,
};

#[test]
fn alerts_and_dashboard_read_metrics_of_the_webhook() {
    let cluster = Cluster::start();
    objects(&["--environment-tag"]).iter().for_each(|object| drop(cluster.put(object)));
    let mut kubelet = Kubelet::default();
    kubelet.follow(&cluster);
    let address = address(&kubelet.0["sidecar-injector"], "metrics_address");
    // The first lists of its watches, and the webhook configurations, have been read.
    until("it is ready", || get(address, "/ready").0 == 200);
    until("its webhooks are counted", || get(address, "/metrics").1.contains("sidecar_injector_webhooks{"));
    check(Exporter::Webhook, &get(address, "/metrics").1);
}

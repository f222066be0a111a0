//! What `docker/monitoring` reads of the operator is exported by it.

use super::program::{Operator, cluster, shop, until_subsets};
use testkit::{
    cluster::Fault,
    http::get,
    monitoring::{Exporter, check},
};

#[test]
fn alerts_and_dashboard_read_what_the_operator_exports() {
    let cluster = cluster();
    shop(&cluster);
    // A write of each outcome.
    cluster.fault("create", "virtualservices", Fault::Refuse(500));
    let operator = Operator::start(&cluster, &["--namespace", "shop"]);
    until_subsets(&cluster, &["base", "base-red"]);
    check(Exporter::Operator, &get(operator.metrics(), "/metrics").1);
    assert!(operator.terminate());
}

//! What `docker/monitoring` reads of the operator is exported by it.

use super::program::{Operator, cluster, get, shop, until_subsets};
use testkit::{
    cluster::Fault,
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
    let address =
        operator.line("operating").expect("it operates")["metrics"].as_str().expect("it").to_owned();
    check(Exporter::Operator, &get(&address, "/metrics").1);
    assert!(operator.terminate());
}

//! The fields of records, which scripts read: an interface that must not change by accident.

use edbatch_benches::record::{Record, Throughput};
use edbatch_benches::report::tables;

#[test]
fn a_throughput_record_has_these_fields() {
    let json = serde_json::to_value(Record::Throughput(Throughput::default())).unwrap();
    assert_eq!(json["bench"], "throughput");
    for field in [
        "system",
        "model",
        "hidden",
        "batch",
        "threads",
        "instances_per_second",
        "flops_per_instance",
        "gflops",
        "peak_gflops",
        "fraction_of_peak",
        "construct_ns_per_node",
        "schedule_ns_per_node",
        "plan_ns_per_node",
        "execute_share",
        "nodes",
        "batches",
        "bound",
        "peak_bytes",
        "live_bytes",
        "input",
    ] {
        assert!(json.get(field).is_some(), "{field}");
    }
}

#[test]
fn tables_have_a_row_for_each_record() {
    let record = Throughput { system: "paper".into(), batch: 64, ..Throughput::default() };
    let table = &tables(&[Record::Throughput(record)])[0];
    let text = table.to_string();
    assert!(text.starts_with("Throughput") && text.contains("paper"), "{text}");
    let page = edbatch_benches::page::page(&[Record::Throughput(Throughput::default())]).unwrap();
    assert!(page.contains("<svg") && page.contains("<table>") && page.ends_with("</html>\n"));
}

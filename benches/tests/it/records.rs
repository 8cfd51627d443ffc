//! The fields of records: an interface for scripts.

use std::fs;

use edbatch_benches::record::journal::{Journal, read};
use edbatch_benches::record::machine::Machine;
use edbatch_benches::record::sorted::Sorted;
use edbatch_benches::record::{Case, Figures, Record, Throughput};
use edbatch_benches::render::headline::rows;
use edbatch_benches::render::tables::tables;

fn record(step: &str, throughput: Throughput) -> Record {
    let figures = Figures::Throughput(throughput);
    Record { figures, step: step.into(), machine: Machine::here() }
}

#[test]
fn a_throughput_record_has_these_fields() {
    let json = serde_json::to_value(record("a", Throughput::default())).unwrap();
    assert_eq!(json["bench"], "throughput");
    let fields = "system model hidden batch threads instances_per_second flops_per_instance gflops \
                  peak_gflops fraction_of_peak construct_ns_per_node schedule_ns_per_node \
                  plan_ns_per_node execute_share nodes batches bound peak_bytes live_bytes input \
                  backend mini_batches executed_flops_per_instance spread folded";
    for field in fields.split(' ') {
        assert!(json.get(field).is_some(), "{field}");
    }
    for field in ["p50", "p99"] {
        assert!(json["latency_ns"].get(field).is_some(), "{field}");
    }
    for field in ["processor", "cores", "isa", "device", "rustc", "commit", "date"] {
        assert!(json["machine"].get(field).is_some(), "{field}");
    }
    assert!(json["machine"]["rustc"].as_str().unwrap().starts_with("rustc "), "{json}");
    assert!(json["machine"]["cores"].as_u64().unwrap() > 0);
}

#[test]
fn an_interrupted_run_resumes_after_its_last_complete_step() {
    let path = std::env::temp_dir().join(format!("edbatch-journal-{}", std::process::id()));
    let machine = Machine::here();
    let mut journal = Journal::new(&path);
    assert!(!path.exists());
    journal.add(vec![record("a", Throughput::default())]).unwrap();
    let two = vec![record("b", Throughput::default()), record("b", Throughput::default())];
    journal.add(two).unwrap();

    // Killed while writing the second record of the second step.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 9]).unwrap();
    let mut journal = Journal::resume(&path, &machine).unwrap();
    assert!(journal.has("a") && !journal.has("b"));
    journal.add(vec![record("c", Throughput::default())]).unwrap();
    let steps: Vec<String> = read(&path).unwrap().into_iter().map(|record| record.step).collect();
    assert_eq!(steps, ["a", "c"]);

    // Records of other sources are dropped.
    let other = Machine { commit: "other".into(), ..machine };
    assert_eq!(Journal::resume(&path, &other).unwrap().records(), []);
    fs::remove_file(&path).unwrap();
}

#[test]
fn tables_have_a_row_for_each_record() {
    let throughput = Throughput { system: "paper".into(), ..Throughput::default() };
    let table = &tables(&[record("a", throughput)])[0];
    let text = table.to_string();
    assert!(text.starts_with("Throughput") && text.contains("paper"), "{text}");
    let page = edbatch_benches::render::page::page(&[record("a", Throughput::default())]);
    assert!(page.contains("<svg") && page.contains("<table>") && page.ends_with("</html>\n"));
}

#[test]
fn records_of_a_device_do_not_replace_ours_in_the_summary() {
    let case =
        |backend: &str, threads| Case { backend: backend.into(), threads, ..Case::default() };
    let ours = Throughput { system: "edbatch".into(), case: case("cpu", 4), ..Default::default() };
    let device = Throughput { case: case("cuda", 1), ..ours.clone() };
    let records = [record("a", ours), record("a", device)];
    let sorted = Sorted::new(&records);
    let threads: Vec<usize> = rows(&sorted).iter().map(|row| row.ours.case.threads).collect();
    assert_eq!(threads, [4]);
}

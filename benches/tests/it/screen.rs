//! The summary of a run, and the first screen of its page.

use edbatch_benches::record::Figures;
use edbatch_benches::render::against::changes;
use edbatch_benches::render::page::page;
use edbatch_benches::render::summary::summary;

use crate::sample;

#[test]
fn the_summary_fits_a_screen() {
    let text = summary(&sample::records());
    // Two more lines name the records and the page.
    assert!(text.lines().count() <= 38, "{text}");
    for expected in ["avx512", "2 cores", "1.4 × the speed of the paper's system", "PyTorch"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for part in ["Latency", "Batches", "Learning", "Deciding", "Compiling", "PQ-trees"] {
        assert!(text.lines().any(|line| line.starts_with(part)), "{part}: {text}");
    }
}

#[test]
fn the_first_screen_has_speed_rivals_machine_and_reasons() {
    let page = page(&sample::records());
    let first = &page[..page.find("<section").unwrap()];
    for expected in [
        "a processor whose name",
        "2026-01-31",
        "of the peak of one core",
        "1.4\u{a0}×</b>the speed of the paper's system",
        "as fast as PyTorch",
        "as fast as DyNet",
        "Why:",
        "median of 5 laps",
        "<svg",
    ] {
        assert!(first.contains(expected), "{expected}");
    }
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("xmlns").count()
    );
    assert!(!page.contains("<script") && !page.contains("src="));
}

#[test]
fn only_changes_beyond_the_noise_are_reported() {
    let old = sample::records();
    let unchanged = changes(&old, &old);
    assert_eq!(unchanged.rows, Vec::<Vec<String>>::new());
    let mut new = old.clone();
    let mut slower = 0;
    for record in &mut new {
        match &mut record.figures {
            // Both spreads are 5 %.
            Figures::Throughput(figures) if figures.system == "paper" => {
                figures.fraction_of_peak *= 1.08;
            }
            Figures::Throughput(figures) if figures.system == "edbatch" && slower == 0 => {
                figures.fraction_of_peak *= 0.8;
                slower += 1;
            }
            Figures::Counts(figures) if figures.policy == "critical" && slower == 1 => {
                figures.batches += 1.0;
                slower += 1;
            }
            _ => {}
        }
    }
    let rows = changes(&old, &new).rows;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((&*rows[0][2], &*rows[0][7]), ("edbatch", "0.80"));
    assert_eq!(rows[1][2], "batches of critical");
}

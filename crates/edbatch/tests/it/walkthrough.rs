//! `docs/walkthrough.md` quotes the output of the example.

use crate::examples::walkthrough;

#[test]
fn the_walkthrough_quotes_the_example() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/walkthrough.md");
    let Ok(document) = std::fs::read_to_string(path) else {
        edbatch_testing::skip(&format!("there is no {path}"));
        return;
    };
    let quoted: Vec<&str> = document
        .split("```text\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("split gives a part"))
        .collect();
    let sections = walkthrough::sections().unwrap();
    assert_eq!(quoted.len(), sections.len(), "quotations and sections");
    for ((title, text), quoted) in sections.iter().zip(quoted) {
        assert_eq!(quoted.trim_end(), text.trim_end(), "{title}");
    }
}

//! Statuses and messages.

use super::*;

fn text(pointer: *const c_char) -> String {
    // All pointers of this file are messages of this thread.
    crate::Text::of_pointer(pointer).read("message").unwrap().to_string()
}

#[test]
fn messages_are_one_line_and_belong_to_a_thread() {
    assert_eq!(text(message()), "");
    assert_eq!(guarded(|| Err(Failure::argument("a\nb\0c\r\u{85}\u{2028}d"))), 1);
    assert_eq!(text(message()), "a b c   d");
    assert_eq!(guarded(|| Ok(())), 0);
    assert_eq!(text(message()), "a b c   d", "a success keeps the message");
    std::thread::spawn(|| assert_eq!(text(message()), "")).join().unwrap();
}

#[test]
fn panics_become_a_status_with_their_text() {
    assert_eq!(guarded(|| panic!("line 1\nline {}", 2)), Code::Panic as i32);
    assert_eq!(text(message()), "a defect of the library, please report it: line 1 line 2");
    assert_eq!(guarded(|| std::panic::panic_any(7)), Code::Panic as i32);
    assert!(text(message()).ends_with("a panic"));
}

#[test]
fn errors_have_the_status_of_their_cause() {
    let memory = || BackendError::Memory { what: "rows", bytes: 8 };
    let call = |reason| CallError { cell: "infer".into(), reason };
    let full = SessionError::Call(call(CallErrorReason::Full));
    let rows = SessionError::CallOf {
        call: 3,
        error: call(CallErrorReason::Rows { expected: 1, got: 2 }),
    };
    let value = edbatch::Handle::from_bits(-9);
    let limit = RunError::Memory { values: 9, weights: 1, limit: 5 };
    let cases: [(Failure, Code); 10] = [
        (full.into(), Code::Memory),
        (rows.into(), Code::Call),
        (SessionError::Give(GiveError::TooMany).into(), Code::Memory),
        (SessionError::NoValue { value }.into(), Code::Value),
        (SessionError::Initial { value }.into(), Code::Value),
        (SessionError::Twice { value }.into(), Code::Value),
        (SessionError::Pending { value }.into(), Code::Pending),
        (SessionError::Run(limit).into(), Code::Memory),
        (memory().into(), Code::Memory),
        (EngineError::Threads { threads: 0 }.into(), Code::Argument),
    ];
    for (failure, code) in cases {
        assert_eq!(failure.code, code, "{}", failure.message);
        assert!(!failure.message.is_empty());
    }
}

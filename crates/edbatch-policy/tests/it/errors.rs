//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;

use edbatch_policy::{
    ChoiceError, EmptyTrainingSet, FileError, OpenError, OpenErrorKind, OtherKinds, UnknownEncoding,
};

#[test]
fn messages_are_complete_without_a_source() {
    let open = |kind| Box::new(OpenError { path: "p.json".into(), kind });
    let other = |missing: &[&str], unknown: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        OtherKinds { missing: names(missing), unknown: names(unknown) }
    };
    let unreadable = std::io::Error::other("lost");
    let constant = FileError::Constant { name: "pair", value: "9".into(), max: "1".into() };
    let cases: [(Box<dyn Error>, &str); 11] = [
        (
            Box::new(ChoiceError::Empty),
            "expected depth, by-depth, agenda, sufficient, critical, critical:pair, critical:soft, \
             beam:WIDTH[:SECONDS], exact[:SECONDS] or a learned policy's file",
        ),
        (
            Box::new(ChoiceError::Seconds("exact:x".into())),
            "expected a time limit in seconds at the end, from a nanosecond to a year, got \
             `exact:x`",
        ),
        (Box::new(EmptyTrainingSet), "expected at least one mini-batch to learn on, got none"),
        (
            Box::new(UnknownEncoding("vase".into())),
            "unknown encoding `vase`: expected one of base, max, sort, phase",
        ),
        (Box::new(FileError::Json("EOF".into())), "not a learned policy: EOF"),
        (Box::new(FileError::Encoding("no encoding".into())), "no encoding"),
        (Box::new(constant), "expected \"pair\" from 0 to 1, got 9"),
        (Box::new(FileError::TooLarge), "expected a table of at most 67108864 entries"),
        (open(OpenErrorKind::Read(unreadable)), "policy p.json: lost"),
        (
            open(OpenErrorKind::File(FileError::KindTwice("leaf".into()))),
            "policy p.json: kind `leaf` is listed twice",
        ),
        (
            open(OpenErrorKind::Kinds(other(&["a", "b"], &[]))),
            "policy p.json: the policy was learned for other kinds; the graph lacks `a`, `b`",
        ),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none(), "{message}");
    }
}

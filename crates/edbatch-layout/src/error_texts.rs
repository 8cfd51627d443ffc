//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;

use crate::aligned::{Malformed, OperandId};
use crate::{Addressed, ArenaTooLarge, PlanError, TooLarge};

#[test]
fn messages_are_complete_without_a_source() {
    let malformed = |positions, variable| {
        Box::new(Malformed { at: OperandId { batch: 2, operand: 0 }, positions, variable })
    };
    let cases: [(Box<dyn Error>, &str); 6] = [
        (Box::new(PlanError { step: 3, what: "no operand".into() }), "step 3: no operand"),
        (
            Box::new(TooLarge { what: "table t".into(), elements: 1 << 32 }),
            "table t is too large: 4294967296 elements; expected fewer than 2^32 for a table or a \
             record, fewer than 2^31 and fewer than 2^14 operations for a cell: make it smaller \
             or split it",
        ),
        (
            Box::new(ArenaTooLarge { elements: 5_000_000_000, what: Addressed::Values }),
            "the mini-batch needs at least 20000 MB for its values, expected below 17179 MB, which \
             are 2^32 elements: make mini-batches smaller",
        ),
        (malformed([4, 4], Some(7)), "batch 2, operand 0: variable 7 does not exist"),
        (malformed([4, 3], Some(7)), "batch 2, operand 0: expected 4 positions, found 3"),
        (malformed([4, 3], None), "batch 2, operand 0: expected 4 positions, found 3"),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none(), "{message}");
    }
}

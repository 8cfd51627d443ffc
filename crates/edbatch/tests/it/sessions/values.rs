//! Values that are given, and initial values.

use edbatch::{Handle, SessionError};
use edbatch_graph::RecordId;
use edbatch_testing::networks::Random;
use rand::{RngExt, SeedableRng};

use super::clauses::{AXIOM, CLAUSE, INFER, WIDTH, bits, clauses, fetch, session};

#[test]
fn given_values_return_all_bits() {
    let mut session = session();
    let special = [0x8000_0000, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_1234, 0x3f80_0001, 0x807f_ffff];
    let mut rng = Random::seed_from_u64(1);
    let elements: Vec<f32> = (0..WIDTH)
        .map(|i| f32::from_bits(special.get(i).copied().unwrap_or_else(|| rng.random())))
        .collect();
    let exact = |elements: &[f32]| elements.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let first = session.give(CLAUSE, &elements).unwrap();
    session.run().unwrap();
    let mut fetched = Vec::new();
    session.fetch(&[first], &mut fetched).unwrap();
    assert_eq!(exact(&fetched), exact(&elements));
    let second = session.give(CLAUSE, &fetched).unwrap();
    session.run().unwrap();
    session.fetch(&[second, first], &mut fetched).unwrap();
    assert_eq!(exact(&fetched), exact(&elements.repeat(3)), "fetch appends");
}

#[test]
fn values_given_together_are_those_given_one_by_one_or_none() {
    let mut session = session();
    let elements: Vec<f32> = (0..3 * WIDTH).map(|index| index as f32 / 7.0).collect();
    let mut given = vec![AXIOM];
    session.give_many(CLAUSE, &elements, &mut given).unwrap();
    session.give_many(CLAUSE, &[], &mut given).unwrap();
    let before = session.statistics();
    for rest in [1, WIDTH - 1, WIDTH + 1] {
        let error = session.give_many(CLAUSE, &elements[..rest], &mut given).unwrap_err();
        assert!(matches!(error, SessionError::Give(_)), "{error}");
    }
    assert!(session.give_many(RecordId(9), &elements, &mut given).is_err());
    assert_eq!((session.statistics(), given.len(), before.pending), (before, 4, 3));
    let one = session.give(CLAUSE, &elements[WIDTH..2 * WIDTH]).unwrap();
    let [a, b] = [given[2], one].map(|of| session.call(INFER, &[3], &[of]).unwrap());
    session.run().unwrap();
    assert_eq!(fetch(&session, &given[1..]), bits(&elements));
    assert_eq!(fetch(&session, &[a]), fetch(&session, &[b]));
}

#[test]
fn initial_values_always_exist_and_cannot_be_released() {
    let mut session = session();
    assert_eq!((AXIOM.to_bits(), Handle::initial(1).to_bits()), (-1, -2));
    assert_eq!(session.record_of(AXIOM).unwrap(), CLAUSE);
    let axiom = fetch(&session, &[AXIOM, AXIOM]);
    assert_eq!(axiom.len(), 2 * WIDTH);
    let [clause] = clauses(&mut session, [2]);
    assert_eq!(clause.to_bits(), 1 << 32);
    session.clear();
    assert_eq!(fetch(&session, &[AXIOM, AXIOM]), axiom);
    let [clause] = clauses(&mut session, [2]);
    let error = session.release(&[clause, AXIOM]).unwrap_err();
    assert!(matches!(error, SessionError::Initial { value: AXIOM }), "{error}");
    session.release(&[clause]).unwrap();
    for missing in [-2, -3, i64::MIN, 0, 5, u32::MAX.into(), i64::MAX] {
        let value = Handle::from_bits(missing);
        let errors = [
            session.record_of(value).err(),
            session.call(INFER, &[1], &[value]).err(),
            session.fetch(&[value], &mut Vec::new()).err(),
            session.release(&[value]).err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert!(matches!(error, SessionError::NoValue { value: got } if got == value));
        }
    }
}

//! The checks, on memory of Rust. Miri runs these tests.

use super::versioned::{NewOptions, NewStatistics, Options};
use super::*;
use crate::status::Code;
use crate::structs::edbatch_session_statistics;

impl<T> Array<T> {
    pub(crate) fn of(elements: &[T]) -> Self {
        Self(elements.as_ptr())
    }
}

impl<T> Out<T> {
    pub(crate) fn of(elements: &mut [T]) -> Self {
        Self(elements.as_mut_ptr())
    }

    pub(crate) fn none() -> Self {
        Self(ptr::null_mut())
    }
}

impl FileBytes {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Array::of(bytes))
    }
}

impl Text {
    pub(crate) fn of(text: &CStr) -> Self {
        Self(text.as_ptr())
    }
}

impl Options {
    pub(crate) fn none() -> Self {
        Self(ptr::null())
    }
}

impl<T> Object<T> {
    pub(crate) fn of(object: *const T) -> Self {
        Self(ConstObject(object))
    }
}

impl<T> ConstObject<T> {
    pub(crate) fn of(object: *const T) -> Self {
        Self(object)
    }
}

impl<T> Made<T> {
    pub(crate) fn of(place: &mut *mut T) -> Self {
        Self(place)
    }
}

impl<T> Freed<T> {
    pub(crate) fn of(object: *mut T) -> Self {
        Self(object)
    }
}

fn code<T>(result: Result<T, Failure>) -> Option<Code> {
    result.err().map(|failure| failure.code)
}

#[test]
fn arrays_of_length_0_may_be_null_and_others_may_not() {
    let null = Array::<u32>(ptr::null());
    assert!(null.slice("it", 0).unwrap().is_empty());
    assert_eq!(code(null.slice("it", 1)), Some(Code::Argument));
    assert_eq!(Array::of(&[1, 2, 3]).slice("it", 2).unwrap(), [1, 2]);
    assert_eq!(code(Out::<f32>::none().room("it", 1)), Some(Code::Argument));
    assert!(Out::<f32>::none().room("it", 0).is_ok());
}

#[test]
fn misaligned_pointers_and_impossible_lengths_are_errors() {
    let numbers = [0i64; 2];
    let odd = numbers.as_ptr().cast::<u8>().wrapping_add(1);
    for length in [0, 1] {
        assert_eq!(code(Array(odd.cast::<u16>()).slice("it", length)), Some(Code::Argument));
        assert_eq!(
            code(Out(odd.cast_mut().cast::<i64>()).room("it", length)),
            Some(Code::Argument)
        );
    }
    assert_eq!(code(Made(odd.cast_mut().cast::<*mut u8>()).clear("it")), Some(Code::Argument));
    for length in [usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8 + 1] {
        assert_eq!(code(Array::of(&numbers).slice("it", length)), Some(Code::Argument));
    }
}

#[test]
fn results_are_written_at_their_place_alone() {
    let mut memory = [0.0f32; 4];
    let room = Out::of(&mut memory).room("it", 3).unwrap();
    room.write(1, &[1.0, 2.0]);
    room.write(3, &[]);
    assert_eq!(memory, [0.0, 1.0, 2.0, 0.0]);
    let mut count = [7usize];
    Out::of(&mut count).optional("it").unwrap().set(9);
    Out::<usize>::none().optional("it").unwrap().set(9);
    assert_eq!(count, [9]);
}

#[test]
#[should_panic(expected = "checked before")]
fn no_more_is_written_than_there_is_room_for() {
    let mut memory = [0.0f32; 2];
    Out::of(&mut memory).room("it", 2).unwrap().write(1, &[1.0, 2.0]);
}

#[test]
fn strings_are_utf_8() {
    assert_eq!(Text::of(c"é").read("name").unwrap(), "é");
    let error = Text::of(c"a\xff").read("name").unwrap_err();
    assert!(error.code == Code::Argument && error.message.starts_with("name: "), "{error:?}");
    assert_eq!(code(Text::NULL.read("name")), Some(Code::Argument));
    assert_eq!(Text::NULL.optional("device").unwrap(), None);
}

#[test]
fn options_of_older_and_newer_programs_are_read_and_set() {
    let mut newer = [u64::MAX; 9];
    let place = NewOptions(newer.as_mut_ptr().cast());
    place.set_defaults(64).unwrap();
    assert_eq!(newer, [64, 1, 0, 0, 0, 0, 0, 0, u64::MAX]);
    newer[3] = 5;
    newer[4] = 6;
    let read = |words: &[u64]| Options(words.as_ptr().cast()).read();
    let all = read(&newer).unwrap();
    assert_eq!((all.memory_limit, all.fold_tables), (5, 6));
    // The header of the caller ends after `device`, within `memory_limit`.
    for size in [24, 28] {
        newer[0] = size;
        let some = read(&newer).unwrap();
        assert_eq!((some.threads, some.memory_limit, some.fold_tables), (1, 0, 0));
    }
    for size in [0, 8, 15, 4097, u64::MAX] {
        newer[0] = size;
        assert_eq!(code(read(&newer)), Some(Code::Argument), "{size}");
        assert_eq!(code(place.set_defaults(size as usize)), Some(Code::Argument), "{size}");
    }
    assert_eq!(Options::none().read().unwrap().threads, 1);
}

#[test]
fn statistics_of_older_and_newer_programs_are_filled_in() {
    let counts = edbatch::SessionStatistics::default().into();
    let counts = edbatch_session_statistics { stored: 1, pending: 2, batches: 8, ..counts };
    let mut words = [u64::MAX; 11];
    words[0] = 80;
    let place = NewStatistics(words.as_mut_ptr().cast());
    place.set(&counts).unwrap();
    assert_eq!(words, [80, 1, 2, 0, 0, 0, 0, 0, 8, u64::MAX, u64::MAX]);
    let mut words = [u64::MAX; 3];
    words[0] = 20;
    NewStatistics(words.as_mut_ptr().cast()).set(&counts).unwrap();
    assert_eq!(words, [20, 1, u64::MAX]);
    words[0] = 12;
    assert_eq!(code(NewStatistics(words.as_mut_ptr().cast()).size()), Some(Code::Argument));
    assert_eq!(code(NewStatistics(ptr::null_mut()).size()), Some(Code::Argument));
}

#[test]
fn objects_are_handed_over_and_freed_once() {
    let mut place = ptr::dangling_mut::<String>();
    let made = Made::of(&mut place);
    made.clear("it").unwrap();
    assert!(place.is_null());
    let made = Made::of(&mut place);
    made.set("object".into());
    assert_eq!(Object::of(place).get("it").unwrap(), "object");
    assert_eq!(ConstObject::of(place).get("it").unwrap(), "object");
    assert_eq!(Freed::of(place).take().as_deref().map(String::as_str), Some("object"));
    assert!(Freed::<String>::of(ptr::null_mut()).take().is_none());
    assert_eq!(code(Object::<String>::of(ptr::null()).get("it")), Some(Code::Argument));
}

impl Text {
    pub(crate) fn of_pointer(pointer: *const c_char) -> Self {
        Self(pointer)
    }
}

//! The functions of the header. `include/edbatch.h` documents them.

use std::ffi::{CStr, c_char};

use edbatch::graph::{Kind, RecordId};
use edbatch::{Handle, SessionCalls};

use crate::inputs;
use crate::objects::{Stored, edbatch_engine, edbatch_session};
use crate::open::Opening;
use crate::pointers::versioned::{NewOptions, NewStatistics, Options};
use crate::pointers::{Array, ConstObject, FileBytes, Freed, Made, Object, Out, Plain, Text};
use crate::status::{self, Code, Failure, guarded};
use crate::structs::edbatch_calls;

/// The version of the interface; `tests/header.rs` compares it with the header's.
const ABI_VERSION: u32 = 1;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero byte"),
    };

/// Returns the version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_abi_version() -> u32 {
    ABI_VERSION
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the message of the last failure on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_error_message() -> *const c_char {
    status::message()
}

/// Returns the name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_status_name(status: i32) -> *const c_char {
    status::name(status).as_ptr()
}

/// Sets the defaults of options.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_options_init(options: NewOptions, size: usize) -> i32 {
    guarded(|| options.set_defaults(size))
}

/// Opens a folder.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_open(
    folder: Text,
    options: Options,
    engine: Made<edbatch_engine>,
) -> i32 {
    guarded(|| {
        engine.clear("engine")?;
        let opening = Opening::of(&options.read()?)?;
        engine.set(opening.folder(folder.read("folder")?)?);
        Ok(())
    })
}

/// Opens a network and its weights from memory.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_open_memory(
    network: FileBytes,
    network_bytes: usize,
    weights: FileBytes,
    weights_bytes: usize,
    options: Options,
    engine: Made<edbatch_engine>,
) -> i32 {
    guarded(|| {
        engine.clear("engine")?;
        let (network, weights) =
            (network.slice("network", network_bytes)?, weights.slice("weights", weights_bytes)?);
        let opening = Opening::of(&options.read()?)?;
        engine.set(opening.memory(network, weights)?);
        Ok(())
    })
}

/// Makes an engine for another thread.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_fork(
    engine: ConstObject<edbatch_engine>,
    fork: Made<edbatch_engine>,
) -> i32 {
    guarded(|| {
        fork.clear("fork")?;
        let engine = engine.get("engine")?;
        let _entered = engine.state.enter()?;
        fork.set(engine.fork());
        Ok(())
    })
}

/// Frees an engine.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_free(engine: Freed<edbatch_engine>) {
    guarded(|| {
        free(engine.take(), |engine| engine.state.is_lost());
        Ok(())
    });
}

/// Frees an object. In a forked process its threads do not exist, and cannot be waited for, so its
/// memory is left alone.
fn free<T>(object: Option<Box<T>>, is_lost: impl FnOnce(&T) -> bool) {
    if let Some(object) = object
        && is_lost(&object)
    {
        std::mem::forget(object);
    }
}

/// Returns the number of a cell.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_cell(
    engine: ConstObject<edbatch_engine>,
    name: Text,
    cell: Out<u16>,
) -> i32 {
    ask(&engine, &cell, |engine| engine.cell(name.read("name")?))
}

/// Returns the number of a record.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_record(
    engine: ConstObject<edbatch_engine>,
    name: Text,
    record: Out<u16>,
) -> i32 {
    ask(&engine, &record, |engine| engine.record(name.read("name")?))
}

/// Returns the record that a cell makes.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_cell_record(
    engine: ConstObject<edbatch_engine>,
    cell: u16,
    record: Out<u16>,
) -> i32 {
    ask(&engine, &record, |engine| engine.cell_record(cell))
}

/// Returns the number of floats of a value.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_engine_width(
    engine: ConstObject<edbatch_engine>,
    record: u16,
    width: Out<usize>,
) -> i32 {
    ask(&engine, &width, |engine| engine.width(record))
}

/// Asks an engine for what never changes.
fn ask<T: Plain>(
    engine: &ConstObject<edbatch_engine>,
    result: &Out<T>,
    answer: impl FnOnce(&edbatch_engine) -> Result<T, Failure>,
) -> i32 {
    guarded(|| {
        let (engine, result) = (engine.get("engine")?, result.room("result", 1)?);
        let _entered = engine.state.enter()?;
        result.set(answer(engine)?);
        Ok(())
    })
}

/// Runs inputs together.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_run(
    engine: Object<edbatch_engine>,
    inputs: Array<edbatch_calls>,
    count: usize,
    outputs: Out<f32>,
    capacity: usize,
    needed: Out<usize>,
) -> i32 {
    guarded(|| {
        let (engine, inputs) = (engine.get("engine")?, inputs.slice("inputs", count)?);
        let (outputs, needed) = (outputs.room("outputs", capacity)?, needed.optional("needed")?);
        let mut running = engine.state.lock()?;
        let floats = running.read(&engine.template, inputs)?;
        if floats > capacity {
            needed.set(floats);
            return Err(Failure::buffer(floats, capacity));
        }
        let mut at = 0;
        for row in running.run(count)?.iter().flat_map(|rows| rows.iter()) {
            outputs.write(at, row);
            at += row.len();
        }
        needed.set(floats);
        Ok(())
    })
}

/// Makes an empty session.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_new(
    engine: ConstObject<edbatch_engine>,
    memory_limit: u64,
    session: Made<edbatch_session>,
) -> i32 {
    guarded(|| {
        session.clear("session")?;
        let engine = engine.get("engine")?;
        let _entered = engine.state.enter()?;
        session.set(engine.session(memory_limit)?);
        Ok(())
    })
}

/// Makes an empty session for another thread.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_fork(
    session: ConstObject<edbatch_session>,
    fork: Made<edbatch_session>,
) -> i32 {
    guarded(|| {
        fork.clear("fork")?;
        let session = session.get("session")?;
        let _entered = session.state.enter()?;
        fork.set(session.fork()?);
        Ok(())
    })
}

/// Frees a session.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_free(session: Freed<edbatch_session>) {
    guarded(|| {
        free(session.take(), |session| session.state.is_lost());
        Ok(())
    });
}

/// Adds a call.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_call(
    session: Object<edbatch_session>,
    cell: u16,
    rows: Array<u32>,
    row_count: usize,
    values: Array<Handle>,
    value_count: usize,
    result: Out<Handle>,
) -> i32 {
    guarded(|| {
        let (session, result) = (session.get("session")?, result.room("result", 1)?);
        let (rows, values) = (rows.slice("rows", row_count)?, values.slice("values", value_count)?);
        let value = session.state.lock()?.session.call(Kind(cell), rows, values)?;
        result.set(value);
        Ok(())
    })
}

/// Adds calls as arrays.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_calls(
    session: Object<edbatch_session>,
    calls: usize,
    cells: Array<Kind>,
    operands: Array<i64>,
    operand_count: usize,
    offsets: Array<u32>,
    results: Out<Handle>,
) -> i32 {
    guarded(|| {
        let (session, results) = (session.get("session")?, results.room("results", calls)?);
        let (cells, operands) =
            (cells.slice("cells", calls)?, operands.slice("operands", operand_count)?);
        let offsets = inputs::offsets(&offsets, calls, operand_count)?;
        let mut stored = session.state.lock()?;
        let Stored { session, handles, .. } = &mut *stored;
        handles.clear();
        session.calls(SessionCalls { cells, operands, offsets }, handles)?;
        results.write(0, handles);
        Ok(())
    })
}

/// Adds values of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_give(
    session: Object<edbatch_session>,
    record: u16,
    elements: Array<f32>,
    floats: usize,
    count: usize,
    results: Out<Handle>,
) -> i32 {
    guarded(|| {
        let (object, results) = (session.get("session")?, results.room("results", count)?);
        let elements = elements.slice("elements", floats)?;
        let mut stored = object.state.lock()?;
        let width = object.template.width(record).unwrap_or(0);
        if width > 0 && count.checked_mul(width) != Some(floats) {
            let expected = format!("expected {count} values of {width} floats, got {floats}");
            return Err(Failure::new(Code::Call, expected));
        }
        let Stored { session, handles, .. } = &mut *stored;
        handles.clear();
        session.give_many(RecordId(record), elements, handles)?;
        results.write(0, handles);
        Ok(())
    })
}

/// Computes all pending values.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_run(session: Object<edbatch_session>) -> i32 {
    guarded(|| Ok(session.get("session")?.state.lock()?.session.run()?))
}

/// Copies values.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_fetch(
    session: Object<edbatch_session>,
    values: Array<Handle>,
    count: usize,
    elements: Out<f32>,
    capacity: usize,
    needed: Out<usize>,
) -> i32 {
    guarded(|| {
        let (object, values) = (session.get("session")?, values.slice("values", count)?);
        let (room, needed) = (elements.room("elements", capacity)?, needed.optional("needed")?);
        let mut stored = object.state.lock()?;
        let Stored { session, elements, .. } = &mut *stored;
        let mut floats = 0;
        for &value in values {
            floats += object.width(session.record_of(value)?);
        }
        if floats > capacity {
            needed.set(floats);
            return Err(Failure::buffer(floats, capacity));
        }
        elements.clear();
        session.fetch(values, elements)?;
        room.write(0, elements);
        needed.set(floats);
        Ok(())
    })
}

/// Releases values.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_release(
    session: Object<edbatch_session>,
    values: Array<Handle>,
    count: usize,
) -> i32 {
    guarded(|| {
        let (session, values) = (session.get("session")?, values.slice("values", count)?);
        Ok(session.state.lock()?.session.release(values)?)
    })
}

/// Removes all pending values.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_discard(session: Object<edbatch_session>) -> i32 {
    guarded(|| {
        session.get("session")?.state.lock()?.session.discard();
        Ok(())
    })
}

/// Removes all values.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_clear(session: Object<edbatch_session>) -> i32 {
    guarded(|| {
        session.get("session")?.state.lock()?.session.clear();
        Ok(())
    })
}

/// Fills in counts of a session.
#[unsafe(no_mangle)]
pub extern "C" fn edbatch_session_get_statistics(
    session: Object<edbatch_session>,
    statistics: NewStatistics,
) -> i32 {
    guarded(|| {
        let session = session.get("session")?;
        statistics.size()?;
        let counts = session.state.lock()?.session.statistics();
        statistics.set(&counts.into())
    })
}

//! Statuses, the message of the last failure on a thread, and the boundary that panics do not
//! cross.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use edbatch::graph::{CallError, CallErrorReason};
use edbatch::models::{BuildError, CallListError, GiveError};
use edbatch::runtime::BackendError;
use edbatch::{EngineError, InputError, LoadError, RunError, SessionError};

macro_rules! codes {
    ($($Name:ident $number:literal $text:literal,)*) => {
        /// The reason of a failure, as a number of the header.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i32)]
        pub(crate) enum Code { $($Name = $number,)* }

        /// Returns the name of a status in the header.
        pub(crate) fn name(status: i32) -> &'static CStr {
            match status {
                0 => c"EDBATCH_OK",
                $($number => $text,)*
                _ => c"unknown",
            }
        }
    };
}

codes! {
    Argument 1 c"EDBATCH_ERROR_ARGUMENT",
    File 2 c"EDBATCH_ERROR_FILE",
    Weights 3 c"EDBATCH_ERROR_WEIGHTS",
    Name 4 c"EDBATCH_ERROR_NAME",
    Call 5 c"EDBATCH_ERROR_CALL",
    Value 6 c"EDBATCH_ERROR_VALUE",
    Pending 7 c"EDBATCH_ERROR_PENDING",
    Buffer 8 c"EDBATCH_ERROR_BUFFER",
    Memory 9 c"EDBATCH_ERROR_MEMORY",
    Device 10 c"EDBATCH_ERROR_DEVICE",
    Busy 11 c"EDBATCH_ERROR_BUSY",
    Panic 12 c"EDBATCH_ERROR_PANIC",
}

/// A failure of a function: its status and its message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    #[cold]
    pub(crate) fn argument(message: &str) -> Self {
        Self::new(Code::Argument, message)
    }

    /// A buffer of the caller is too small.
    #[cold]
    pub(crate) fn buffer(needed: usize, capacity: usize) -> Self {
        let message = format!("expected room for {needed} floats, got {capacity}");
        Self::new(Code::Buffer, message)
    }

    /// Memory for a list of the library cannot be allocated.
    #[cold]
    pub(crate) fn memory(what: &str) -> Self {
        Self::new(Code::Memory, format!("out of memory: failed to allocate {what}"))
    }
}

thread_local! {
    static MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Returns the message of the last failure on this thread, or an empty string. It is valid until
/// the next failure.
pub(crate) fn message() -> *const c_char {
    let stored = MESSAGE.try_with(|message| message.borrow().as_deref().map(CStr::as_ptr));
    // A thread that ends has no message any more.
    stored.ok().flatten().unwrap_or(c"".as_ptr())
}

#[cold]
fn store(failure: Failure) -> i32 {
    let line = failure.message.replace(['\0', '\n', '\r', '\u{b}', '\u{c}', '\u{85}'], " ");
    let line = CString::new(line.replace(['\u{2028}', '\u{2029}'], " ")).unwrap_or_default();
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = Some(line));
    failure.code as i32
}

/// Runs the body of a function. Returns its status; neither an error nor a panic leaves it.
#[inline]
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // A panic while an object is used makes it unusable: see `Guarded`.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => store(failure),
        Err(payload) => store(Failure::new(Code::Panic, defect(&*payload))),
    }
}

/// The message of a panic.
#[cold]
fn defect(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("a defect of the library, please report it: {}", text.unwrap_or("a panic"))
}

fn code_of_call(error: &CallError) -> Code {
    match error.reason {
        CallErrorReason::Full | CallErrorReason::Memory { .. } => Code::Memory,
        _ => Code::Call,
    }
}

fn code_of_give(error: &GiveError) -> Code {
    match error {
        GiveError::TooMany => Code::Memory,
        _ => Code::Call,
    }
}

fn code_of_backend(error: &BackendError) -> Code {
    match error {
        BackendError::Memory { .. } => Code::Memory,
        BackendError::Weights { .. } => Code::Weights,
        BackendError::Other(_) => Code::Device,
        // No function cancels, or trains.
        _ => Code::Argument,
    }
}

fn code_of_run(error: &RunError) -> Code {
    match error {
        RunError::Arena(_) | RunError::Memory { .. } => Code::Memory,
        RunError::Backend(error) => code_of_backend(error),
        RunError::Input { error: InputError::Build(BuildError::Call(error)), .. } => {
            code_of_call(error)
        }
        RunError::Input { error: InputError::Build(BuildError::Give(error)), .. } => {
            code_of_give(error)
        }
        _ => Code::Call,
    }
}

fn code_of_session(error: &SessionError) -> Code {
    match error {
        SessionError::Call(error) | SessionError::CallOf { error, .. } => code_of_call(error),
        SessionError::Give(error) => code_of_give(error),
        SessionError::NoValue { .. }
        | SessionError::Initial { .. }
        | SessionError::Twice { .. } => Code::Value,
        SessionError::Pending { .. } => Code::Pending,
        SessionError::Run(error) => code_of_run(error),
        _ => Code::Call,
    }
}

fn code_of_engine(error: &EngineError) -> Code {
    match error {
        EngineError::TooLarge(_) | EngineError::CannotStart { .. } => Code::Memory,
        EngineError::Backend(error) => code_of_backend(error),
        _ => Code::Argument,
    }
}

fn code_of_load(error: &LoadError) -> Code {
    match error {
        LoadError::Weights { .. } => Code::Weights,
        _ => Code::File,
    }
}

fn code_of_list(error: &CallListError) -> Code {
    match error {
        CallListError::Give(error) => code_of_give(error),
        _ => Code::Call,
    }
}

macro_rules! failures {
    ($($Error:ident $code_of:ident,)*) => { $(
        impl From<$Error> for Failure {
            #[cold]
            fn from(error: $Error) -> Self {
                Self::new($code_of(&error), error.to_string())
            }
        }
    )* };
}

failures! {
    CallError code_of_call,
    GiveError code_of_give,
    CallListError code_of_list,
    BackendError code_of_backend,
    RunError code_of_run,
    SessionError code_of_session,
    EngineError code_of_engine,
    LoadError code_of_load,
}

#[cfg(test)]
mod tests;

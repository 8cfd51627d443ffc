//! Spans as a Chrome trace: a JSON file that <https://ui.perfetto.dev> shows as a timeline.
//!
//! *Source*: "Trace Event Format", Google, 2016: complete events (`ph` is `X`) and the names of
//! threads (`ph` is `M`).

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::{self, Debug, Write as _};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that writes the spans of this project's crates as a Chrome trace, as they end: a
/// slice each, on a track for each thread. Clones are handles of the same trace.
///
/// A slice that has a field `cell` is called by it, and all fields are its arguments. About 120
/// bytes are written for a slice, and nothing is kept but the spans that are open. Spans of other
/// crates are left out, so that this may stand in a program that has spans of its own.
///
/// ```
/// # use edbatch::models::{Model, TreeLstm, TreeSizes};
/// # use edbatch::runtime::Parameters;
/// # use edbatch::datasets::Tree;
/// # use edbatch::Engine;
/// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
/// use edbatch::ChromeTrace;
///
/// # let model = TreeLstm::new(TreeSizes { vocabulary: 9, embed: 4, hidden: 4, classes: 2 })?;
/// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// # let parameters = Parameters::random(model.network(), &mut rng);
/// # let mut engine = Engine::new(model, parameters)?;
/// # let inputs: Vec<Tree<u32>> = Vec::new();
/// let trace = ChromeTrace::new(Vec::new());
/// // For all threads: `tracing::subscriber::set_global_default(trace.clone())`.
/// tracing::subscriber::with_default(trace.clone(), || engine.run(&inputs))?;
/// let json = String::from_utf8(trace.finish()?)?;
/// assert!(json.contains(r#""name":"mini-batch""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChromeTrace<W> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    /// What all times count from.
    began: Instant,
    written: Mutex<Written<W>>,
}

/// The file, and which threads it has named.
struct Written<W> {
    /// Until the trace is finished.
    writer: Option<W>,
    /// What the first write that failed said; nothing is written after it.
    failed: Option<io::Error>,
    named: HashSet<u64>,
}

/// A span that was made on this thread and has not been closed.
struct OpenSpan {
    id: u64,
    metadata: &'static Metadata<'static>,
    fields: Fields,
    entered: Option<u64>,
}

/// What a span tells of itself.
#[derive(Default)]
struct Fields {
    /// What its slice is called, instead of the span's name.
    cell: Option<String>,
    /// The members of a JSON object.
    arguments: String,
}

thread_local! {
    /// The number of this thread's track.
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    /// Spans are entered on the thread that made them, and closed there.
    static OPEN: RefCell<Vec<OpenSpan>> = const { RefCell::new(Vec::new()) };
    /// The last time of this thread, and of which trace it is.
    static LAST: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
}

/// Nanoseconds between two times of a thread: viewers round to one.
const APART: u64 = 2;

static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);
static NEXT_SPAN: AtomicU64 = AtomicU64::new(1);

impl<W: Write + Send + 'static> ChromeTrace<W> {
    /// A trace that begins now. `writer` should have a buffer: each slice is a write.
    pub fn new(writer: W) -> Self {
        let written = Written { writer: Some(writer), failed: None, named: HashSet::new() };
        let shared = Shared { began: Instant::now(), written: Mutex::new(written) };
        let trace = Self { shared: Arc::new(shared) };
        trace.written().write(
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n\
             {\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"edbatch\"}}",
        );
        trace
    }

    /// Ends the trace, and gives the writer back. What ends later is not written.
    ///
    /// # Errors
    /// If a slice could not be written, or the trace has been finished before.
    pub fn finish(&self) -> io::Result<W> {
        let mut written = self.written();
        written.write("\n]}\n");
        let finished = || io::Error::other("the trace has been finished before");
        let mut writer = written.writer.take().ok_or_else(finished)?;
        match written.failed.take() {
            Some(error) => Err(error),
            None => writer.flush().map(|()| writer),
        }
    }

    fn written(&self) -> MutexGuard<'_, Written<W>> {
        self.shared.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the trace began. On a thread no time comes twice, even where the clock is
    /// coarse, so that what begins in a slice begins behind it.
    fn now(&self) -> u64 {
        let now = self.shared.began.elapsed().as_nanos() as u64;
        let later = LAST.get().filter(|&(began, _)| began == self.shared.began);
        let now = later.map_or(now, |(_, last)| now.max(last + APART));
        LAST.set(Some((self.shared.began, now)));
        now
    }
}

impl<W: Write> Written<W> {
    fn write(&mut self, text: &str) {
        if self.failed.is_none()
            && let Some(writer) = &mut self.writer
        {
            self.failed = writer.write_all(text.as_bytes()).err();
        }
    }

    /// A slice of a thread's track, from one time to another, in nanoseconds.
    fn slice(&mut self, thread: u64, span: &OpenSpan, from: u64, to: u64) {
        let mut text = String::new();
        if self.named.insert(thread) {
            let unnamed = || format!("thread {thread}");
            let name = thread::current().name().map_or_else(unnamed, String::from);
            let name = quoted(&name);
            let _ = write!(
                text,
                ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{thread},\"name\":\"thread_name\",\
                 \"args\":{{\"name\":{name}}}}}"
            );
        }
        let (kind, Fields { cell, arguments }) = (span.metadata.name(), &span.fields);
        let name = quoted(cell.as_deref().unwrap_or(kind));
        let (begin, long) = (Microseconds(from), Microseconds(to - from));
        let _ = write!(
            text,
            ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{thread},\"ts\":{begin},\"dur\":{long},\
             \"cat\":\"{kind}\",\"name\":{name},\"args\":{{{arguments}}}}}"
        );
        self.write(&text);
    }
}

impl<W> Clone for ChromeTrace<W> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<W: Write + Send + 'static> Subscriber for ChromeTrace<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == edbatch_runtime::SPAN_TARGET
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = NEXT_SPAN.fetch_add(1, Ordering::Relaxed);
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let metadata = attributes.metadata();
        OPEN.with_borrow_mut(|open| open.push(OpenSpan { id, metadata, fields, entered: None }));
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        with_open(id, |span| values.record(&mut span.fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        with_open(id, |span| span.entered = Some(self.now()));
    }

    fn exit(&self, id: &Id) {
        with_open(id, |span| {
            if let Some(from) = span.entered.take() {
                let (thread, to) = (THREAD.with(|&thread| thread), self.now());
                self.written().slice(thread, span, from, to);
            }
        });
    }

    fn try_close(&self, id: Id) -> bool {
        OPEN.with_borrow_mut(|open| open.retain(|span| span.id != id.into_u64()));
        true
    }
}

/// Does something with a span that is open on this thread. The one that was opened last comes
/// first, as it is the one that is nearly always meant.
fn with_open(id: &Id, what: impl FnOnce(&mut OpenSpan)) {
    OPEN.with_borrow_mut(|open| {
        if let Some(span) = open.iter_mut().rev().find(|span| span.id == id.into_u64()) {
            what(span);
        }
    });
}

impl Fields {
    fn argument(&mut self, field: &Field, json: impl fmt::Display) {
        let comma = if self.arguments.is_empty() { "" } else { "," };
        let name = quoted(field.name());
        let _ = write!(self.arguments, "{comma}{name}:{json}");
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.argument(field, quoted(&format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "cell" {
            self.cell = Some(value.into());
        } else {
            self.argument(field, quoted(value));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.argument(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.argument(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.argument(field, value);
    }
}

/// Nanoseconds, written as microseconds with all their digits.
struct Microseconds(u64);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Text as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text becomes JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full after so many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn spans<W: Write + Send + 'static>(trace: &ChromeTrace<W>) {
        tracing::subscriber::with_default(trace.clone(), || {
            let _outer = edbatch_runtime::span!(INFO, "outer", inputs = 3_u64, odd = true);
            let _other = tracing::info_span!("another crate's").entered();
            let cell = "a \"cell\"\n";
            let inner = edbatch_runtime::span!(TRACE, "inner", cell, signed = -1_i64);
            drop(inner);
        });
    }

    #[test]
    fn spans_are_slices_with_their_fields() {
        let trace = ChromeTrace::new(Vec::new());
        spans(&trace);
        let json: serde_json::Value = serde_json::from_slice(&trace.finish().unwrap()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let [inner, outer] = &slices[..] else { panic!("two slices: {json}") };
        assert_eq!((&inner["name"], &inner["cat"]), (&"a \"cell\"\n".into(), &"inner".into()));
        assert_eq!((&outer["name"], &outer["cat"]), (&"outer".into(), &"outer".into()));
        assert_eq!(inner["args"], serde_json::json!({"signed": -1}));
        assert_eq!(outer["args"], serde_json::json!({"inputs": 3, "odd": true}));
        let name = |event: &&serde_json::Value| event["name"] == "thread_name";
        assert_eq!(events.iter().filter(name).count(), 1);
        // Once finished, it takes no more.
        spans(&trace);
        assert!(trace.finish().is_err());
    }

    #[test]
    fn a_full_disk_is_an_error_in_the_end() {
        for bytes in [0, 100, 400] {
            let trace = ChromeTrace::new(Full(bytes));
            spans(&trace);
            let error = trace.finish().map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WriteZero, "{bytes} bytes");
        }
    }

    #[test]
    fn times_keep_all_digits() {
        let text = |nanoseconds| Microseconds(nanoseconds).to_string();
        assert_eq!([0, 7, 1000, 1_234_056].map(text), ["0.000", "0.007", "1.000", "1234.056"]);
    }
}

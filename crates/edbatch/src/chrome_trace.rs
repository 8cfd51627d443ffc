//! Writes spans as a Chrome trace: a JSON file that <https://ui.perfetto.dev> shows as a timeline.
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

/// A subscriber that writes the spans of ED-Batch's crates as a Chrome trace. Clones are handles to
/// the same trace.
///
/// Each span becomes a slice, written when the span ends, on the track of its thread. The slice is
/// named after the field `cell`, if there is one, or else after the span; the other fields are its
/// arguments. A slice takes about 120 bytes of the file, and only open spans are kept in memory.
/// Spans of other crates are ignored.
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
    /// Time 0 of the trace.
    start: Instant,
    written: Arc<Mutex<Written<W>>>,
}

/// The output, and the threads whose names have been written.
struct Written<W> {
    /// The writer, or the error of the first write that failed. `None` once the trace is finished.
    writer: Option<io::Result<W>>,
    named: HashSet<u64>,
}

/// A span that was created on this thread and is not closed yet.
struct OpenSpan {
    id: u64,
    metadata: &'static Metadata<'static>,
    fields: Fields,
    entered: Option<u64>,
}

/// The fields of a span.
#[derive(Default)]
struct Fields {
    /// The field `cell`, which replaces the span's name as the name of the slice.
    cell: Option<String>,
    /// The other fields, as the members of a JSON object.
    arguments: String,
}

thread_local! {
    /// The number of this thread's track.
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    /// The open spans of this thread. Spans are created, entered and closed on the same thread.
    static OPEN: RefCell<Vec<OpenSpan>> = const { RefCell::new(Vec::new()) };
    /// The start of a trace, and the last time of this thread in it, in nanoseconds.
    static LAST: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
}

/// Minimum difference between two times of a thread, in ns. Viewers round to whole ns.
const MIN_STEP: u64 = 2;

static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);
static NEXT_SPAN: AtomicU64 = AtomicU64::new(1);

impl<W: Write + Send + 'static> ChromeTrace<W> {
    /// Starts a trace. `writer` should be buffered: each slice is one write.
    pub fn new(writer: W) -> Self {
        let written = Written { writer: Some(Ok(writer)), named: HashSet::new() };
        let trace = Self { start: Instant::now(), written: Arc::new(Mutex::new(written)) };
        trace.written().write(
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n\
             {\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"edbatch\"}}",
        );
        trace
    }

    /// Finishes the trace and returns the writer. Spans that end later are not written.
    ///
    /// # Errors
    /// If a slice could not be written, or the trace is already finished.
    pub fn finish(&self) -> io::Result<W> {
        let mut written = self.written();
        written.write("\n]}\n");
        let finished = || io::Error::other("the trace is already finished");
        let mut writer = written.writer.take().ok_or_else(finished)??;
        writer.flush().map(|()| writer)
    }

    fn written(&self) -> MutexGuard<'_, Written<W>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the nanoseconds since the start of the trace. Times of a thread are strictly
    /// increasing even if the clock is coarse, so a nested span starts after its parent.
    fn now(&self) -> u64 {
        let now = self.start.elapsed().as_nanos() as u64;
        let last = LAST.get().filter(|&(start, _)| start == self.start);
        let now = last.map_or(now, |(_, last)| now.max(last + MIN_STEP));
        LAST.set(Some((self.start, now)));
        now
    }
}

impl<W: Write> Written<W> {
    fn write(&mut self, text: &str) {
        if let Some(Ok(writer)) = &mut self.writer
            && let Err(error) = writer.write_all(text.as_bytes())
        {
            self.writer = Some(Err(error));
        }
    }

    /// Writes a slice on a thread's track; `from` and `to` are in nanoseconds.
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
        // The unit is the microsecond, with three decimals.
        let [(us, ns), (long_us, long_ns)] = [from, to - from].map(|ns| (ns / 1000, ns % 1000));
        let _ = write!(
            text,
            ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{thread},\"ts\":{us}.{ns:03},\
             \"dur\":{long_us}.{long_ns:03},\"cat\":\"{kind}\",\"name\":{name},\
             \"args\":{{{arguments}}}}}"
        );
        self.write(&text);
    }
}

impl<W> Clone for ChromeTrace<W> {
    fn clone(&self) -> Self {
        Self { start: self.start, written: self.written.clone() }
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

/// Calls `then` with the open span `id` of this thread, which is nearly always the newest one.
fn with_open(id: &Id, then: impl FnOnce(&mut OpenSpan)) {
    OPEN.with_borrow_mut(|open| {
        if let Some(span) = open.iter_mut().rev().find(|span| span.id == id.into_u64()) {
            then(span);
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

/// Returns text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is valid JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full after this number of bytes.
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
        // A finished trace ignores further spans.
        spans(&trace);
        assert!(trace.finish().is_err());
    }

    #[test]
    fn finish_reports_a_full_disk() {
        for bytes in [0, 100, 400] {
            let trace = ChromeTrace::new(Full(bytes));
            spans(&trace);
            let error = trace.finish().map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WriteZero, "{bytes} bytes");
        }
    }
}

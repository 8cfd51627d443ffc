//! Writes spans as a Chrome trace: a JSON file that <https://ui.perfetto.dev> shows as a timeline.
//!
//! *Source*: "Trace Event Format", Google, 2016: complete events (`ph` is `X`) and the names of
//! threads (`ph` is `M`).

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
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
    writer: Arc<Mutex<Writer<W>>>,
}

/// The writer, or the error of the first write that failed. `None` once the trace is finished.
type Writer<W> = Option<io::Result<W>>;

/// A span of this thread that has not ended.
struct OpenSpan {
    id: Id,
    metadata: &'static Metadata<'static>,
    /// The start, in nanoseconds.
    from: u64,
    fields: Map<String, Value>,
}

thread_local! {
    /// The number of this thread's track.
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    /// The open spans of this thread. A span starts and ends on the same thread.
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
        let trace = Self { start: Instant::now(), writer: Arc::new(Mutex::new(Some(Ok(writer)))) };
        let name =
            json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "edbatch"}});
        drop(trace.write(&format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{name}")));
        trace
    }

    /// Finishes the trace and returns the writer. Spans that end later are not written.
    ///
    /// # Errors
    /// If a slice could not be written, or the trace is already finished.
    pub fn finish(&self) -> io::Result<W> {
        let finished = || io::Error::other("the trace is already finished");
        let mut writer = self.write("\n]}\n").take().ok_or_else(finished)??;
        writer.flush().map(|()| writer)
    }

    /// Writes a text, and returns the locked writer.
    fn write(&self, text: &str) -> MutexGuard<'_, Writer<W>> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(open)) = &mut *writer
            && let Err(error) = open.write_all(text.as_bytes())
        {
            *writer = Some(Err(error));
        }
        writer
    }

    /// Returns the nanoseconds since the start of the trace, and names the thread's track at the
    /// first call. Times of a thread are strictly increasing even if the clock is coarse, so a
    /// nested span starts after its parent.
    fn now(&self) -> u64 {
        let mut now = self.start.elapsed().as_nanos() as u64;
        if let Some((_, last)) = LAST.get().filter(|&(start, _)| start == self.start) {
            now = now.max(last + MIN_STEP);
        } else {
            let (tid, thread) = (THREAD.with(|&thread| thread), thread::current());
            let name = thread.name().map_or_else(|| format!("thread {tid}"), String::from);
            let args = json!({"name": name});
            let name =
                json!({"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": args});
            drop(self.write(&format!(",\n{name}")));
        }
        LAST.set(Some((self.start, now)));
        now
    }

    /// Writes a span of this thread that ends now.
    fn slice(&self, OpenSpan { metadata, from, mut fields, .. }: OpenSpan) {
        let cell = fields.remove("cell");
        // The unit is the microsecond.
        let [ts, dur] = [from, self.now() - from].map(|ns| ns as f64 / 1e3);
        let slice = json!({
            "ph": "X", "pid": 1, "tid": THREAD.with(|&thread| thread), "ts": ts, "dur": dur,
            "cat": metadata.name(), "name": cell.unwrap_or_else(|| metadata.name().into()),
            "args": fields,
        });
        drop(self.write(&format!(",\n{slice}")));
    }
}

impl<W> Clone for ChromeTrace<W> {
    fn clone(&self) -> Self {
        Self { start: self.start, writer: self.writer.clone() }
    }
}

impl<W: Write + Send + 'static> Subscriber for ChromeTrace<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == edbatch_runtime::SPAN_TARGET
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = Id::from_u64(NEXT_SPAN.fetch_add(1, Ordering::Relaxed));
        let (metadata, mut fields) = (attributes.metadata(), Map::new());
        attributes.record(&mut Fields(&mut fields));
        let span = OpenSpan { id: id.clone(), metadata, from: self.now(), fields };
        OPEN.with_borrow_mut(|open| open.push(span));
        id
    }

    fn try_close(&self, id: Id) -> bool {
        // This is nearly always the newest span.
        let place = |open: &Vec<OpenSpan>| open.iter().rposition(|span| span.id == id);
        let span = OPEN.with_borrow_mut(|open| place(open).map(|place| open.remove(place)));
        span.into_iter().for_each(|span| self.slice(span));
        true
    }

    /// Does nothing: spans are entered when they are created, and exited when they are closed.
    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}
}

/// Collects the fields of a span.
struct Fields<'a>(&'a mut Map<String, Value>);

impl Visit for Fields<'_> {
    /// Numbers and booleans have the same text in JSON.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        self.0.insert(field.name().into(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
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

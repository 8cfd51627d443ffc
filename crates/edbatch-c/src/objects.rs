//! Engines and sessions, as C holds them.
#![allow(non_camel_case_types, reason = "the names of the header")]

use std::sync::Arc;

use edbatch::graph::{Kind, Network, RecordId, Value};
use edbatch::models::{CallList, CallLists, Model};
use edbatch::{Engine, Handle, Rows, SessionOptions};

use crate::guarded::Guarded;
use crate::status::{Code, Failure};
use crate::structs::edbatch_calls;

/// A network with its weights, ready to run.
pub struct edbatch_engine {
    pub(crate) state: Guarded<Running>,
    pub(crate) template: Arc<Template>,
}

/// Values that outlive a run.
pub struct edbatch_session {
    pub(crate) state: Guarded<Stored>,
    pub(crate) template: Arc<Template>,
    memory_limit: u64,
}

/// The part of an engine that never changes, so it is used while the engine runs.
pub(crate) struct Template {
    /// It never runs.
    engine: Engine<CallLists>,
    /// Number of floats of a value of each record.
    widths: Vec<usize>,
    threads: usize,
    is_on_device: bool,
}

/// The part of an engine that runs. The lists are kept for their memory.
pub(crate) struct Running {
    engine: Engine<CallLists>,
    lists: Vec<CallList>,
    pub(crate) outputs: Vec<Rows>,
    pub(crate) rows: Vec<u32>,
    pub(crate) values: Vec<Value>,
    pub(crate) made: Vec<Value>,
}

/// A session, and the lists of results, kept for their memory.
pub(crate) struct Stored {
    pub(crate) session: edbatch::Session,
    pub(crate) handles: Vec<Handle>,
    pub(crate) elements: Vec<f32>,
}

impl Template {
    fn new(engine: Engine<CallLists>, threads: usize, is_on_device: bool) -> Self {
        let fields = |record: &edbatch::graph::Record| {
            record.fields.iter().map(|field| field.shape.elements()).sum()
        };
        let widths = engine.model().network().records().iter().map(fields).collect();
        Self { engine, widths, threads, is_on_device }
    }

    pub(crate) fn network(&self) -> &Network {
        self.engine.model().network()
    }

    /// Returns the number of floats of a value of a record.
    pub(crate) fn width(&self, record: u16) -> Option<usize> {
        self.widths.get(usize::from(record)).copied()
    }

    /// The engine or session has threads or a device, which belong to this process.
    fn is_bound(&self) -> bool {
        self.threads > 1 || self.is_on_device
    }

    /// Returns a template with one thread, for forks.
    fn fork(&self) -> Self {
        Self::new(self.engine.fork(), 1, self.is_on_device)
    }
}

impl edbatch_engine {
    /// `running` and `template` share weights.
    pub(crate) fn new(
        running: Engine<CallLists>,
        template: Engine<CallLists>,
        threads: usize,
        is_on_device: bool,
    ) -> Self {
        Self::of(running, Template::new(template, threads, is_on_device))
    }

    fn of(engine: Engine<CallLists>, template: Template) -> Self {
        let running = Running {
            engine,
            lists: Vec::new(),
            outputs: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            made: Vec::new(),
        };
        let state = Guarded::new(running, template.is_bound());
        Self { state, template: Arc::new(template) }
    }

    pub(crate) fn fork(&self) -> Self {
        let template = self.template.fork();
        Self::of(template.engine.fork(), template)
    }

    pub(crate) fn session(&self, memory_limit: u64) -> Result<edbatch_session, Failure> {
        edbatch_session::new(self.template.clone(), memory_limit)
    }

    pub(crate) fn cell(&self, name: &str) -> Result<u16, Failure> {
        let cells = self.template.network().cells();
        number(cells.iter().map(|cell| cell.name()), "cell", name)
    }

    pub(crate) fn record(&self, name: &str) -> Result<u16, Failure> {
        let records = self.template.network().records();
        number(records.iter().map(|record| record.name.as_str()), "record", name)
    }

    pub(crate) fn cell_record(&self, cell: u16) -> Result<u16, Failure> {
        let cells = self.template.network().cells();
        let found = cells.get(Kind(cell).index());
        let RecordId(record) = found.ok_or_else(|| unknown("cell", cell, cells.len()))?.record();
        Ok(record)
    }

    pub(crate) fn width(&self, record: u16) -> Result<usize, Failure> {
        let width = self.template.width(record);
        width.ok_or_else(|| unknown("record", record, self.template.widths.len()))
    }
}

/// Returns the position of a name.
fn number<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    what: &str,
    name: &str,
) -> Result<u16, Failure> {
    let found = names.clone().position(|other| other == name);
    found.and_then(|index| u16::try_from(index).ok()).ok_or_else(|| {
        let names: Vec<&str> = names.take(20).collect();
        let expected = names.join(", ");
        Failure::new(Code::Name, format!("{what} {name:?} does not exist: expected {expected}"))
    })
}

#[cold]
fn unknown(what: &str, number: u16, count: usize) -> Failure {
    let message = format!("{what} {number} does not exist: the network has {count} {what}s");
    Failure::new(Code::Name, message)
}

impl Running {
    /// Reads inputs into call lists. Returns the number of floats of their outputs.
    pub(crate) fn read(
        &mut self,
        template: &Template,
        inputs: &[edbatch_calls],
    ) -> Result<usize, Failure> {
        let more = inputs.len().saturating_sub(self.lists.len());
        self.lists.try_reserve(more).map_err(|_| Failure::memory("the call lists"))?;
        let mut lists = std::mem::take(&mut self.lists);
        let network = self.engine.model().network();
        lists.resize_with(inputs.len().max(lists.len()), || CallList::new(network.clone()));
        let mut needed = 0;
        let read =
            inputs.iter().zip(&mut lists).enumerate().try_for_each(|(index, (input, to))| {
                to.clear();
                let floats = self.read_input(template, input, to);
                needed += floats.map_err(|Failure { code, message }| {
                    Failure::new(code, format!("input {index}: {message}"))
                })?;
                Ok(())
            });
        self.lists = lists;
        read.map(|()| needed)
    }

    /// Runs the first `count` of the lists that were read.
    pub(crate) fn run(&mut self, count: usize) -> Result<&[Rows], Failure> {
        self.engine.run_into(&self.lists[..count], &mut self.outputs)?;
        Ok(&self.outputs)
    }
}

impl edbatch_session {
    fn new(template: Arc<Template>, memory_limit: u64) -> Result<Self, Failure> {
        let limit = Some(memory_limit).filter(|&limit| limit > 0);
        let options = limit.into_iter().fold(SessionOptions::new(), SessionOptions::memory_limit);
        let session = template.engine.session(options)?;
        let stored = Stored { session, handles: Vec::new(), elements: Vec::new() };
        Ok(Self { state: Guarded::new(stored, template.is_bound()), template, memory_limit })
    }

    pub(crate) fn fork(&self) -> Result<Self, Failure> {
        Self::new(Arc::new(self.template.fork()), self.memory_limit)
    }

    pub(crate) fn width(&self, record: RecordId) -> usize {
        self.template.width(record.0).expect("a record of the network")
    }
}

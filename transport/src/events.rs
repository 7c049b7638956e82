//! The events of a connection, which the caller handles.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// A call has begun: its method, its path, its headers as pairs of text, and the number of their values.
/// With more than `MOST_VALUES` values there are no pairs.
pub const OPENED: u8 = 0;
/// Messages were received: a list of bytes.
pub const MESSAGES: u8 = 1;
/// A compressed message was received: its bytes, still compressed.
pub const COMPRESSED: u8 = 2;
/// The peer has ended its side; true if it did so within a message.
pub const ENDED: u8 = 3;
/// The peer has reset the call, or has disconnected.
pub const RESET: u8 = 4;
/// A message is too large or invalid: the length in its prefix. Nothing more is read.
pub const REFUSED: u8 = 5;
/// The queue of unsent bytes is short enough for the writer to continue.
pub const WRITABLE: u8 = 6;
/// The response was completely passed to h2.
pub const DONE: u8 = 7;

/// All kinds, by name.
pub const KINDS: [(&str, u8); 8] = [
    ("OPENED", OPENED),
    ("MESSAGES", MESSAGES),
    ("COMPRESSED", COMPRESSED),
    ("ENDED", ENDED),
    ("RESET", RESET),
    ("REFUSED", REFUSED),
    ("WRITABLE", WRITABLE),
    ("DONE", DONE),
];

/// Events in order, each with its stream, its kind and its payload.
pub struct Events<'py> {
    list: Bound<'py, PyList>,
    /// The stream and the list of the last event, if that is `MESSAGES`.
    open: Option<(u32, Bound<'py, PyList>)>,
}

impl<'py> Events<'py> {
    /// Start without events.
    pub fn new(py: Python<'py>) -> Self {
        Events { list: PyList::empty(py), open: None }
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// All events.
    pub fn into_list(self) -> Bound<'py, PyList> {
        self.list
    }

    /// Add an event.
    pub fn add(&mut self, id: u32, kind: u8, payload: impl IntoPyObject<'py>) -> PyResult<()> {
        self.open = None;
        let payload = payload.into_bound_py_any(self.list.py())?;
        self.list.append((id, kind, payload))
    }

    /// Add a message to the last event if that has messages of the same stream, otherwise as a new event.
    pub fn message(&mut self, id: u32, data: &[u8]) -> PyResult<()> {
        let message = PyBytes::new(self.list.py(), data);
        match &self.open {
            Some((stream, messages)) if *stream == id => messages.append(message),
            _ => {
                let messages = PyList::new(self.list.py(), [message])?;
                self.add(id, MESSAGES, &messages)?;
                self.open = Some((id, messages));
                Ok(())
            }
        }
    }
}

//! What has happened on a connection, for the caller to carry out.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// A call has begun: its method, its path, its headers as pairs of text, and the number of their values.
/// Of more than `MOST_VALUES` there are no pairs.
pub const OPENED: u8 = 0;
/// Messages have come: a list of bytes.
pub const MESSAGES: u8 = 1;
/// A compressed message has come: its bytes as they are.
pub const COMPRESSED: u8 = 2;
/// The peer has ended its side: true if it has done so within a message.
pub const ENDED: u8 = 3;
/// The peer has reset the call, or has gone.
pub const RESET: u8 = 4;
/// A message is too large, or garbage: its length by its head. Nothing more is read.
pub const REFUSED: u8 = 5;
/// So little waits to be sent that the writer may go on.
pub const WRITABLE: u8 = 6;
/// The response has been handed over whole.
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

/// Events in order, each with its stream, its kind and what belongs to it.
pub struct Events<'py> {
    list: Bound<'py, PyList>,
    /// The messages of the last event, if it has any, and their stream.
    open: Option<(u32, Bound<'py, PyList>)>,
}

impl<'py> Events<'py> {
    /// None yet.
    pub fn new(py: Python<'py>) -> Self {
        Events { list: PyList::empty(py), open: None }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// All of them.
    pub fn into_list(self) -> Bound<'py, PyList> {
        self.list
    }

    /// Add one.
    pub fn add(&mut self, id: u32, kind: u8, payload: impl IntoPyObject<'py>) -> PyResult<()> {
        self.open = None;
        let payload = payload.into_bound_py_any(self.list.py())?;
        self.list.append((id, kind, payload))
    }

    /// Add a message to those of its stream that came just before, or as a new event.
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

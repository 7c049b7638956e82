//! The server's side of one HTTP/2 connection of gRPC, without I/O: bytes in, events and bytes out.
//!
//! The caller owns the socket, TLS and time. It feeds what it has received, carries out the events,
//! and sends what `take` gives. Nothing here blocks, has a thread, or keeps more than its bounds.

mod connection;
mod events;
mod pipe;
mod stream;

use pyo3::prelude::*;

/// HTTP/2 connections of a gRPC server, without I/O.
#[pymodule]
fn licorne_transport(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for (name, kind) in events::KINDS {
        module.add(name, kind)?;
    }
    module.add("MOST_VALUES", connection::MOST_VALUES)?;
    module.add_class::<connection::Connection>()
}

//! The server's side of one HTTP/2 connection of gRPC, without I/O: bytes in, events and bytes out.
//!
//! The caller owns the socket, TLS and time. It passes received bytes to `feed`, handles the events, and
//! sends the bytes of `take`. Nothing here blocks, has a thread, or uses memory without a limit.

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

//! One connection with its streams, and their events.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use h2::server::{self, Builder, Handshake};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::events::{DONE, Events, OPENED, RESET};
use crate::pipe::Pipe;
use crate::stream::{State, Stream};

/// Flow-control window of one stream in bytes: some thousand small messages.
const STREAM_WINDOW: u32 = 256 * 1024;

/// The largest window of HTTP/2.
const MOST_WINDOW: u32 = (1 << 31) - 1;

/// Maximum bytes of the headers of a request.
const MOST_HEADERS: u32 = 16 * 1024;

/// Maximum number of values in a request's headers, which the caller has to decode one by one.
pub const MOST_VALUES: usize = 64;

/// Maximum overhead in bytes that h2 counts for small data frames that wait within it, or are of ended calls.
/// Frames that were read are subtracted.
const SMALL_FRAMES: usize = 64 * STREAM_WINDOW as usize;

/// Maximum number of calls that begin in one step. Further calls wait within h2 for the next step.
const MOST_OPENED: usize = 4;

/// Maximum bytes of responses within h2, for each stream.
const SEND_BUFFER: usize = 64 * 1024;

type Pairs = Vec<(String, String)>;

/// The phase of the connection.
enum Phase {
    Greeting(Box<Handshake<Pipe, Bytes>>),
    Open(Box<server::Connection<Pipe, Bytes>>),
    Closed,
}

/// The server's side of one connection.
#[pyclass(module = "licorne_transport")]
pub struct Connection {
    pipe: Pipe,
    phase: Phase,
    pings: Option<PingPong>,
    streams: BTreeMap<u32, Stream>,
    /// Maximum bytes of a message.
    most: usize,
    /// Number of calls that have begun in this step.
    opened: usize,
    /// True after a panic.
    has_failed: bool,
}

#[pymethods]
impl Connection {
    #[new]
    fn new(max_streams: u32, max_message: usize) -> Self {
        let pipe = Pipe::default();
        let greeting = Builder::new()
            .max_concurrent_streams(max_streams)
            .initial_window_size(STREAM_WINDOW)
            // An unread stream cannot block the other streams of its connection.
            .initial_connection_window_size(STREAM_WINDOW.saturating_mul(max_streams).min(MOST_WINDOW))
            .data_frame_budget(SMALL_FRAMES)
            .max_header_list_size(MOST_HEADERS)
            .max_send_buffer_size(SEND_BUFFER)
            .handshake(pipe.clone());
        Connection {
            pipe,
            phase: Phase::Greeting(Box::new(greeting)),
            pings: None,
            streams: BTreeMap::new(),
            most: max_message,
            opened: 0,
            has_failed: false,
        }
    }

    /// True once nothing more is read or written, except the bytes for `take`.
    #[getter]
    fn closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// True once the peer has sent its preface and its settings.
    #[getter]
    fn greeted(&self) -> bool {
        !matches!(self.phase, Phase::Greeting(_))
    }

    /// True while a call is open, or its response is not completely sent.
    #[getter]
    fn busy(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.has_streams())
    }

    /// True if calls may wait for the next step.
    #[getter]
    fn has_more(&self) -> bool {
        self.opened == MOST_OPENED && !self.closed()
    }

    /// Streams that wait for the rest of a message, with its received bytes: only of a stream's first
    /// message, or with `whichever` of any.
    fn unfinished(&self, whichever: bool) -> Vec<(u32, usize)> {
        let sizes = self.streams.iter().map(|(id, stream)| (*id, stream.unfinished(whichever)));
        sizes.filter(|(_, size)| *size > 0).collect()
    }

    /// Process received bytes; returns the events.
    fn feed<'py>(&mut self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyList>> {
        if !self.closed() {
            self.pipe.buffers().incoming.extend_from_slice(data);
        }
        self.advance(py)
    }

    /// Continue pending work; returns the events.
    fn advance<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let events = self.guarded(|connection| connection.advance_all(py).map(Some))?;
        events
            .filter(|_| !self.has_failed)
            .ok_or_else(|| PyRuntimeError::new_err("the connection has failed"))
    }

    /// Remove and return the bytes to send.
    fn take<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let data = self.pipe.buffers().outgoing.split();
        PyBytes::new(py, &data)
    }

    /// Send the headers of a response. Here and below, an unknown stream is ignored.
    fn respond(&mut self, id: u32, metadata: Pairs) -> PyResult<()> {
        let head = response(metadata)?;
        self.guarded(|connection| {
            if let Some(stream) = connection.streams.get_mut(&id).filter(|stream| !stream.has_head()) {
                // An error means a reset, for which `advance` returns an event.
                let _ = stream.head(head, false);
            }
            Ok(())
        })
    }

    /// Send a message after the headers; true if its writer should wait for `WRITABLE`.
    fn send(&mut self, id: u32, data: &[u8]) -> PyResult<bool> {
        let size = u32::try_from(data.len()).map_err(|_| PyValueError::new_err("a message is too large"))?;
        self.guarded(|connection| {
            let stream = connection.streams.get_mut(&id);
            Ok(stream.is_some_and(|stream| stream.message(data, size).unwrap_or(false)))
        })
    }

    /// End a response after all messages, with its status in the metadata.
    fn finish(&mut self, id: u32, head: Pairs, metadata: Pairs) -> PyResult<()> {
        let trailers = headers(metadata)?;
        let mut alone = response(head)?;
        alone.headers_mut().extend(trailers.clone());
        self.guarded(|connection| {
            match connection.streams.get_mut(&id) {
                Some(stream) if stream.has_head() => stream.finish(trailers),
                Some(stream) => {
                    let _ = stream.head(alone, true);
                    connection.streams.remove(&id);
                }
                None => {}
            }
            Ok(())
        })
    }

    /// Reset a stream with an HTTP/2 error code.
    fn reset(&mut self, id: u32, code: u32) -> PyResult<()> {
        self.guarded(|connection| {
            if let Some(mut stream) = connection.streams.remove(&id) {
                stream.reset(Reason::from(code));
            }
            Ok(())
        })
    }

    /// Read nothing more of a stream.
    fn stop_reading(&mut self, id: u32) -> PyResult<()> {
        self.guarded(|connection| {
            if let Some(stream) = connection.streams.get_mut(&id) {
                stream.stop_reading();
            }
            Ok(())
        })
    }

    /// Record that messages with `size` bytes in total were consumed; true if the peer should get new window.
    fn consumed(&mut self, id: u32, messages: usize, size: usize) -> PyResult<bool> {
        self.guarded(|connection| {
            let stream = connection.streams.get_mut(&id);
            Ok(stream.is_some_and(|stream| stream.consumed(messages, size)))
        })
    }

    /// Send a ping, which the peer must answer.
    fn ping(&mut self) -> PyResult<()> {
        self.guarded(|connection| {
            if let Some(pings) = &mut connection.pings {
                let context = &mut Context::from_waker(Waker::noop());
                let _ = pings.poll_pong(context);
                // It fails while a ping is unanswered, so that none is needed.
                let _ = pings.send_ping(Ping::opaque());
            }
            Ok(())
        })
    }

    /// Refuse new calls, and close after the running ones.
    fn shut_down(&mut self) -> PyResult<()> {
        self.guarded(|connection| {
            match &mut connection.phase {
                Phase::Open(open) => open.graceful_shutdown(),
                Phase::Greeting(_) => connection.phase = Phase::Closed,
                Phase::Closed => {}
            }
            Ok(())
        })
    }

    /// Drop everything: nothing more is sent, and no more events are needed.
    fn close(&mut self) -> PyResult<()> {
        self.guarded(|connection| {
            connection.phase = Phase::Closed;
            connection.pings = None;
            connection.streams.clear();
            let mut buffers = connection.pipe.buffers();
            buffers.incoming = BytesMut::new();
            buffers.outgoing = BytesMut::new();
            Ok(())
        })
    }
}

impl Connection {
    /// Run `act`. A panic would end the caller's loop, and so all other connections. Instead it ends only
    /// this connection, for which `advance` returns events. The inconsistent state of h2 is not used any
    /// more, and not even freed.
    fn guarded<T: Default>(&mut self, act: impl FnOnce(&mut Self) -> PyResult<T>) -> PyResult<T> {
        catch_unwind(AssertUnwindSafe(|| act(self))).unwrap_or_else(|_| {
            mem::forget(mem::replace(&mut self.phase, Phase::Closed));
            mem::forget(mem::take(&mut self.streams));
            mem::forget(self.pings.take());
            self.has_failed = true;
            Ok(T::default())
        })
    }

    fn advance_all<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut events = Events::new(py);
        self.opened = 0;
        loop {
            let before = (events.len(), self.pipe.buffers().outgoing.len());
            self.accept(&mut events)?;
            self.advance_streams(&mut events)?;
            // Writes queued messages and released windows of streams, so that other streams may continue.
            self.accept(&mut events)?;
            if before == (events.len(), self.pipe.buffers().outgoing.len()) {
                break;
            }
        }
        if matches!(self.phase, Phase::Closed) {
            for id in mem::take(&mut self.streams).into_keys() {
                events.add(id, RESET, ())?;
            }
        }
        Ok(events.into_list())
    }

    /// Read and write, and accept new streams.
    fn accept(&mut self, events: &mut Events<'_>) -> PyResult<()> {
        let context = &mut Context::from_waker(Waker::noop());
        if let Phase::Greeting(greeting) = &mut self.phase {
            match Pin::new(greeting.as_mut()).poll(context) {
                Poll::Pending => {}
                Poll::Ready(Ok(mut connection)) => {
                    self.pings = connection.ping_pong();
                    self.phase = Phase::Open(Box::new(connection));
                }
                Poll::Ready(Err(_)) => self.phase = Phase::Closed,
            }
        }
        while let Phase::Open(connection) = &mut self.phase {
            let accepted = if self.opened < MOST_OPENED {
                connection.poll_accept(context)
            } else {
                connection.poll_closed(context).map(|_| None)
            };
            match accepted {
                Poll::Pending => break,
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.opened += 1;
                    let id = respond.stream_id().into();
                    events.add(id, OPENED, opened(&request))?;
                    self.streams.insert(id, Stream::new(id, request.into_body(), respond));
                }
                // h2 has sent the error to the peer.
                Poll::Ready(Some(Err(_)) | None) => {
                    self.phase = Phase::Closed;
                    self.pings = None;
                }
            }
        }
        Ok(())
    }

    fn advance_streams(&mut self, events: &mut Events<'_>) -> PyResult<()> {
        let context = &mut Context::from_waker(Waker::noop());
        let mut gone = Vec::new();
        for (id, stream) in &mut self.streams {
            match stream.advance(context, self.most, events)? {
                State::Open => {}
                State::Done => gone.push((*id, DONE)),
                State::Reset => gone.push((*id, RESET)),
            }
        }
        for (id, kind) in gone {
            // If the peer has not ended its side, h2 resets the stream after the response.
            self.streams.remove(&id);
            events.add(id, kind, ())?;
        }
        Ok(())
    }
}

/// The payload of `OPENED`: method, path, headers as text, and the number of their values. With too many
/// values there are no headers.
fn opened(request: &Request<RecvStream>) -> (&str, &str, Pairs, usize) {
    let values = request.headers().iter().map(|(name, value)| values(name, value)).sum();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let pairs = request.headers().iter().filter(|_| values <= MOST_VALUES);
    let headers = pairs.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    (request.method().as_str(), request.uri().path(), headers, values)
}

/// The number of values of a header: a binary header may have several, separated by commas.
fn values(name: &HeaderName, value: &HeaderValue) -> usize {
    if name.as_str().ends_with("-bin") { value.as_bytes().split(|byte| *byte == b',').count() } else { 1 }
}

fn response(metadata: Pairs) -> PyResult<Response<()>> {
    let mut head = Response::new(());
    *head.headers_mut() = headers(metadata)?;
    Ok(head)
}

fn headers(metadata: Pairs) -> PyResult<HeaderMap> {
    let mut map = HeaderMap::with_capacity(metadata.len());
    for (name, value) in metadata {
        let wrong = || PyValueError::new_err(format!("not a header of HTTP: {name}: {value:?}"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        map.append(key, HeaderValue::from_str(&value).map_err(|_| wrong())?);
    }
    Ok(map)
}

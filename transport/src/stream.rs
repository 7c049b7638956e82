//! One stream of a connection: received messages, and the response.

use std::mem;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Error, Reason, RecvStream, SendStream};
use http::{HeaderMap, Response};
use pyo3::prelude::*;

use crate::events::{COMPRESSED, ENDED, Events, REFUSED, WRITABLE};

/// Bytes of a message's prefix: a flag and the length.
const HEAD: usize = 5;

/// Number of bytes that wait for the peer's window, above which the writer has to wait.
const MOST_UNSENT: usize = 64 * 1024;

/// Number of bytes of new window for which alone the connection is advanced.
const ENOUGH_RELEASED: usize = 32 * 1024;

/// The state of a stream.
#[derive(PartialEq, Eq)]
pub enum State {
    /// It is in use.
    Open,
    /// The response was completely passed to h2.
    Done,
    /// The peer has reset it, or has disconnected.
    Reset,
}

/// One stream.
pub struct Stream {
    id: u32,
    /// None once the peer has ended its side, or after `stop_reading`.
    receive: Option<RecvStream>,
    respond: SendResponse<Bytes>,
    /// None before the headers of the response.
    send: Option<SendStream<Bytes>>,
    /// The received begin of a message.
    partial: BytesMut,
    /// Number of received bytes for which the peer has no new window yet.
    owed: usize,
    /// Bytes of complete messages that the caller has received and not consumed.
    held: usize,
    /// Bytes of new window since the last `advance`.
    released: usize,
    /// True once a complete message was received.
    was_heard: bool,
    unsent: BytesMut,
    trailers: Option<HeaderMap>,
    /// True while the writer waits.
    blocked: bool,
}

impl Stream {
    /// Use the handles of h2 for a new stream.
    pub fn new(id: u32, receive: RecvStream, respond: SendResponse<Bytes>) -> Self {
        Stream {
            id,
            receive: Some(receive),
            respond,
            send: None,
            partial: BytesMut::new(),
            owed: 0,
            held: 0,
            released: 0,
            was_heard: false,
            unsent: BytesMut::new(),
            trailers: None,
            blocked: false,
        }
    }

    /// True once the headers of the response were sent.
    pub fn has_head(&self) -> bool {
        self.send.is_some()
    }

    /// Send the headers of the response; with `end` nothing follows.
    pub fn head(&mut self, head: Response<()>, end: bool) -> Result<(), Error> {
        self.send = Some(self.respond.send_response(head, end)?);
        Ok(())
    }

    /// Queue a message; true if the writer has to wait for `WRITABLE`.
    pub fn message(&mut self, data: &[u8], size: u32) -> Result<bool, Error> {
        self.unsent.reserve(HEAD + data.len());
        self.unsent.put_u8(0);
        self.unsent.put_u32(size);
        self.unsent.put_slice(data);
        self.flush()?;
        self.blocked = self.unsent.len() > MOST_UNSENT;
        Ok(self.blocked)
    }

    /// End the response after all queued messages. Nothing more is read.
    pub fn finish(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
        self.stop_reading();
    }

    /// Read nothing more, and drop an incomplete message. The peer gets no new window.
    pub fn stop_reading(&mut self) {
        self.receive = None;
        self.partial = BytesMut::new();
    }

    /// Received bytes of an incomplete message: only of the first message, or with `any` of any message.
    pub fn unfinished(&self, any: bool) -> usize {
        if any || !self.was_heard { self.partial.len() } else { 0 }
    }

    /// Reset the stream.
    pub fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// Record that the caller has consumed `size` bytes of messages; true if the peer should get new window.
    pub fn consumed(&mut self, messages: usize, size: usize) -> bool {
        self.held = self.held.saturating_sub(size.saturating_add(messages.saturating_mul(HEAD)));
        self.release();
        self.released >= ENOUGH_RELEASED
    }

    /// Pass on received messages, and send queued bytes as far as the peer's window allows.
    pub fn advance(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
        events: &mut Events<'_>,
    ) -> PyResult<State> {
        self.released = 0;
        if !self.receive_all(context, most, events)? {
            return Ok(State::Reset);
        }
        let reset = match &mut self.send {
            Some(send) => send.poll_reset(context),
            None => self.respond.poll_reset(context),
        };
        if reset.is_ready() || self.flush().is_err() {
            return Ok(State::Reset);
        }
        if self.blocked && self.unsent.len() <= MOST_UNSENT / 2 {
            self.blocked = false;
            events.add(self.id, WRITABLE, ())?;
        }
        if !self.unsent.is_empty() {
            return Ok(State::Open);
        }
        let (Some(send), Some(trailers)) = (&mut self.send, self.trailers.take()) else {
            return Ok(State::Open);
        };
        Ok(if send.send_trailers(trailers).is_ok() { State::Done } else { State::Reset })
    }

    /// Read all received data; false if the stream was reset.
    fn receive_all(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
        events: &mut Events<'_>,
    ) -> PyResult<bool> {
        while let Some(receive) = &mut self.receive {
            match receive.poll_data(context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(data))) => self.split(&data, most, events)?,
                Poll::Ready(Some(Err(_))) => return Ok(false),
                Poll::Ready(None) => {
                    self.receive = None;
                    events.add(self.id, ENDED, !self.partial.is_empty())?;
                }
            }
        }
        Ok(true)
    }

    /// Split received data into messages. After a message larger than `most` nothing is read.
    fn split(&mut self, data: &[u8], most: usize, events: &mut Events<'_>) -> PyResult<()> {
        self.owed += data.len();
        if self.partial.is_empty() {
            let used = self.split_off(data, most, events)?;
            self.partial.extend_from_slice(&data[used..]);
        } else {
            let mut partial = mem::take(&mut self.partial);
            partial.extend_from_slice(data);
            let used = self.split_off(&partial, most, events)?;
            partial.advance(used);
            self.partial = partial;
        }
        self.release();
        Ok(())
    }

    /// Pass on the complete messages at the begin of `data`; returns their bytes, including prefixes.
    fn split_off(&mut self, data: &[u8], most: usize, events: &mut Events<'_>) -> PyResult<usize> {
        let mut rest = data;
        while let Some((&[flag, a, b, c, d], body)) = rest.split_first_chunk::<HEAD>() {
            let size = u32::from_be_bytes([a, b, c, d]) as usize;
            if size > most || flag > 1 {
                self.receive = None;
                events.add(self.id, REFUSED, (size, flag))?;
                break;
            }
            let Some((message, behind)) = body.split_at_checked(size) else {
                break;
            };
            if flag == 0 {
                events.message(self.id, message)?;
            } else {
                events.add(self.id, COMPRESSED, message)?;
            }
            self.was_heard = true;
            self.held += HEAD + size;
            rest = behind;
        }
        Ok(data.len() - rest.len())
    }

    /// Give the peer new window. While complete messages wait, it gets none for the data after them, so that
    /// a stream holds at most its window and one message.
    fn release(&mut self) {
        let kept = if self.held == 0 { 0 } else { self.held + self.partial.len() };
        let size = self.owed.saturating_sub(kept);
        if let (Some(receive), 1..) = (&mut self.receive, size) {
            // It fails only for more bytes than were received.
            let _ = receive.flow_control().release_capacity(size);
            self.owed -= size;
            self.released += size;
        }
    }

    /// Send queued bytes, as far as the window allows.
    fn flush(&mut self) -> Result<(), Error> {
        let Some(send) = &mut self.send else {
            return Ok(());
        };
        while !self.unsent.is_empty() {
            send.reserve_capacity(self.unsent.len());
            let size = send.capacity().min(self.unsent.len());
            if size == 0 {
                break;
            }
            send.send_data(self.unsent.split_to(size).freeze(), false)?;
        }
        Ok(())
    }
}

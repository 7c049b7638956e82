//! One stream of a connection: messages that come in, and the response that goes out.

use std::mem;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Error, Reason, RecvStream, SendStream};
use http::{HeaderMap, Response};
use pyo3::prelude::*;

use crate::events::{COMPRESSED, ENDED, Events, REFUSED, WRITABLE};

/// Bytes of a message's head: a flag, and the length.
const HEAD: usize = 5;

/// Bytes of messages that wait for the peer's window, above which their writer has to wait.
const MOST_UNSENT: usize = 64 * 1024;

/// Bytes of new window that are worth a turn of the connection by themselves.
const ENOUGH_RELEASED: usize = 32 * 1024;

/// What has become of a stream.
#[derive(PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Open,
    /// The response was handed over whole.
    Done,
    /// The peer has reset it, or has gone.
    Reset,
}

/// One stream.
pub struct Stream {
    id: u32,
    /// None once the peer has ended its side, or nothing more of it is wanted.
    receive: Option<RecvStream>,
    respond: SendResponse<Bytes>,
    /// None before the head of the response.
    send: Option<SendStream<Bytes>>,
    /// The begin of a message.
    partial: BytesMut,
    /// Bytes received for which the peer has got no new window.
    owed: usize,
    /// Bytes of whole messages that the caller has got and not consumed.
    held: usize,
    /// Bytes of new window since the last `advance`.
    released: usize,
    /// True once a whole message has come.
    was_heard: bool,
    unsent: BytesMut,
    trailers: Option<HeaderMap>,
    /// True while the writer waits.
    blocked: bool,
}

impl Stream {
    /// Over the handles that h2 gives for a new stream.
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

    /// True once the head of the response has gone.
    pub fn has_head(&self) -> bool {
        self.send.is_some()
    }

    /// Send the head of the response, and with `end` nothing more.
    pub fn head(&mut self, head: Response<()>, end: bool) -> Result<(), Error> {
        self.send = Some(self.respond.send_response(head, end)?);
        Ok(())
    }

    /// Queue a message behind the head; true if the writer has to wait for `WRITABLE`.
    pub fn message(&mut self, data: &[u8], size: u32) -> Result<bool, Error> {
        self.unsent.reserve(HEAD + data.len());
        self.unsent.put_u8(0);
        self.unsent.put_u32(size);
        self.unsent.put_slice(data);
        self.flush()?;
        self.blocked = self.unsent.len() > MOST_UNSENT;
        Ok(self.blocked)
    }

    /// End the response behind what waits. Nothing more is read.
    pub fn finish(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
        self.stop_reading();
    }

    /// Read nothing more, and drop what has come of a message. The peer gets no new window.
    pub fn stop_reading(&mut self) {
        self.receive = None;
        self.partial = BytesMut::new();
    }

    /// Bytes of a message that is not whole: of the first one, or of `any`.
    pub fn unfinished(&self, any: bool) -> usize {
        if any || !self.was_heard { self.partial.len() } else { 0 }
    }

    /// Reset it.
    pub fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// The caller has consumed so many messages of so many bytes; true if the peer should hear of it.
    pub fn consumed(&mut self, messages: usize, size: usize) -> bool {
        self.held = self.held.saturating_sub(size.saturating_add(messages.saturating_mul(HEAD)));
        self.release();
        self.released >= ENOUGH_RELEASED
    }

    /// Hand over what has come, and send what waits as far as the peer's window goes.
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

    /// Read all that h2 has; false if the stream was reset.
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

    /// Split what has come into messages. Behind one that is larger than `most` nothing is read.
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

    /// Hand over the whole messages at the begin of `data`; returns their bytes with their heads.
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

    /// Give the peer new window. While whole messages wait, it gets none for what is behind them: so
    /// a stream keeps no more than its window and one message.
    fn release(&mut self) {
        let kept = if self.held == 0 { 0 } else { self.held + self.partial.len() };
        let size = self.owed.saturating_sub(kept);
        if let (Some(receive), 1..) = (&mut self.receive, size) {
            // It fails only for more than has come.
            let _ = receive.flow_control().release_capacity(size);
            self.owed -= size;
            self.released += size;
        }
    }

    /// Send what waits, as far as the window goes.
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

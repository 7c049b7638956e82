//! The two directions of a connection in memory: h2 reads and writes them like a socket.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of unsent bytes above which h2 has to wait, so that it reads no more requests.
const MOST_OUTGOING: usize = 256 * 1024;

/// The waiting bytes of each direction.
#[derive(Default)]
pub struct Buffers {
    /// Received bytes that h2 has not read.
    pub incoming: BytesMut,
    /// Bytes that h2 has written and the caller has not sent.
    pub outgoing: BytesMut,
}

/// One of two handles of the same buffers, for h2 and for the connection.
#[derive(Clone, Default)]
pub struct Pipe(Arc<Mutex<Buffers>>);

impl Pipe {
    /// The buffers. They are plain bytes, so they are consistent even after a panic elsewhere.
    pub fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut buffers = self.buffers();
        if buffers.incoming.is_empty() {
            return Poll::Pending;
        }
        let size = buf.remaining().min(buffers.incoming.len());
        buf.put_slice(&buffers.incoming[..size]);
        buffers.incoming.advance(size);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut buffers = self.buffers();
        if buffers.outgoing.len() >= MOST_OUTGOING {
            return Poll::Pending;
        }
        buffers.outgoing.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

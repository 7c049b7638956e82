//! The two directions of a connection, in memory: h2 reads and writes them as it would a socket.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that wait to be sent above which h2 has to wait, and so reads nothing more that wants an answer.
const MOST_OUTGOING: usize = 256 * 1024;

/// What waits in each direction.
#[derive(Default)]
pub struct Buffers {
    /// Received, and not read by h2 yet.
    pub incoming: BytesMut,
    /// Written by h2, and not sent yet.
    pub outgoing: BytesMut,
}

/// One of two handles on the same buffers: that of h2, and that of the connection.
#[derive(Clone, Default)]
pub struct Pipe(Arc<Mutex<Buffers>>);

impl Pipe {
    /// The buffers. They hold plain bytes, which no panic elsewhere can have left half-way.
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

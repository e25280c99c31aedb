//! An HTTP server on loopback whose handlers can cut the line.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The server. Dropping it stops it from taking more connections.
#[derive(Debug)]
pub(crate) struct Loopback {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Loopback {
    /// Serves `router` on a free port of 127.0.0.1.
    pub(crate) async fn serve(router: Router) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service = router.into_make_service_with_connect_info::<Line>();
        let task = tokio::spawn(async move {
            // Serving ends with the task only: accepting retries by itself.
            let _ = axum::serve(CuttableListener(listener), service).await;
        });
        Ok(Self { address, task })
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A handler's grip on the connection that its request came in by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    is_cut: Arc<AtomicBool>,
}

impl Line {
    /// From now on nothing more is written: the client sees the connection end without an answer.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }
}

impl Connected<IncomingStream<'_, CuttableListener>> for Line {
    fn connect_info(stream: IncomingStream<'_, CuttableListener>) -> Self {
        stream.remote_addr().clone()
    }
}

struct CuttableListener(TcpListener);

impl Listener for CuttableListener {
    type Io = CuttableStream;
    type Addr = Line;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, _) = Listener::accept(&mut self.0).await;
        // Small pieces are sent as they are; a failure costs time only.
        let _ = stream.set_nodelay(true);
        let line = Line::default();
        (CuttableStream { stream, line: line.clone() }, line)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Line::default())
    }
}

struct CuttableStream {
    stream: TcpStream,
    line: Line,
}

impl CuttableStream {
    fn check(&self) -> io::Result<()> {
        if self.line.is_cut.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for CuttableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CuttableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

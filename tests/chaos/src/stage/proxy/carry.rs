//! Carries one connection from its client to PostgreSQL and back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::frames::Frames;
use super::line::Line;
use super::talk::{Asks, Prepared, Talk};

/// Carries until either side closes or the line is cut; then both sides are closed, whatever is on the way.
pub(super) async fn carry(client: TcpStream, upstream: PathBuf, line: Arc<Line>) {
    // Small messages leave at once, as they would without a proxy.
    let _ = client.set_nodelay(true);
    let talk = Talk::default();
    let cut = line.cut();
    let through = async {
        line.open(&talk).await;
        let Ok(server) = UnixStream::connect(&upstream).await else { return };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::select! {
            () = requests(from_client, to_server, &line, &talk) => {}
            () = answers(from_server, to_client, &line, &talk) => {}
        }
    };
    tokio::select! {
        () = through => {}
        () = cut => {}
    }
}

async fn requests(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    line: &Line,
    talk: &Talk,
) {
    let (mut frames, mut prepared) = (Frames::of_client(), Prepared::default());
    let mut out = BytesMut::new();
    while from.read_buf(frames.more()).await.is_ok_and(|read| read > 0) {
        while let Ok(Some(frame)) = frames.next() {
            match prepared.read(&frame) {
                Asks::Listen => talk.listens.store(true, Ordering::SeqCst),
                // Said before the request leaves: its answer comes after.
                Asks::Commit if line.takes_a_drop() => talk.swallow.store(true, Ordering::SeqCst),
                Asks::Notify(server) => line.belongs_to(server),
                Asks::Commit | Asks::Else => {}
            }
            out.extend_from_slice(&frame.bytes);
        }
        if frames.next().is_err() || !pass(&mut out, &mut to, line, talk).await {
            return;
        }
    }
}

async fn answers(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    line: &Line,
    talk: &Talk,
) {
    let mut frames = Frames::of_server();
    let mut out = BytesMut::new();
    while from.read_buf(frames.more()).await.is_ok_and(|read| read > 0) {
        let swallow = talk.is(|talk| &talk.swallow);
        while let Ok(Some(frame)) = frames.next() {
            // ReadyForQuery: what was asked for is done, and the client won't hear of it.
            if swallow && frame.is(b'Z') {
                line.dropped();
                return;
            }
            let lost = frame.is(b'A') && line.loses_notifications();
            if !swallow && !lost {
                out.extend_from_slice(&frame.bytes);
            }
        }
        if frames.next().is_err() || !pass(&mut out, &mut to, line, talk).await {
            return;
        }
    }
}

/// Passes on what is there, when the line lets it; false when the other side is gone.
async fn pass(out: &mut BytesMut, to: &mut (impl AsyncWriteExt + Unpin), line: &Line, talk: &Talk) -> bool {
    if out.is_empty() {
        return true;
    }
    match line.delay() {
        Duration::ZERO => {}
        delay => tokio::time::sleep(delay).await,
    }
    line.open(talk).await;
    let passed = to.write_all(out).await.is_ok();
    out.clear();
    passed
}

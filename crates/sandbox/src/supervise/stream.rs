//! Pipes that are read without waiting.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Pieces that are read before all else is looked at again: a pipe's fill, at its largest.
const MOST_PIECES: usize = 17;

/// One end of a pipe that is read without waiting.
#[derive(Debug)]
pub(super) struct Stream {
    pipe: PipeReader,
    pub(super) is_open: bool,
}

impl Stream {
    pub(super) fn new(pipe: PipeReader) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&pipe, FcntlArg::F_GETFL)?);
        fcntl(&pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self { pipe, is_open: true })
    }

    /// Takes what is there, so much at most that whoever writes without end doesn't keep us from all else.
    pub(super) fn read(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        for _ in 0..MOST_PIECES {
            match self.pipe.read(&mut piece) {
                Ok(0) => {
                    self.is_open = false;
                    return Ok(());
                }
                Ok(bytes) => take(&piece[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

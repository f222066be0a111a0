//! A stream that writes down all that goes through it.

use std::io::{self, Read, Write};

pub(crate) struct Recorded<S> {
    stream: S,
    pub(crate) read: Vec<u8>,
    pub(crate) written: Vec<u8>,
}

impl<S> Recorded<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, read: Vec::new(), written: Vec::new() }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: Read> Read for Recorded<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(buffer)?;
        self.read.extend(&buffer[..length]);
        Ok(length)
    }
}

impl<S: Write> Write for Recorded<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let length = self.stream.write(buffer)?;
        self.written.extend(&buffer[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

//! How a file is opened.

use units::Bytes;

use crate::engine::Engine;
use crate::target::Mode;

/// What the kernel is told of how a file is read through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// Nothing: it sees by itself.
    #[default]
    None,
    /// Anywhere: it reads what is asked for and no more.
    Random,
    /// In order: it reads further ahead.
    Sequential,
}

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Past the page cache or through it.
    pub mode: Mode,
    /// The engine; the cheapest for the target if not given.
    pub engine: Option<Engine>,
    /// Whether the kernel may read ahead when it sees sequential reads. Without effect on direct I/O.
    pub readahead: bool,
    /// What the kernel is told of how the file is read. Without effect on direct I/O.
    pub advice: Advice,
    /// Whether requests through the page cache may begin and end at any byte, not at whole sectors alone.
    pub any_bytes: bool,
    /// A file may be written up to here, whatever it holds now: it grows as it is written. Without effect on block
    /// devices.
    pub grows: Option<Bytes>,
    /// Whether what the page cache holds of the file is dropped first, after writing back what is dirty; the engine is
    /// then chosen for a file that must be waited for.
    pub cold: bool,
    /// Whether the task's own thread copies from and into the page cache, where the engine is a ring.
    ///
    /// A read is tried without waiting; if a page is missing, the ring waits for it. A task whose reads are all there
    /// waits for none of them, so that it has to let others go on by itself. Most file systems cannot promise not to
    /// wait for a page that is written, and the ring then hands each write to a kernel worker; the copy itself is the
    /// cheaper by far. While the kernel holds writers back (too much is dirty), the whole thread waits. Durable writes
    /// go through the ring all the same.
    pub copies: bool,
}

impl FileOptions {
    /// Past the page cache.
    pub fn direct() -> FileOptions {
        FileOptions {
            mode: Mode::Direct,
            engine: None,
            readahead: true,
            advice: Advice::None,
            any_bytes: false,
            grows: None,
            cold: false,
            copies: false,
        }
    }
    /// Through the page cache.
    pub fn buffered() -> FileOptions {
        FileOptions { mode: Mode::Buffered, ..FileOptions::direct() }
    }
    /// By this engine and no other.
    pub fn by(self, engine: Engine) -> FileOptions {
        FileOptions { engine: Some(engine), ..self }
    }
    /// With copies from and into the page cache made by the task's own thread.
    pub fn copying(self) -> FileOptions {
        FileOptions { copies: true, ..self }
    }
    /// Without reading ahead.
    pub fn without_readahead(self) -> FileOptions {
        FileOptions { readahead: false, ..self }
    }
}

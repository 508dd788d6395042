//! What is loaded in real time: a file or block device, one behind a server, several as one, or nothing.

use device::{Device, NullDevice, Reply, Request, Shape};
use nbd::Client;
use uring::{Choice, FileDevice};

use crate::ensemble::{Ensemble, Forget};

/// A real device, one behind a server, or none.
pub(crate) enum LiveDevice {
    File(FileDevice),
    Nbd(Client),
    Null(NullDevice),
    Ensemble(Ensemble<Single>),
}

/// A part of an ensemble.
pub(crate) enum Single {
    File(FileDevice),
    Null(NullDevice),
}

impl Single {
    fn file(&self) -> Option<&FileDevice> {
        match self {
            Single::File(file) => Some(file),
            Single::Null(_) => None,
        }
    }
}

impl Forget for Single {
    fn forget(&self) {
        self.file().inspect(|file| file.forget_cache());
    }
}

impl Device for Single {
    fn shape(&self) -> &Shape {
        match self {
            Single::File(file) => file.shape(),
            Single::Null(null) => null.shape(),
        }
    }
    async fn submit(&self, request: Request) -> Reply {
        match self {
            Single::File(file) => file.submit(request).await,
            Single::Null(null) => null.submit(request).await,
        }
    }
}

impl LiveDevice {
    pub(super) fn choice(&self) -> Option<Choice> {
        match self {
            LiveDevice::File(file) => Some(file.choice().clone()),
            LiveDevice::Ensemble(ensemble) => Some(ensemble.parts()[0].file()?.choice().clone()),
            LiveDevice::Nbd(_) | LiveDevice::Null(_) => None,
        }
    }

    /// Forgets what the page cache holds and is clean, without waiting for the rest.
    pub(super) fn forget_cache(&self) {
        match self {
            LiveDevice::File(file) => file.forget_cache(),
            LiveDevice::Ensemble(ensemble) => {
                ensemble.parts().iter().filter_map(Single::file).for_each(FileDevice::forget_cache);
            }
            LiveDevice::Nbd(_) | LiveDevice::Null(_) => {}
        }
    }

    /// Forgets what the page cache holds. A file system that cannot is measured with its cache, which the advice on the
    /// run will notice; there is nothing else to be done about it here.
    pub(super) fn drop_cache(&self) {
        match self {
            LiveDevice::File(file) => drop(file.drop_cache()),
            LiveDevice::Ensemble(ensemble) => {
                ensemble.parts().iter().filter_map(Single::file).for_each(|file| drop(file.drop_cache()));
            }
            LiveDevice::Nbd(_) | LiveDevice::Null(_) => {}
        }
    }
}

impl Device for LiveDevice {
    fn shape(&self) -> &Shape {
        match self {
            LiveDevice::File(file) => file.shape(),
            LiveDevice::Nbd(client) => client.shape(),
            LiveDevice::Null(null) => null.shape(),
            LiveDevice::Ensemble(ensemble) => ensemble.shape(),
        }
    }
    async fn submit(&self, request: Request) -> Reply {
        match self {
            LiveDevice::Ensemble(ensemble) => ensemble.submit(request).await,
            LiveDevice::File(file) => file.submit(request).await,
            LiveDevice::Nbd(client) => client.submit(request).await,
            LiveDevice::Null(null) => null.submit(request).await,
        }
    }
}

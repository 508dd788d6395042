//! What is loaded in real time: a file or block device, one behind a server, several as one, or nothing.

use std::time::Instant;

use device::filter::{Pace, Slow};
use device::{Device, NullDevice, Reply, Request, Shape};
use nbd::Client;
use units::{Duration, Ratio};
use uring::{Choice, FileDevice, Live};

use crate::ensemble::{Ensemble, Forget};
use crate::slow;

/// A real device, one behind a server, or none; as it is, or held up on purpose.
pub(crate) enum LiveDevice {
    Plain(Bare),
    HeldUp(HeldUp),
}

/// One that is held up, by a generator that computes for each request, and by a device in slow motion.
pub(crate) struct HeldUp {
    computing: Duration,
    device: Slow<Bare>,
}

/// A real device, one behind a server, or none.
pub(crate) enum Bare {
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

impl Bare {
    fn choice(&self) -> Option<Choice> {
        match self {
            Bare::File(file) => Some(file.choice().clone()),
            Bare::Ensemble(ensemble) => Some(ensemble.parts()[0].file()?.choice().clone()),
            Bare::Nbd(_) | Bare::Null(_) => None,
        }
    }

    /// Forgets what the page cache holds and is clean, without waiting for the rest.
    fn forget_cache(&self) {
        match self {
            Bare::File(file) => file.forget_cache(),
            Bare::Ensemble(ensemble) => {
                ensemble.parts().iter().filter_map(Single::file).for_each(FileDevice::forget_cache);
            }
            Bare::Nbd(_) | Bare::Null(_) => {}
        }
    }

    /// Makes its files anew.
    fn make_anew(&self) -> std::io::Result<()> {
        match self {
            Bare::File(file) => file.make_anew(),
            Bare::Ensemble(ensemble) => {
                ensemble.parts().iter().filter_map(Single::file).try_for_each(FileDevice::make_anew)
            }
            Bare::Nbd(_) | Bare::Null(_) => unreachable!("streams go through files only where there are some"),
        }
    }

    /// Forgets what the page cache holds. A file system that cannot is measured with its cache, which the advice on the
    /// run will notice; there is nothing else to be done about it here.
    fn drop_cache(&self) {
        match self {
            Bare::File(file) => drop(file.drop_cache()),
            Bare::Ensemble(ensemble) => {
                ensemble.parts().iter().filter_map(Single::file).for_each(|file| drop(file.drop_cache()));
            }
            Bare::Nbd(_) | Bare::Null(_) => {}
        }
    }
}

impl Device for Bare {
    fn shape(&self) -> &Shape {
        match self {
            Bare::File(file) => file.shape(),
            Bare::Nbd(client) => client.shape(),
            Bare::Null(null) => null.shape(),
            Bare::Ensemble(ensemble) => ensemble.shape(),
        }
    }
    async fn submit(&self, request: Request) -> Reply {
        match self {
            Bare::Ensemble(ensemble) => ensemble.submit(request).await,
            Bare::File(file) => file.submit(request).await,
            Bare::Nbd(client) => client.submit(request).await,
            Bare::Null(null) => null.submit(request).await,
        }
    }
}

impl LiveDevice {
    /// The device, held up as is asked for.
    pub(super) fn new(live: &Live, bare: Bare, slow: &[crate::slow::Slow], index: usize) -> LiveDevice {
        let (of_device, computing) = (slow::of_device(slow, index), slow::of_generator(slow));
        if of_device.is_none() && computing == Duration::ZERO {
            return LiveDevice::Plain(bare);
        }
        let still = Pace { by: Ratio::ZERO, beyond: Duration::ZERO, at_once: None };
        LiveDevice::HeldUp(HeldUp { computing, device: Slow::new(live.runtime(), bare, of_device.unwrap_or(still)) })
    }

    fn bare(&self) -> &Bare {
        match self {
            LiveDevice::Plain(bare) => bare,
            LiveDevice::HeldUp(held) => held.device.inner(),
        }
    }

    /// How requests reach the kernel.
    pub(super) fn choice(&self) -> Option<Choice> {
        self.bare().choice()
    }

    /// Makes its files anew.
    pub(super) fn make_anew(&self) -> std::io::Result<()> {
        self.bare().make_anew()
    }

    /// Forgets what the page cache holds and is clean, without waiting for the rest.
    pub(super) fn forget_cache(&self) {
        self.bare().forget_cache();
    }

    /// Forgets what the page cache holds.
    pub(super) fn drop_cache(&self) {
        self.bare().drop_cache();
    }
}

/// A thread that computes does nothing else: that is what is meant.
fn compute(time: Duration) {
    let until = Instant::now() + std::time::Duration::from_nanos(time.as_nanos());
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

impl Device for LiveDevice {
    fn shape(&self) -> &Shape {
        self.bare().shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        match self {
            LiveDevice::Plain(bare) => bare.submit(request).await,
            LiveDevice::HeldUp(held) => {
                // Half of what a request costs comes before it, and half after, as others are under way.
                compute(held.computing / 2);
                let reply = held.device.submit(request).await;
                compute(held.computing / 2);
                reply
            }
        }
    }
}

//! A disk where it hangs: on a string, behind its adapter.

use std::rc::Rc;

use runtime::Resource;
use units::{Bytes, Rate};

use super::disk::{DiskParameters, ScsiDisk};
use super::string::Channel;
use super::target::{BLOCK, Target};
use crate::adapter::Unit;
use crate::component::{Component, Site};
use crate::endpoint::Endpoint;
use crate::load::{Gauges, Reading};
use crate::part::PartError;

/// A disk where it hangs.
pub fn build(site: &Site) -> Result<Rc<dyn Component>, PartError> {
    let channel = site.find::<Channel>().ok_or_else(|| {
        let message = "a disk on a string needs an adapter that hands it its commands; on a string of an I/O board stand disk arrays";
        site.fault("on", message.to_owned())
    })?;
    if !channel.adapter.has_queue_for_another() {
        let most = channel.adapter.parameters.work_queues;
        return Err(site.fault("on", format!("its adapter has work queues for at most {most} devices")));
    }
    let parameters = DiskParameters::read(site.part)?;
    let disk = Rc::new(ScsiDisk::new(parameters, site.place as u8, site.name, site.seed, site.trace));
    let unit = Unit {
        adapter: Rc::clone(&channel.adapter),
        string: channel.string.clone(),
        target: Rc::clone(&disk) as Rc<dyn Target>,
        size: BLOCK * disk.blocks(),
        work_queue: Resource::new(site.runtime, 1),
    };
    Ok(Rc::new(Attached { disk, unit: Rc::new(unit), channel }))
}

/// A disk on a string.
pub struct Attached {
    /// The disk itself.
    pub disk: Rc<ScsiDisk>,
    /// How to reach it.
    pub unit: Rc<Unit>,
    /// What it hangs on.
    pub channel: Rc<Channel>,
}

impl Attached {
    /// How much it stores.
    pub fn size(&self) -> Bytes {
        self.unit.size
    }
}

impl Component for Attached {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.unit.busy()));
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.disk.drive().mechanism.outer_rate())
    }
    fn endpoint(self: Rc<Self>) -> Option<Rc<dyn Endpoint>> {
        Some(Rc::clone(&self.unit) as Rc<dyn Endpoint>)
    }
}

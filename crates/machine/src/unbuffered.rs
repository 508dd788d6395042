//! A drive without a buffer: what passes the heads goes to the controller, or is lost for a turn.
//!
//! # Theory
//! Consecutive sectors pass at one sector time each, on the track where the arm and the selected head are. To another
//! cylinder the arm takes what Lee's curve through three times of the data sheet says ([`crate::disk::seek`]); another
//! head of the same cylinder is selected by a switch. Without skew, a head switch that takes time loses a turn.
//!
//! A controller positions the arm and waits for a sector (*search*), or moves data; what stands between the drive and
//! memory is the controller's ([`crate::massbus`], [`crate::mscp`]).
//!
//! No two motors turn alike: each drive's speed is drawn once from the `tolerance` around the nominal one. So the
//! heads of two drives that are in each other's way at one moment are not a minute later. All of a turn's share is the
//! nominal one in what the file system believes.
//!
//! # Rejected
//! The peak rates of the data sheets (2.2 and 1.859 MB/s): they are those within a sector. Gaps and headers take the
//! rest of the turn, and only what passes in a turn can be moved.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt;
use record::PartName;
use runtime::Runtime;
use units::{Bytes, Duration, Frequency, Instant, Rate, Ratio};

use crate::attendance::Attendance;
use crate::component::{Component, Kind, Site};
use crate::disk::geometry::{Geometry, Layout, Mapping, Sparing, ZoneLayout};
use crate::disk::mechanism::{Access, Arm, Mechanism, Run};
use crate::disk::rotation::Spindle;
use crate::disk::seek::SeekCurve;
use crate::endpoint::{Endpoint, Executing, Positioned, Tracks};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::massbus::Massbus;
use crate::mscp::Mscp;
use crate::part::{PartError, Problem, Reader};
use crate::scsi::protocol::Passage;
use crate::scsi::target::{BLOCK, Command};
use crate::trace::Ledger;
use crate::track_buffer::TrackBuffer;

/// Such a drive, on a controller that takes its data as they pass.
pub const KIND: Kind = Kind {
    name: "unbuffered-drive",
    on: &["massbus-adapter", "mscp-controller"],
    fast: &[],
    build: |site| {
        let parameters = site.parameters(read)?;
        let behind = match (site.find::<Massbus>(), site.find::<Mscp>()) {
            (Some(massbus), _) => Behind::Massbus(massbus),
            (None, Some(mscp)) => Behind::Mscp(mscp),
            (None, None) => unreachable!("the kind says what it stands on"),
        };
        Ok(Rc::new(Drive { medium: Rc::new(Medium::new(site, parameters)), behind }))
    },
};

/// What distinguishes one drive from another.
#[derive(Debug, Clone)]
struct DriveParameters {
    mechanism: Mechanism,
    /// How far the speed may be from the nominal one, either way.
    tolerance: f64,
    tracks: Tracks,
}

fn read(reader: &Reader) -> Result<DriveParameters, PartError> {
    let (sectors, surfaces) = (reader.count("sectors", 4096)?, reader.count("heads", 256)?);
    let cylinders = reader.count("cylinders", 1 << 20)?;
    let speed = |key: &'static str| -> Result<Frequency, PartError> {
        let speed: Frequency = reader.get(key)?;
        if !(60.0..=60_000.0).contains(&(speed.get() * 60.0)) {
            return Err(reader.fault(key, Problem::OutOfRange { accepted: "a speed from 60 to 60000 rpm".into() }));
        }
        Ok(speed)
    };
    let (turns, believed) = (speed("speed")?, speed("disktab-speed")?);
    let [single, average, full] = {
        let seek = reader.table("seek")?;
        let times = [seek.get("single")?, seek.get("average")?, seek.get("full")?];
        seek.done()?;
        times
    };
    if !(single <= average && average <= full && full <= Duration::seconds(60)) {
        let accepted = "single <= average <= full <= 60 s".into();
        return Err(reader.fault("seek", Problem::OutOfRange { accepted }));
    }
    let blocks = u64::from(sectors) * u64::from(surfaces) * u64::from(cylinders);
    let zone = ZoneLayout {
        first_cylinder: 0,
        last_cylinder: cylinders - 1,
        sectors,
        offset: 0.0,
        reserved: 0,
        track_skew: 0.0,
        cylinder_skew: 0.0,
        spares: 0,
        slips: Vec::new(),
        remaps: Vec::new(),
    };
    let (mapping, sparing, zones) = (Mapping::Straight, Sparing::None, vec![zone]);
    let layout = Layout { surfaces, cylinders, blocks, mapping, sparing, zones };
    let geometry =
        Geometry::new(&layout).map_err(|error| reader.fault("sectors", Problem::Contradiction(error.to_string())))?;
    let mechanism = Mechanism {
        geometry,
        seek: SeekCurve::lee(single, average, full, cylinders),
        spindle: Spindle::new(turns),
        head_switch: reader.get("head-switch")?,
        write_settle_ns: 0,
    };
    let tracks = Tracks {
        sectors: u64::from(sectors),
        heads: u64::from(surfaces),
        cylinders: u64::from(cylinders),
        turns: believed.get() as u64,
    };
    let tolerance = reader.find::<Ratio>("speed-tolerance")?.unwrap_or(Ratio::ZERO).get();
    if tolerance > 0.1 {
        return Err(reader.fault("speed-tolerance", Problem::OutOfRange { accepted: "0 % to 10 %".into() }));
    }
    Ok(DriveParameters { mechanism, tolerance, tracks })
}

/// The part of a drive that moves: the arm, the heads, the platters.
pub(crate) struct Medium {
    pub runtime: Runtime,
    pub part: PartName,
    pub tracks: Tracks,
    mechanism: Mechanism,
    arm: Cell<Arm>,
    /// For how long it moved or read or wrote.
    pub attendance: Attendance,
    /// Turns that were lost.
    pub lost: Cell<u64>,
    /// For how long data passed.
    pub passing: Cell<Duration>,
    /// A controller that lets drives work at once works on a command of it.
    pub taken: Cell<bool>,
    /// At which angle it stands when the machine starts, as a time.
    phase: Duration,
    /// The controller's track buffer for this drive.
    pub buffer: TrackBuffer,
}

impl Medium {
    fn new(site: &Site, parameters: DriveParameters) -> Medium {
        let DriveParameters { mut mechanism, tolerance, tracks } = parameters;
        let mut random = runtime::Random::named(site.seed, &format!("{} spindle", site.name));
        let nominal = 1.0 / mechanism.spindle.period().as_seconds();
        let off = tolerance * (2.0 * random.random::<f64>() - 1.0);
        mechanism.spindle = Spindle::new(Frequency::per_second(nominal * (1.0 + off)));
        let period = mechanism.spindle.period();
        Medium {
            runtime: site.runtime.clone(),
            part: site.trace.part(site.name),
            tracks,
            phase: period.scale(random.random()),
            mechanism,
            arm: Cell::new(Arm { cylinder: 0, head: 0 }),
            attendance: Attendance::default(),
            lost: Cell::default(),
            taken: Cell::default(),
            passing: Cell::default(),
            buffer: TrackBuffer::new(tracks.sectors),
        }
    }

    /// How much it stores.
    pub fn size(&self) -> Bytes {
        BLOCK * self.mechanism.geometry.blocks()
    }

    /// One revolution.
    pub fn period(&self) -> Duration {
        self.mechanism.spindle.period()
    }

    /// One sector.
    pub fn sector(&self) -> Duration {
        self.period() / self.tracks.sectors
    }

    /// What passes in a turn.
    pub fn rate(&self) -> Rate {
        self.mechanism.outer_rate()
    }

    /// The run of a block from the arm as it stands at an instant.
    pub fn run(&self, at: Instant, block: u64, write: bool) -> Run {
        let access = if write { Access::Write } else { Access::Read };
        let run = self.mechanism.run(self.arm.get(), at + self.phase, block, access);
        Run { begins: Instant::from_nanos(run.begins.as_nanos() - self.phase.as_nanos()), ..run }
    }

    /// The arm goes to that track now.
    pub fn stand(&self, run: &Run) {
        self.buffer.turn_to(run.first, self.runtime.now());
        self.arm.set(run.arm);
    }

    /// How many of so many blocks, from one on, are in the controller's buffer at an instant, before one that is not.
    pub fn buffered(&self, block: u64, most: u64, at: Instant) -> u64 {
        (block..block + most).take_while(|block| self.has(*block, at)).count() as u64
    }

    /// How many are not there, before one that is.
    pub fn missing(&self, block: u64, most: u64, at: Instant) -> u64 {
        (block..block + most).take_while(|block| !self.has(*block, at)).count() as u64
    }

    fn has(&self, block: u64, at: Instant) -> bool {
        self.buffer.has(block, at, |since, block| self.passed(since, block))
    }

    /// The instant at which a block has passed under the heads, if they are on its track from `since` on.
    fn passed(&self, since: Instant, block: u64) -> Instant {
        let angle = self.mechanism.geometry.extent(block).angle;
        since + self.mechanism.spindle.wait(since + self.phase, angle) + self.sector()
    }

    /// The sector that passes now.
    pub fn passes(&self) -> u64 {
        let angle = self.mechanism.spindle.angle(self.runtime.now() + self.phase).as_revolutions();
        (angle * self.tracks.sectors as f64) as u64 % self.tracks.sectors
    }

    /// The cylinder of a block.
    pub fn cylinder_of(&self, block: u64) -> u64 {
        block / (self.tracks.sectors * self.tracks.heads)
    }

    /// How many cylinders the arm is away from a block.
    pub fn distance(&self, block: u64) -> u64 {
        self.cylinder_of(block).abs_diff(u64::from(self.arm.get().cylinder))
    }

    /// A block of the cylinder of this one that lies so many sectors before it.
    pub fn before(&self, block: u64, sectors: u64) -> u64 {
        let (track, sector) = (block / self.tracks.sectors, block % self.tracks.sectors);
        track * self.tracks.sectors
            + (sector + self.tracks.sectors - sectors % self.tracks.sectors) % self.tracks.sectors
    }
}

/// One such drive.
struct Drive {
    medium: Rc<Medium>,
    behind: Behind,
}

/// What it stands on.
enum Behind {
    Massbus(Rc<Massbus>),
    Mscp(Rc<Mscp>),
}

impl Component for Drive {
    fn gauges(&self, gauges: &mut Gauges) {
        let medium = &self.medium;
        gauges.put("", Reading::Present(medium.attendance.sum(medium.runtime.now())));
        gauges.put("data", Reading::Busy(medium.passing.get()));
        gauges.put("lost turns", Reading::Count(medium.lost.get()));
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.medium.rate())
    }
    fn endpoint(self: Rc<Self>) -> Option<Rc<dyn Endpoint>> {
        Some(self)
    }
}

impl Endpoint for Drive {
    fn size(&self) -> Bytes {
        self.medium.size()
    }
    fn depth(&self) -> u32 {
        match &self.behind {
            Behind::Massbus(_) => 1,
            Behind::Mscp(mscp) => mscp.commands(),
        }
    }
    fn execute<'a>(&'a self, command: Command, lines: Lines, ledger: &'a mut Ledger) -> Executing<'a> {
        Box::pin(async move {
            let _present = self.medium.attendance.enter(&self.medium.runtime);
            match &self.behind {
                Behind::Massbus(massbus) => massbus.transfer(&self.medium, command, lines, ledger).await,
                Behind::Mscp(mscp) => mscp.carry_out(&self.medium, command, lines, ledger).await,
            }
            Passage::default()
        })
    }
    fn register_word(&self) -> Duration {
        Duration::ZERO
    }
    fn busy(&self) -> Duration {
        self.medium.attendance.sum(self.medium.runtime.now())
    }
    fn tracks(&self) -> Option<Tracks> {
        Some(self.medium.tracks)
    }
    fn positioned(&self) -> Option<&dyn Positioned> {
        matches!(self.behind, Behind::Massbus(_)).then_some(self as &dyn Positioned)
    }
}

impl Positioned for Drive {
    fn same_cylinder(&self, block: u64) -> bool {
        u64::from(self.medium.arm.get().cylinder) == self.medium.cylinder_of(block)
    }
    fn passes(&self) -> u64 {
        self.medium.passes()
    }
    fn search<'a>(&'a self, block: u64, lead: u64, ledger: &'a mut Ledger) -> Executing<'a> {
        Box::pin(async move {
            let medium = &self.medium;
            let _present = medium.attendance.enter(&medium.runtime);
            let Behind::Massbus(massbus) = &self.behind else { unreachable!("only its drives are positioned") };
            if massbus.has(medium, block) {
                medium.runtime.sleep(massbus.start()).await;
                ledger.until(medium.runtime.now(), medium.part, "search");
                return Passage::default();
            }
            let run = medium.run(medium.runtime.now(), medium.before(block, lead), false);
            medium.stand(&run);
            medium.runtime.sleep_until(run.on_track()).await;
            ledger.until(medium.runtime.now(), medium.part, "seek");
            massbus.on_track(medium, block);
            medium.runtime.sleep_until(run.begins).await;
            ledger.until(medium.runtime.now(), medium.part, "search");
            Passage::default()
        })
    }
}

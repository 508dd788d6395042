//! An experiment written out as it ran: every default, `--set` and swept value spelled out, in the language it is read
//! in.
//!
//! Reading the text gives the same experiment again (a property test): a run folder is enough to repeat its run.

use host::precaution::Precautions;
use toml::{Table, Value};
use units::{Duration, Ratio};
use uring::Mode;
use workload::{Arrivals, Discards, Fill, Load, OnError, RateLimit, ReadBehind, Region, Share, Stream, Verify};

use crate::experiment::{Experiment, Run, StreamPlan, Through, engine_name};
use crate::pattern;
use crate::slow::Slow;
use crate::system::System;

impl Experiment {
    /// The TOML of this experiment.
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        table.insert("name".into(), self.name.clone().into());
        // TOML's integers are signed, so a seed that came from a file is below 2^63.
        table.insert("seed".into(), Value::Integer(self.seed.cast_signed()));
        if !self.published.is_empty() {
            let ids = self.published.iter().map(|id| id.clone().into());
            table.insert("published".into(), Value::Array(ids.collect()));
        }
        table.insert("run".into(), self.run.written().into());
        if let Some(precondition) = &self.precondition {
            table.insert("precondition".into(), precondition.written());
        }
        if let Some(system) = &self.system {
            table.insert("system".into(), system.written().into());
        }
        if !self.devices.is_empty() {
            let devices = self.devices.iter().map(|device| device.written(&self.io).into());
            table.insert("device".into(), Value::Array(devices.collect()));
        }
        table.insert("io".into(), io(self));
        table.insert("care".into(), care(&self.care));
        if !self.slow.is_empty() {
            table.insert("slow".into(), Value::Array(self.slow.iter().map(Slow::written).collect()));
        }
        table.insert("stream".into(), Value::Array(self.streams.iter().map(|plan| plan.written().into()).collect()));
        toml::to_string(&table).expect("a table of plain values becomes TOML")
    }
}

fn io(experiment: &Experiment) -> Value {
    let mode = match experiment.io.mode {
        Mode::Direct => "direct",
        Mode::Buffered => "buffered",
    };
    let cache = experiment.io.cache.name();
    let mut table = Table::new();
    table.insert("mode".into(), mode.into());
    table.insert("engine".into(), engine_name(experiment.io.engine).into());
    table.insert("cache".into(), cache.into());
    table.insert("gather".into(), i64::from(experiment.io.gather.get()).into());
    if let Some(idle) = experiment.io.kernel_poll {
        table.insert("kernel-poll".into(), text(idle));
    }
    table.into()
}

fn care(care: &Precautions) -> Value {
    let mut table = Table::from_iter([("lock-memory".to_owned(), Value::Boolean(care.lock_memory))]);
    if let Some(priority) = care.real_time {
        table.insert("real-time".into(), i64::from(priority).into());
    }
    if !care.cpus.is_empty() {
        table.insert("cpus".into(), Value::Array(care.cpus.iter().map(|cpu| i64::from(*cpu).into()).collect()));
    }
    table.into()
}

/// A quantity with its unit, exactly.
pub(crate) fn text(quantity: impl std::fmt::Display) -> Value {
    Value::String(format!("{quantity:#}"))
}

impl System {
    fn written(&self) -> Table {
        let mut table = Table::new();
        table.insert("name".into(), self.name.clone().into());
        table.insert("way".into(), self.way.name().into());
        let spots = self.disks.iter().map(|spot| spot.to_string().into());
        table.insert("disks".into(), Value::Array(spots.collect()));
        table.insert("spans".into(), self.spans.into());
        let mut parts = Table::new();
        for (key, value) in &self.parts {
            let path: Vec<&str> = key.split('.').collect();
            let (last, above) = path.split_last().expect("a key has at least one word");
            let inner = above.iter().fold(&mut parts, |table, word| {
                let entry = table.entry(*word).or_insert_with(|| Table::new().into());
                entry.as_table_mut().expect("a path leads through tables: the experiment was checked")
            });
            inner.insert((*last).to_owned(), value.clone().into());
        }
        table.insert("parts".into(), parts.into());
        table
    }
}

impl Run {
    fn written(&self) -> Table {
        let mut table = Table::new();
        match self.steady {
            Some(steady) => table.insert("steady".into(), steady.written(self.passes)),
            None => table.insert("passes".into(), i64::from(self.passes).into()),
        };
        table.insert("start-up".into(), text(self.start_up));
        if let Some(measure) = self.measure {
            table.insert("measure".into(), text(measure));
        }
        table.insert("cool-down".into(), text(self.cool_down));
        let on_error = match self.on_error {
            // What ends a stream alone is a rule of the stream.
            OnError::Stop | OnError::Leave => "stop",
            OnError::Continue => "continue",
        };
        table.insert("on-error".into(), on_error.into());
        if let Some(devices) = self.devices {
            table.insert("devices".into(), (devices as i64).into());
        }
        if let Some(limit) = self.rate_limit {
            table.insert("rate-limit".into(), rate_limit(limit));
        }
        if self.trace {
            table.insert("trace".into(), true.into());
        }
        table
    }
}

impl StreamPlan {
    fn written(&self) -> Table {
        let mut table = self.stream_table();
        if let Some(script) = &self.script {
            // No key of the language: a run that made the requests of a trace is not repeated by drawing others.
            let said = format!("{} requests of a trace, made by `arraylab replay`", script.dues.len());
            table.insert("replayed".into(), said.into());
        }
        if let Some(on) = &self.on {
            table.insert("on".into(), Value::Array(on.iter().map(|index| (*index as i64).into()).collect()));
        }
        if let Some(limit) = self.rate_limit {
            table.insert("rate-limit".into(), rate_limit(limit));
        }
        for (key, limit) in ["read-rate-limit", "write-rate-limit"].into_iter().zip(self.rates) {
            limit.map(|limit| table.insert(key.into(), rate_limit(limit)));
        }
        table
    }

    fn stream_table(&self) -> Table {
        let stream: &Stream = &self.stream;
        let mut table = Table::new();
        table.insert("name".into(), stream.name.clone().into());
        if self.through != Through::Device {
            table.insert("through".into(), "files".into());
        }
        if self.makes_its_file() {
            table.insert("file".into(), "absent".into());
        }
        let reads = stream.mix.reads;
        let operation = match (stream.behind, reads.get()) {
            (Some(ReadBehind { lag, lap: None }), 0.0) => one("read-behind", i64::from(lag).into()),
            (Some(ReadBehind { lag, lap }), _) => {
                let mut mixed = Table::new();
                mixed.insert("reads".into(), text(reads));
                mixed.insert("read-behind".into(), i64::from(lag).into());
                if let Some(lap) = lap {
                    mixed.insert("lap".into(), format!("{lap:#}").into());
                }
                one("mixed", mixed.into())
            }
            (None, 1.0) => "read".into(),
            (None, _) if stream.discards == Discards::Only => "discard".into(),
            (None, _) if stream.discards == Discards::BeforeWrites => "discard-and-write".into(),
            (None, 0.0) => "write".into(),
            (None, _) => one("reads", text(reads)),
        };
        table.insert("operation".into(), operation);
        let (pattern, from) = pattern::written(&stream.pattern);
        table.insert("pattern".into(), pattern);
        if let Some(from) = from {
            table.insert("from".into(), from);
        }
        if let Some(pattern) = &stream.write_pattern {
            let (pattern, from) = pattern::written(pattern);
            table.insert("write-pattern".into(), pattern);
            from.map(|from| table.insert("write-from".into(), from));
        }
        if let Some(Share { part, of }) = stream.share {
            let [part, of] = [("part", part), ("of", of)].map(|(key, n)| (key.to_owned(), i64::from(n).into()));
            table.insert("share".into(), Value::Table([part, of].into_iter().collect()));
        }
        let choice = |(size, weight): (units::Bytes, u32)| {
            Value::Table(Table::from_iter([
                ("size".to_owned(), text(size)),
                ("weight".to_owned(), i64::from(weight).into()),
            ]))
        };
        table.insert("size".into(), Value::Array(stream.sizes.choices().map(choice).collect()));
        if let Some(sizes) = &stream.write_sizes {
            table.insert("write-size".into(), Value::Array(sizes.choices().map(choice).collect()));
        }
        table.insert("align".into(), text(stream.align));
        if let Some(align) = stream.write_align {
            table.insert("write-align".into(), text(align));
        }
        let Region { start, length } = stream.region;
        let length = length.map(|length| ("length".to_owned(), text(length)));
        table.insert(
            "region".into(),
            Value::Table([("start".to_owned(), text(start))].into_iter().chain(length).collect()),
        );
        if !stream.delay.is_zero() {
            table.insert("delay".into(), text(stream.delay));
        }
        if !stream.ramp.is_zero() {
            table.insert("ramp".into(), text(stream.ramp));
        }
        if !stream.apart.is_zero() {
            table.insert("apart".into(), text(stream.apart));
        }
        match stream.load {
            Load::Closed { depth, think } => {
                table.insert("depth".into(), i64::from(depth).into());
                table.insert("think".into(), text(think));
            }
            Load::Open { arrivals, outstanding } => {
                let arrivals = match arrivals {
                    Arrivals::Constant(rate) => one("constant", text(rate)),
                    Arrivals::Poisson(rate) => one("poisson", text(rate)),
                    Arrivals::HyperExponential { rate, variation } => {
                        let cells = [("rate".to_owned(), text(rate)), ("variation".to_owned(), text(variation))];
                        one("hyper-exponential", Value::Table(cells.into_iter().collect()))
                    }
                    Arrivals::Distances(distances) => {
                        let point = |(within, share): &(Duration, Ratio)| {
                            let cells = [("within".to_owned(), text(within)), ("share".to_owned(), text(share))];
                            Value::Table(cells.into_iter().collect())
                        };
                        one("distances", Value::Array(distances.points().iter().map(point).collect()))
                    }
                    Arrivals::Bursts { rate, on, off } => {
                        let cells = [
                            ("rate".to_owned(), text(rate)),
                            ("on".to_owned(), text(on)),
                            ("off".to_owned(), text(off)),
                        ];
                        one("bursts", Value::Table(cells.into_iter().collect()))
                    }
                };
                table.insert("arrivals".into(), arrivals);
                table.insert("outstanding".into(), i64::from(outstanding).into());
            }
        }
        let limits = stream.limits;
        let limit = [
            limits.requests.map(|requests| ("requests".to_owned(), Value::Integer(requests.cast_signed()))),
            limits.bytes.map(|bytes| ("bytes".to_owned(), text(bytes))),
            limits.time.map(|time| ("time".to_owned(), text(time))),
            limits.laps.map(|laps| ("laps".to_owned(), i64::from(laps).into())),
            limits.end_all.then(|| ("end-all".to_owned(), Value::Boolean(true))),
            limits.stop.then(|| ("stop".to_owned(), Value::Boolean(true))),
        ];
        table.insert("limit".into(), Value::Table(limit.into_iter().flatten().collect()));
        let fill = match stream.fill {
            Fill::Random => "random",
            Fill::Zero => "zero",
        };
        match stream.verify {
            Some(verify) => {
                let when = match verify {
                    Verify::Reads => "reads",
                    Verify::End => "end",
                    Verify::Later => "later",
                };
                table.insert("verify".into(), when.into());
            }
            None => {
                table.insert("fill".into(), fill.into());
            }
        }
        if let Some(turns) = stream.turns {
            table.insert("turns".into(), i64::from(turns).into());
        }
        let flags = [
            ("pipeline", stream.pipeline),
            ("lock-step", stream.lock_step),
            ("one-at-a-time", stream.one_at_a_time),
            ("overlap", stream.overlap),
        ];
        for (name, on) in flags {
            if on {
                table.insert(name.into(), Value::Boolean(true));
            }
        }
        // For who reads along: no experiment says it, and none that has it is run again as something else.
        if !stream.rules.are_of_errors_alone() {
            table.insert("rules".into(), format!("{:?}", stream.rules).into());
        }
        if let Some(content) = &stream.content {
            table.insert("content".into(), format!("{content:?}").into());
        }
        table
    }
}

fn rate_limit(limit: RateLimit) -> Value {
    let RateLimit { requests, bytes, burst } = limit;
    let cells = [
        requests.map(|rate| ("requests".to_owned(), text(rate))),
        bytes.map(|rate| ("bytes".to_owned(), text(rate))),
        Some(("burst".to_owned(), text(burst))),
    ];
    Value::Table(cells.into_iter().flatten().collect())
}

/// A table of one key.
pub(crate) fn one(key: &str, value: Value) -> Value {
    Value::Table(Table::from_iter([(key.to_owned(), value)]))
}

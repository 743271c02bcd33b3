//! pprof's format (`profile.proto`), as far as a CPU profile needs it.

use flate2::Compression;
use flate2::write::GzEncoder;
use pprof::{Frames, Report, Symbol};
use prost::Message;
use std::collections::HashMap;
use std::io::Write as _;
use std::time::UNIX_EPOCH;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

/// Places in the string table.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// A CPU profile being written.
pub(crate) struct Cpu {
    profile: Profile,
    /// Nanoseconds of CPU time that a sample stands for.
    period: i64,
    strings: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<(u64, i64), u64>,
}

impl Cpu {
    /// Of so many samples per second.
    pub(crate) fn new(frequency: u32) -> Self {
        let period = 1_000_000_000 / i64::from(frequency.max(1));
        let (profile, strings, functions, locations) =
            (Profile::default(), HashMap::new(), HashMap::new(), HashMap::new());
        let mut cpu = Self { profile, period, strings, functions, locations };
        // The first string is empty, by definition.
        cpu.text("");
        cpu
    }

    /// The whole file, gzipped.
    pub(crate) fn encode(mut self, report: &Report) -> Vec<u8> {
        for (frames, count) in &report.data {
            self.sample(frames, *count as i64);
        }
        let counted = ValueType { kind: self.text("samples"), unit: self.text("count") };
        let spent = ValueType { kind: self.text("cpu"), unit: self.text("nanoseconds") };
        let started = report.timing.start_time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        let profile = Profile {
            sample_type: vec![counted, spent],
            time_nanos: started,
            duration_nanos: report.timing.duration.as_nanos() as i64,
            period_type: Some(spent),
            period: self.period,
            ..self.profile
        };
        let mut gz = GzEncoder::new(Vec::new(), Compression::default());
        // Writing to memory does not fail.
        let _ = gz.write_all(&profile.encode_to_vec());
        gz.finish().unwrap_or_default()
    }

    fn sample(&mut self, frames: &Frames, count: i64) {
        let thread = Label { key: self.text("thread"), text: self.text(&frames.thread_name_or_id()) };
        let stack = frames.frames.iter().flatten();
        let location_id = stack.map(|symbol| self.location(symbol)).collect();
        let value = vec![count, count * self.period];
        self.profile.sample.push(Sample { location_id, value, label: vec![thread] });
    }

    fn location(&mut self, symbol: &Symbol) -> u64 {
        let function_id = self.function(symbol);
        let line = i64::from(symbol.lineno());
        if let Some(id) = self.locations.get(&(function_id, line)) {
            return *id;
        }
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location { id, line: vec![Line { function_id, line }] });
        self.locations.insert((function_id, line), id);
        id
    }

    fn function(&mut self, symbol: &Symbol) -> u64 {
        let (name, file) = (symbol.name(), symbol.filename().into_owned());
        let key = (symbol.sys_name().into_owned(), file);
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.profile.function.len() as u64 + 1;
        let function =
            Function { id, name: self.text(&name), system_name: self.text(&key.0), filename: self.text(&key.1) };
        self.profile.function.push(function);
        self.functions.insert(key, id);
        id
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(place) = self.strings.get(text) {
            return *place;
        }
        let place = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), place);
        place
    }
}

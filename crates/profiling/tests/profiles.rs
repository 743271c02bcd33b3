//! Profiles of a process that works and allocates, read back.

use flate2::read::GzDecoder;
use pointsman_profiling::{LONGEST, ProfilingError, cpu, heap};
use prost::Message;
use std::hint::black_box;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What a viewer looks at first.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "7")]
    drop_frames: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

fn read(file: &[u8]) -> Profile {
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
    let profile = Profile::decode(&bytes[..]).expect("a profile");
    assert_eq!(profile.string_table.first().map(String::as_str), Some(""));
    profile
}

fn types(profile: &Profile) -> Vec<(&str, &str)> {
    let text = |place: i64| profile.string_table[place as usize].as_str();
    profile.sample_type.iter().map(|t| (text(t.kind), text(t.unit))).collect()
}

#[inline(never)]
fn busy_beaver(stop: &AtomicBool) {
    let mut n: u64 = 0;
    while !stop.load(Ordering::Relaxed) {
        n = black_box(n.wrapping_mul(31).wrapping_add(7));
    }
}

#[inline(never)]
fn hoarding_hamster() -> Vec<Vec<u8>> {
    (0..256).map(|_| black_box(vec![1; 64 << 10])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cpu_profile_names_the_function_that_was_busy() {
    let stop = Arc::new(AtomicBool::new(false));
    let work = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || busy_beaver(&stop)
    });
    let taking = tokio::spawn(cpu(2));
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(matches!(cpu(1).await, Err(ProfilingError::Busy)), "there is one timer");
    let file = taking.await.expect("it does not panic").expect("a profile");
    stop.store(true, Ordering::Relaxed);
    work.join().expect("it does not panic");
    let profile = read(&file);
    assert_eq!(types(&profile), [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(profile.duration_nanos >= 2_000_000_000);
    assert!(profile.string_table.iter().any(|s| s.contains("busy_beaver")), "{:?}", profile.string_table);
    let samples: i64 = profile.sample.iter().map(|s| s.value[0]).sum();
    assert!(samples > 20, "{samples} samples of a busy thread in two seconds");
    assert!(profile.sample.iter().all(|s| !s.location_id.is_empty() && s.value[1] == s.value[0] * profile.period));
    // The timer is free again.
    assert!(cpu(1).await.is_ok());
}

#[tokio::test]
async fn a_heap_profile_knows_who_holds_what() {
    assert!(matches!(heap(None).await, Err(ProfilingError::HeapUnsampled)), "nobody told this process to sample");
    let taking = tokio::spawn(heap(Some(1)));
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let held = hoarding_hamster();
    let profile = read(&taking.await.expect("it does not panic").expect("a profile"));
    assert_eq!(types(&profile), [("inuse_space", "bytes")]);
    assert!(profile.string_table.iter().any(|s| s.contains("hoarding_hamster")), "{:?}", profile.string_table);
    assert!(profile.string_table[profile.drop_frames as usize].contains("_rjem_"), "the allocator is to be left out");
    let bytes: i64 = profile.sample.iter().map(|s| s.value[0]).sum();
    // No more than a lower bound: the profiler of the other test may allocate at the same time.
    assert!(bytes > 8 << 20, "{bytes} bytes for 16 MiB");
    drop(held);
    assert!(matches!(heap(None).await, Err(ProfilingError::HeapUnsampled)), "sampling ended with the profile");
}

#[tokio::test]
async fn a_time_out_of_range_is_refused_at_once() {
    for seconds in [0, LONGEST + 1, u64::MAX] {
        assert!(matches!(cpu(seconds).await, Err(ProfilingError::Seconds)), "{seconds}");
        assert!(matches!(heap(Some(seconds)).await, Err(ProfilingError::Seconds)), "{seconds}");
    }
}

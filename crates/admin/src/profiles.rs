//! CPU and heap profiles, under the paths where Go programs have theirs, so that the same tools find them.

use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::{Method, StatusCode};
use pointsman_profiling::{ProfilingError, cpu, heap};

use crate::Guard;
use crate::reply::{Reply, fault, with_type};
use crate::routes::{Ask, admitted, not_allowed};

/// Seconds of a CPU profile, unless the request says how many.
const DEFAULT_SECONDS: u64 = 30;

const BINARY: &str = "application/octet-stream";

/// The kind of profile that lies at this path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    Cpu,
    Heap,
}

impl Profile {
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/debug/pprof/profile" => Some(Self::Cpu),
            "/debug/pprof/heap" => Some(Self::Heap),
            _ => None,
        }
    }

    /// Takes as long as the profile does.
    pub(crate) async fn answer(self, guard: &Guard, ask: &Ask<'_>) -> Reply {
        if let Err(denied) = admitted(guard, ask) {
            return *denied;
        }
        if *ask.method != Method::GET {
            return not_allowed(&[Method::GET]);
        }
        self.taken(ask.uri.query()).await
    }

    /// The profile itself, whoever may have it.
    pub(crate) async fn taken(self, query: Option<&str>) -> Reply {
        let given = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("seconds="));
        let taken = match (self, given.map(str::parse).transpose()) {
            (_, Err(_)) => Err(ProfilingError::Seconds),
            (Self::Cpu, Ok(seconds)) => cpu(seconds.unwrap_or(DEFAULT_SECONDS)).await,
            (Self::Heap, Ok(seconds)) => heap(seconds).await,
        };
        match taken {
            Ok(profile) => {
                let mut reply = with_type(StatusCode::OK, BINARY, profile);
                let disposition = HeaderValue::from_static(match self {
                    Self::Cpu => "attachment; filename=\"profile.pb.gz\"",
                    Self::Heap => "attachment; filename=\"heap.pb.gz\"",
                });
                reply.headers_mut().insert(CONTENT_DISPOSITION, disposition);
                reply
            }
            Err(error) => fault(status(&error), &error.to_string()),
        }
    }
}

fn status(error: &ProfilingError) -> StatusCode {
    match error {
        ProfilingError::Seconds => StatusCode::BAD_REQUEST,
        ProfilingError::Busy => StatusCode::CONFLICT,
        ProfilingError::HeapUnsampled | ProfilingError::HeapUnknown => StatusCode::NOT_IMPLEMENTED,
        ProfilingError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

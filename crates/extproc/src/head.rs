//! Request headers as the router reads them (request-lifecycle 1.3).

use std::sync::Arc;

use pointsman_core::headers::{REQUEST_ID, is_forged};
use pointsman_core::{Nanos, uuid_v4};
use pointsman_grpc::WireError;
use pointsman_router::RequestHead;

use crate::proto::request::Headers;

/// Where a path may stand, best first.
const PATHS: [&str; 3] = [":path", "x-original-path", "x-forwarded-path"];
/// The path of a request that has none.
const DEFAULT_PATH: &str = "/v1/completions";

/// What is known of a request before its body.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) head: RequestHead,
    /// Claims of the client that only the router may make, which the router is not told of.
    pub(crate) forged: Vec<(Box<str>, Box<str>)>,
    /// The id, where the request came without one.
    pub(crate) made_id: bool,
}

impl Head {
    pub(crate) fn read(headers: &Headers, received: Nanos) -> Result<Self, WireError> {
        let mut list: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(24);
        let mut forged = Vec::new();
        headers.for_each(|name, value| {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase().into_boxed_str();
            let value: Box<str> = String::from_utf8_lossy(value).into();
            if is_forged(&name) { forged.push((name, value)) } else { list.push((name, value)) }
        })?;
        let find = |wanted: &str| list.iter().rev().find(|(name, _)| &**name == wanted).map(|(_, value)| &**value);
        let path = PATHS.iter().find_map(|name| find(name)).unwrap_or(DEFAULT_PATH);
        let path: Arc<str> = path.split('?').next().unwrap_or_default().into();
        let method: Arc<str> = find(":method").unwrap_or("POST").into();
        let made_id = find(REQUEST_ID).is_none_or(str::is_empty);
        if made_id {
            list.retain(|(name, _)| &**name != REQUEST_ID);
            let id = uuid_v4(fastrand::u128(..));
            list.push((REQUEST_ID.into(), String::from_utf8_lossy(&id).into()));
        }
        let head = RequestHead { transport: "extproc", method, path, headers: list.into(), received, subset: None };
        Ok(Self { head, forged, made_id })
    }
}

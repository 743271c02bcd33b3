//! What feeds the fleet: who the endpoints are, whether they work, how loaded they are, what they serve.
//!
//! [`Sources`] follows a [`Fleet`](pointsman_fleet::Fleet) and asks each of its endpoints, on threads of its own:
//!
//! * **scrape**: the metrics page, every 50 ms, on a beat that spreads the endpoints evenly in time, and what other pages a configuration
//!   names, each at its own pace; a [`ScrapeSource`] says where a page is, an [`Extractor`] reads it;
//! * **health**: is it there and able, asked at the path of its engine kind? [`HealthOptions`]; owner of [`Condition::Probe`](pointsman_fleet::Condition::Probe);
//! * **models**: the list of models it serves.
//!
//! Beside that, [`Renderers`] posts prompts to be tokenized, and [`RuntimeTimer`] waits, on behalf of requests.
//!
//! [`Discovery`] says who the endpoints are: fixed addresses ([`endpoints_of`]) and a watched file ([`EndpointsFile`]).
//!
//! What is missing degrades, nothing here fails a request: a page that cannot be fetched leaves the last reading to age, a file that cannot
//! be read leaves the endpoints as they are. What engines send is bounded in bytes and in time. A page of one endpoint never waits
//! for another's.
//!
//! Deliberately absent: any rule on what a signal means (that is in `plugins`), any choice among endpoints.

mod discovery;
mod feed;
mod follow;
mod health;
mod http;
mod models;
mod page;
mod render;
mod schedule;
mod scrape;
mod shard;
mod timer;

pub use discovery::{AddressError, Discovery, EndpointsFile, FileError, endpoints_of};
pub use feed::{Sources, SourcesOptions, SourcesStats};
pub use follow::Follower;
pub use health::HealthOptions;
pub use http::{Answer, FetchError, PageAt, TlsClient, TlsError, TlsOptions, ask};
pub use render::{Renderers, warm_up};
pub use schedule::SHORTEST_TICK;
pub use scrape::{Counters, Extracted, Extractor, Missing, ScrapeSource};
pub use timer::RuntimeTimer;

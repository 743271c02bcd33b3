//! The decision record: what each step of one request did. Always on, bounded in bytes, read by everything a person looks at.

mod decision;
mod id;
mod json;
mod reason;
mod rescore;
mod ring;

pub use decision::{
    CandidateRecord, Decision, LoraState, MAX_CANDIDATES, Outcome, ProfileColumns, ProfileRecord, PromptText, Retry,
    ScorerColumn, Shadowed, Signals, Steps,
};
pub use id::{DecisionId, DecisionIds};
pub use reason::Reason;
pub use rescore::{Agreement, Rescored};
pub use ring::Ring;

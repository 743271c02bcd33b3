//! Several profiles for one request: what became of each, and what they come to.

use crate::{Candidate, Facts, ProfileRun, Request};
use pointsman_core::Refusal;

/// What the engines that a profile picks do for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// All of it, or nothing in particular.
    #[default]
    Any,
    /// Generate tokens.
    Decode,
    /// Compute the prompt for another engine.
    Prefill,
    /// Encode images, videos and sounds for another engine.
    Encode,
}

/// What became of a profile.
#[derive(Clone, Debug)]
pub enum Stage {
    /// It ran and found endpoints.
    Ran(ProfileRun),
    /// It ran and found none.
    Failed(Refusal),
    /// The handler decided against it.
    Declined,
}

/// What a profile handler sees of a request, and what it says.
#[derive(Debug)]
pub struct Stages<'a> {
    /// The request.
    pub request: &'a Request,
    /// What producers said about it.
    pub facts: &'a Facts,
    /// Its candidates.
    pub candidates: &'a [Candidate<'a>],
    /// What became of each profile so far, by number.
    pub done: &'a mut [Option<Stage>],
    /// Profiles to run next, in order.
    pub next: &'a mut Vec<usize>,
    /// The candidate to which the profiles that come next are to find a partner.
    pub peer: &'a mut Option<u32>,
}

impl Stages<'_> {
    /// What profile `p` found.
    #[must_use]
    pub fn ran(&self, p: usize) -> Option<&ProfileRun> {
        match self.done.get(p) {
            Some(Some(Stage::Ran(run))) => Some(run),
            _ => None,
        }
    }

    /// The first pick of profile `p`.
    #[must_use]
    pub fn pick(&self, p: usize) -> Option<u32> {
        self.ran(p)?.picked.first().copied()
    }

    /// Whether profile `p` ran or was declined.
    #[must_use]
    pub fn evaluated(&self, p: usize) -> bool {
        self.done.get(p).is_some_and(Option::is_some)
    }

    /// Decides against profile `p`.
    pub fn decline(&mut self, p: usize) {
        if let Some(stage) = self.done.get_mut(p) {
            *stage = Some(Stage::Declined);
        }
    }

    /// Why profile `p` found nobody.
    #[must_use]
    pub fn failure(&self, p: usize) -> Option<&Refusal> {
        match self.done.get(p) {
            Some(Some(Stage::Failed(refusal))) => Some(refusal),
            _ => None,
        }
    }
}

/// What the profiles come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The profile whose endpoints the request goes to.
    pub primary: usize,
    /// Other profiles whose picks count, with what their engines do.
    pub others: Vec<(usize, Role)>,
    /// The port that the endpoints are reached at, in place of their own, which a header then carries.
    pub port: Option<u16>,
    /// How the request is served, as metrics and traces spell it.
    pub decision: Option<&'static str>,
}

impl Answer {
    /// One profile, nothing else.
    #[must_use]
    pub fn one(primary: usize) -> Self {
        Self { primary, ..Self::default() }
    }
}

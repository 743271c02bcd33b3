//! Conversations: each turn repeats the ones before it, with the answers (simulator 3.4).

use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_sim::Rng;

use super::{Arrival, Arrivals, Lengths, Prompt, When, Workload};
use crate::mix;

/// Parameters of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Sessions {
    /// Conversations.
    pub sessions: usize,
    /// When they begin. In a closed loop, `None`: so many `users` hold one conversation after the other.
    pub arrivals: Option<Arrivals>,
    /// Users of a closed loop.
    pub users: usize,
    /// Turns of a conversation.
    pub turns: Lengths,
    /// Seconds between an answer's end and the next turn, on average (exponential).
    pub think: f64,
    /// Probability that a conversation ends after a turn although more would follow.
    pub abandon: f64,
    /// Tokens that all conversations begin with.
    pub shared: u64,
    /// Tokens that a conversation begins with.
    pub own: Lengths,
    /// Tokens that a user adds in a turn.
    pub question: Lengths,
    /// Tokens of an answer.
    pub output: Lengths,
    /// Tokens that a prompt may have; a conversation ends before a longer one.
    pub max_tokens: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            sessions: 50,
            arrivals: Some(Arrivals::Poisson { rate: 1.0 }),
            users: 10,
            turns: Lengths::Uniform { min: 2, max: 8 },
            think: 10.0,
            abandon: 0.0,
            shared: 1_024,
            own: Lengths::Fixed(512),
            question: Lengths::Fixed(200),
            output: Lengths::Fixed(200),
            max_tokens: 100_000,
        }
    }
}

/// Tokens per id. Small, so that little of an answer is lost to rounding.
const UNIT: u32 = 16;

impl Sessions {
    /// Requests, and ids of their content.
    pub(super) fn size(&self) -> (f64, f64) {
        let (turns, turn) = (self.turns.mean(), self.question.mean() + self.output.mean());
        let prompt = self.shared as f64 + self.own.mean() + turns / 2.0 * turn;
        let requests = self.sessions as f64 * turns;
        (requests, requests * prompt.min(self.max_tokens as f64) / f64::from(UNIT))
    }

    /// The workload of one seed.
    #[must_use]
    pub fn generate(&self, name: &str, seed: u64) -> Workload {
        let mut times = Rng::new(mix(seed ^ 1));
        let mut rng = Rng::new(mix(seed ^ 2));
        let starts = self.arrivals.map(|process| process.times(self.sessions, &mut times));
        let users = self.users.max(1);
        let mut last_of_user: Vec<Option<u32>> = vec![None; users];
        let mut requests: Vec<Arrival> = Vec::new();
        for session in 0..self.sessions {
            let user = session % users;
            let mut before = None;
            let mut tokens = self.shared + self.own.draw(&mut rng);
            for _ in 0..self.turns.draw(&mut rng).max(1) {
                tokens += self.question.draw(&mut rng).max(1);
                if tokens > self.max_tokens {
                    break;
                }
                let output = self.output.draw(&mut rng).max(1);
                let think = Duration::from_secs_f64((-(1.0 - rng.unit()).ln() * self.think).clamp(0.0, 1e6));
                let when = match (before, &starts, last_of_user[user]) {
                    (Some(turn), ..) => When::After(turn, think),
                    (None, Some(starts), _) => When::At(starts[session]),
                    (None, None, Some(previous)) => When::After(previous, think),
                    (None, None, None) => When::At(Nanos(think.as_nanos() as u64)),
                };
                before = Some(requests.len() as u32);
                requests.push(Arrival {
                    when,
                    prompt: prompt(seed, session as u64, self.shared, tokens),
                    output,
                    session: Some(session as u64),
                    lora: None,
                });
                tokens += output;
                if rng.unit() < self.abandon {
                    break;
                }
            }
            if starts.is_none() && before.is_some() {
                last_of_user[user] = before;
            }
        }
        Workload { name: name.to_owned(), requests, stages: vec![0], warm: 0, unanswered: 0 }
    }
}

/// A prompt of a conversation: what all begin with, and the first so many tokens of what this one consists of.
fn prompt(seed: u64, session: u64, shared: u64, tokens: u64) -> Prompt {
    let unit = u64::from(UNIT);
    let (common, own) = (mix(seed ^ 0x63_6f_6d_6d_6f_6e), mix(mix(seed ^ 0x7475_726e) ^ session));
    let ids = (0..tokens.div_ceil(unit)).map(|at| mix(if (at + 1) * unit <= shared { common } else { own } ^ at));
    Prompt { tokens, unit: UNIT, ids: ids.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_repeats_what_was_said_and_follows_the_answer() {
        let workload = Sessions { sessions: 3, ..Sessions::default() }.generate("test", 1);
        let turns: Vec<&Arrival> = workload.requests.iter().filter(|r| r.session == Some(1)).collect();
        assert!(turns.len() >= 2);
        assert_eq!(turns[1].prompt.tokens, turns[0].prompt.tokens + turns[0].output + 200);
        let (a, b) = (turns[0].prompt.blocks(16, usize::MAX, false), turns[1].prompt.blocks(16, usize::MAX, false));
        assert_eq!(a[..], b[..a.len()]);
        assert!(matches!(turns[1].when, When::After(..)));
    }

    #[test]
    fn users_of_a_closed_loop_hold_one_conversation_after_the_other() {
        let workload = Sessions { sessions: 6, arrivals: None, users: 2, ..Sessions::default() }.generate("test", 1);
        let timed = workload.requests.iter().filter(|r| matches!(r.when, When::At(_))).count();
        assert_eq!(timed, 2);
        let earlier = |(at, r): (usize, &Arrival)| !matches!(r.when, When::After(before, _) if before as usize >= at);
        assert!(workload.requests.iter().enumerate().all(earlier));
    }
}

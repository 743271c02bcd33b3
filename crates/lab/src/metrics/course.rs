//! How a run went over time: windows of equal length, few enough to draw.

use pointsman_core::Nanos;

use crate::BEGIN;

/// Seconds of the first windows; each time there are too many, two become one.
const FINEST: f64 = 0.25;

/// Windows at most.
const MOST: usize = 128;

/// What happened in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    /// Requests that came, and got a first token.
    requests: f64,
    ttft: f64,
    prompt: f64,
    cached: f64,
    /// Readings of engines.
    readings: f64,
    waiting: f64,
    kv: f64,
}

impl Window {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.ttft += other.ttft;
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.readings += other.readings;
        self.waiting += other.waiting;
        self.kv += other.kv;
    }
}

/// A run over time, or the sum of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    seconds: f64,
    windows: Vec<Window>,
}

impl Default for Course {
    fn default() -> Self {
        Self { seconds: FINEST, windows: Vec::new() }
    }
}

impl Course {
    /// A request that came at `at` waited `ttft` seconds and found `cached` of its `prompt` tokens.
    pub(crate) fn request(&mut self, at: Nanos, ttft: f64, prompt: u64, cached: u64) {
        let window = self.window(at);
        window.requests += 1.0;
        window.ttft += ttft;
        window.prompt += prompt as f64;
        window.cached += cached as f64;
    }

    /// An engine's metrics were read.
    pub(crate) fn reading(&mut self, at: Nanos, waiting: usize, kv_usage: f64) {
        let window = self.window(at);
        window.readings += 1.0;
        window.waiting += waiting as f64;
        window.kv += kv_usage;
    }

    /// So many readings of idle engines, evenly over a time.
    pub(crate) fn idle(&mut self, from: Nanos, to: Nanos, readings: f64) {
        self.window(to);
        let (from, to) = (from.since(BEGIN).as_secs_f64(), to.since(BEGIN).as_secs_f64());
        let per_second = readings / (to - from).max(f64::MIN_POSITIVE);
        let first = (from / self.seconds) as usize;
        for (at, window) in self.windows.iter_mut().enumerate().skip(first) {
            let begin = at as f64 * self.seconds;
            let share = (to.min(begin + self.seconds) - from.max(begin)).max(0.0);
            window.readings += share * per_second;
        }
    }

    fn window(&mut self, at: Nanos) -> &mut Window {
        let since = at.since(BEGIN).as_secs_f64();
        while since >= self.seconds * MOST as f64 {
            self.coarsen();
        }
        let which = (since / self.seconds) as usize;
        if self.windows.len() <= which {
            self.windows.resize(which + 1, Window::default());
        }
        &mut self.windows[which]
    }

    fn coarsen(&mut self) {
        self.seconds *= 2.0;
        let pairs = self.windows.chunks(2).map(|pair| {
            let mut sum = Window::default();
            pair.iter().for_each(|window| sum.add(window));
            sum
        });
        self.windows = pairs.collect();
    }

    /// Adds another run, window by window.
    pub(crate) fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.seconds < other.seconds {
            self.coarsen();
        }
        while other.seconds < self.seconds {
            other.coarsen();
        }
        self.windows.resize(self.windows.len().max(other.windows.len()), Window::default());
        self.windows.iter_mut().zip(&other.windows).for_each(|(window, more)| window.add(more));
    }

    /// The lines that can be drawn. Windows in which nothing came have no `ttft_mean` and no `hit_ratio`.
    #[must_use]
    pub fn lines(&self) -> Lines {
        let per = |sum: f64, count: f64| (count > 0.0).then(|| sum / count);
        Lines {
            window: self.seconds,
            ttft_mean: self.windows.iter().map(|w| per(w.ttft, w.requests)).collect(),
            hit_ratio: self.windows.iter().map(|w| per(w.cached, w.prompt)).collect(),
            waiting: self.windows.iter().map(|w| per(w.waiting, w.readings)).collect(),
            kv_usage: self.windows.iter().map(|w| per(w.kv, w.readings)).collect(),
        }
    }
}

/// Figures window by window, the first from the run's beginning.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Lines {
    /// Seconds of a window.
    pub window: f64,
    /// Seconds to the first token, mean of the requests that came.
    pub ttft_mean: Vec<Option<f64>>,
    /// Share of their prompt tokens found in a cache.
    pub hit_ratio: Vec<Option<f64>>,
    /// Requests that wait, mean over engines.
    pub waiting: Vec<Option<f64>>,
    /// Share of KV blocks in use, mean over engines.
    pub kv_usage: Vec<Option<f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Nanos {
        BEGIN.plus(std::time::Duration::from_secs_f64(seconds))
    }

    #[test]
    fn long_runs_get_longer_windows_and_lose_nothing() {
        let mut course = Course::default();
        for second in 0..1_000 {
            course.request(at(f64::from(second)), f64::from(second), 10, 4);
            course.reading(at(f64::from(second)), 3, 0.5);
        }
        let lines = course.lines();
        assert_eq!((lines.window, lines.ttft_mean.len()), (8.0, 125));
        assert_eq!((lines.ttft_mean[1], lines.hit_ratio[7], lines.waiting[124]), (Some(11.5), Some(0.4), Some(3.0)));
    }

    #[test]
    fn idle_time_counts_as_readings_of_nothing() {
        let mut course = Course::default();
        course.reading(at(0.1), 4, 1.0);
        course.idle(at(0.0), at(8.0), 32.0);
        course.reading(at(8.1), 4, 1.0);
        let lines = course.lines();
        assert_eq!(
            (lines.window, lines.waiting[0], lines.waiting[20], lines.kv_usage[32]),
            (0.25, Some(2.0), Some(0.0), Some(1.0))
        );
    }

    #[test]
    fn runs_of_unequal_length_add_up() {
        let (mut short, mut long) = (Course::default(), Course::default());
        short.request(at(0.1), 1.0, 10, 10);
        long.request(at(100.0), 3.0, 10, 0);
        long.request(at(0.3), 3.0, 10, 0);
        short.add(&long);
        let lines = short.lines();
        assert_eq!((lines.window, lines.ttft_mean[0], lines.hit_ratio[0]), (1.0, Some(2.0), Some(0.5)));
        assert_eq!((lines.ttft_mean[50], lines.ttft_mean[100]), (None, Some(3.0)));
    }
}

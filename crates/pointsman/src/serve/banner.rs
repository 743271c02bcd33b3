//! The first thing a person sees.

use std::fmt::Write as _;
use std::net::SocketAddr;

use pointsman_fleet::Snapshot;
use pointsman_scheduling::Profile;

use super::demo;
use crate::explain::short_name;
use crate::terminal::{Paint, clean};

/// Endpoints named as not ready; of more, the number is told.
const NAMED: usize = 4;

/// What the banner tells.
pub(super) struct Banner<'a> {
    pub(super) simulated: bool,
    pub(super) frozen: bool,
    pub(super) gateway: SocketAddr,
    pub(super) tls: bool,
    pub(super) admin: SocketAddr,
    pub(super) fleet: &'a Snapshot,
    pub(super) configuration: &'a str,
    pub(super) profiles: &'a [Profile],
}

impl Banner<'_> {
    pub(super) fn render(&self, paint: Paint) -> String {
        let mut out = String::new();
        if self.simulated {
            let how = if self.frozen { " with frozen metrics" } else { "" };
            let _ = writeln!(out, "No endpoints given: running six simulated engines (A-F){how} inside this process.");
            out.push_str("Use --endpoints host:port,... for real ones.\n\n");
        }
        let scheme = if self.tls { "https" } else { "http" };
        let gateway = format!("{scheme}://{}", self.gateway);
        let admin = format!("http://{}", self.admin);
        let ready = self.fleet.ready();
        let fleet = format!("{ready} of {} ready", self.fleet.endpoints.len());
        let rows = [
            ("gateway", gateway.as_str(), "OpenAI and Anthropic APIs".to_owned()),
            ("console", admin.as_str(), "live decisions, tuning, admin API, metrics".to_owned()),
            ("fleet", fleet.as_str(), self.unready()),
            ("profile", self.configuration, self.weights()),
        ];
        let width = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0);
        for (label, value, more) in &rows {
            let value = format!("{value:<width$}");
            let line = format!("  {label:<9} {}   {more}", paint.bold(&value));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        if self.simulated {
            let _ = write!(
                out,
                "\nTry:  curl {gateway}/v1/chat/completions -H 'content-type: application/json' \\\n        \
                 -d '{{\"model\":\"{}\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n",
                demo::MODEL
            );
        } else {
            out.push('\n');
        }
        let elsewhere = self.admin.port() != 9090 || !self.admin.ip().is_loopback();
        let admin = if elsewhere { format!(" --admin {}", self.admin) } else { String::new() };
        let _ = writeln!(out, "Why that engine?  pointsman explain last{admin}");
        out
    }

    fn unready(&self) -> String {
        let out: Vec<_> = self.fleet.endpoints.iter().filter(|e| !e.ready()).collect();
        if out.len() > NAMED {
            return format!("{} not ready, see `pointsman status`", out.len());
        }
        let each = out.iter().map(|e| {
            let name = clean(&e.name().name);
            if self.simulated && name == demo::UNREADY {
                return format!("{name}: unready (simulated)");
            }
            let reason = e.health.describe().reason;
            format!("{name}: {}", clean(reason.as_deref().unwrap_or("not ready")))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// `queue 2, kv 2, active 2, prefix 3`.
    fn weights(&self) -> String {
        let of = |p: &Profile| {
            let each = p.scorers.iter().map(|s| format!("{} {}", short_name(&s.scorer.name), s.weight));
            let list = each.collect::<Vec<_>>().join(", ");
            if list.is_empty() { p.picker.name.to_string() } else { list }
        };
        match self.profiles {
            [one] => of(one),
            many => many.iter().map(|p| format!("{}: {}", p.name, of(p))).collect::<Vec<_>>().join("; "),
        }
    }
}

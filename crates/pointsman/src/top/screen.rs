//! How it is drawn: a line of state, the fleet, the newest decisions, a line of keys. Columns that a narrow terminal has no room for go, the least telling
//! ones first.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use crate::explain::Record;
use crate::status::Endpoint;
use crate::terminal::{ago, clean, millis, thousands};

use super::state::Top;

/// A column: header, width, from which width of the terminal on it is shown, and whether numbers stand in it.
struct Column(&'static str, u16, u16, bool);

const FLEET: &[Column] = &[
    Column("endpoint", 14, 0, false),
    Column("state", 10, 0, false),
    Column("waiting", 7, 0, true),
    Column("running", 7, 0, true),
    Column("kv cache", 8, 0, true),
    Column("in flight", 9, 0, true),
    Column("blocks", 9, 78, true),
    Column("for", 8, 90, true),
    Column("scraped", 9, 100, true),
    Column("address", 22, 125, false),
    Column("why", 60, 165, false),
];

const DECISIONS: &[Column] = &[
    Column("time", 12, 0, false),
    Column("to", 12, 0, false),
    Column("total", 7, 0, true),
    Column("tokens", 8, 0, true),
    Column("held", 8, 0, true),
    Column("status", 9, 0, true),
    Column("TTFT", 8, 70, true),
    Column("decision", 13, 100, false),
    Column("model", 24, 125, false),
    Column("decided in", 10, 140, true),
    Column("next best", 24, 165, false),
];

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, top: &mut Top) {
    let area = frame.area();
    let fleet = (top.endpoints.len() as u16).saturating_add(1).min(area.height.saturating_sub(3).max(4) * 3 / 5);
    let [head, endpoints, gap, decisions, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(fleet),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(header(top)), head);
    let rows = usize::from(endpoints.height.saturating_sub(1));
    top.scroll = top.scroll.min(top.endpoints.len().saturating_sub(rows));
    table(frame, endpoints, FLEET, top.endpoints.iter().skip(top.scroll).take(rows).map(endpoint));
    let below = top.endpoints.len().saturating_sub(top.scroll + rows);
    if below > 0 || top.scroll > 0 {
        let text = format!("{} above, {} below", thousands(top.scroll as u64), thousands(below as u64));
        frame.render_widget(Paragraph::new(text).style(dim()).alignment(Alignment::Right), gap);
    }
    table(frame, decisions, DECISIONS, top.decisions.iter().take(usize::from(decisions.height)).map(decision));
    let hold = if top.held { "space goes on" } else { "space holds" };
    let text = format!("q ends   {hold}   up/down scroll   s order: {}", top.order.word());
    frame.render_widget(Paragraph::new(text).style(dim()), keys);
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn painted(colour: Color) -> Style {
    // Whoever wants no colours gets none; words carry the meaning anyway.
    if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) { Style::new() } else { Style::new().fg(colour) }
}

fn header(top: &Top) -> Line<'static> {
    let name = Span::styled("pointsman", Style::new().add_modifier(Modifier::BOLD));
    let mut line = vec![name, Span::raw(format!(" {}  ", clean(&top.address)))];
    match &top.away {
        Some((why, since)) => {
            let text = format!("away for {}, trying again: {}", ago(since.elapsed()), clean(why));
            line.push(Span::styled(text, painted(Color::Red)));
        }
        None if !top.met => line.push(Span::raw("asking ...")),
        None => {
            let ready = top.endpoints.iter().filter(|e| e.ready).count();
            let all = top.endpoints.len();
            line.push(Span::raw(format!("{} of {} ready", thousands(ready as u64), thousands(all as u64))));
            if let Some(rate) = top.rate() {
                line.push(Span::raw(format!("  {rate}")));
            }
            if top.held {
                line.push(Span::styled("  held", painted(Color::Yellow)));
            }
        }
    }
    Line::from(line)
}

fn table(frame: &mut Frame<'_>, area: Rect, columns: &[Column], rows: impl Iterator<Item = (Vec<String>, Style)>) {
    let shown: Vec<usize> = (0..columns.len()).filter(|at| columns[*at].2 <= area.width).collect();
    let cell = |at: usize, text: String| {
        let line = Line::from(text);
        Cell::from(if columns[at].3 { line.alignment(Alignment::Right) } else { line })
    };
    let header = Row::new(shown.iter().map(|at| cell(*at, columns[*at].0.to_owned()))).style(dim());
    let rows = rows.map(|(mut cells, style)| {
        Row::new(shown.iter().map(|at| cell(*at, std::mem::take(&mut cells[*at]))).collect::<Vec<_>>()).style(style)
    });
    let widths = shown.iter().map(|at| match columns[*at] {
        // Names get what is left over.
        Column(_, width, _, false) => Constraint::Min(width),
        Column(_, width, _, true) => Constraint::Length(width),
    });
    let table = Table::new(rows.collect::<Vec<_>>(), widths.collect::<Vec<_>>()).header(header).column_spacing(2);
    frame.render_widget(table, area);
}

fn endpoint(e: &Endpoint) -> (Vec<String>, Style) {
    let unknown = || "-".to_owned();
    let number = |v: Option<f64>| v.map_or_else(unknown, |v| thousands(v.max(0.0) as u64));
    let time = |ms: u64| ago(Duration::from_millis(ms));
    let cells = vec![
        clean(&e.name),
        if e.ready { "ready" } else { "not ready" }.to_owned(),
        number(e.waiting),
        number(e.running),
        e.kv_cache_usage.map_or_else(unknown, |v| format!("{:.1} %", v * 100.0)),
        thousands(e.in_flight),
        e.cached_blocks.map_or_else(unknown, thousands),
        time(e.since_ms),
        e.scrape_age_ms.map_or_else(|| "never".to_owned(), time),
        clean(&e.address),
        e.reason.as_deref().map_or_else(String::new, clean),
    ];
    (cells, if e.ready { Style::new() } else { painted(Color::Red) })
}

fn decision(d: &Record) -> (Vec<String>, Style) {
    let profile = d.profiles.last();
    let pick = profile.and_then(|p| p.pick());
    let next = profile.and_then(|p| p.rated().into_iter().find(|c| !p.picked.contains(&c.endpoint)));
    let status = match (d.outcome.status, d.outcome.is_final()) {
        (Some(status), _) => status.to_string(),
        (None, true) => "no status".to_owned(),
        (None, false) => "under way".to_owned(),
    };
    let failed = d.outcome.error.is_some() || d.outcome.status.is_some_and(|s| s >= 400);
    let total = |total: Option<f64>| total.map_or_else(|| "-".to_owned(), |t| format!("{t:.3}"));
    let cells = vec![
        d.at.get(11..23).unwrap_or_default().to_owned(),
        pick.map_or_else(|| "nobody".to_owned(), |c| clean(&c.endpoint)),
        total(pick.and_then(|c| c.total)),
        thousands(d.prompt_tokens_estimated),
        pick.map_or_else(|| "-".to_owned(), |c| thousands(c.prefix_match_tokens)),
        status,
        d.outcome.ttft_ms.map_or_else(|| "-".to_owned(), millis),
        clean(&d.id),
        clean(&d.model),
        format!("{:.0} us", d.steps_us.total),
        next.map_or_else(String::new, |c| format!("{} {}", clean(&c.endpoint), total(c.total))),
    ];
    (cells, if failed { painted(Color::Red) } else { Style::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::state::Seen;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn seen(n: usize) -> Seen {
        let endpoint = |at: usize| Endpoint {
            name: format!("pod-{at}\x1b[2J"),
            address: format!("10.0.0.{at}:8000"),
            ready: at != 1,
            reason: (at == 1).then(|| "connection refused".into()),
            waiting: Some(2.0),
            kv_cache_usage: Some(0.455),
            in_flight: 3,
            ..Endpoint::default()
        };
        Seen {
            endpoints: (0..n).map(endpoint).collect(),
            decisions: vec![Record { id: "0D1".into(), ..Record::default() }],
        }
    }

    fn drawn(width: u16, height: u16, n: usize) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut top = Top::new("127.0.0.1:9090");
        top.saw(Ok(seen(n)));
        terminal.draw(|frame| draw(frame, &mut top)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_small_and_a_large_terminal_both_show_fleet_and_decisions() {
        for (width, height) in [(80, 24), (200, 60)] {
            let text = drawn(width, height, 6);
            for word in ["5 of 6 ready", "pod-0", "not ready", "45.5 %", "nobody", "under way", "q ends"] {
                assert!(text.contains(word), "{width}x{height} lacks {word}:\n{text}");
            }
            assert_eq!(text.contains("connection refused"), width == 200);
            assert!(!text.contains('\x1b'));
        }
    }

    #[test]
    fn more_endpoints_than_fit_are_counted() {
        let text = drawn(80, 24, 500);
        assert!(text.contains("0 above, 489 below"), "{text}");
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (10, 3), (40, 6)] {
            drawn(width, height, 3);
        }
    }
}

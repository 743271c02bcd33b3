//! `pointsman top`: the fleet and the newest decisions in a terminal, for as long as one looks.
//!
//! It asks a running Pointsman twice a second. A server that goes away is said to be away, with what was last seen left in sight, and is found again when
//! it comes back.

mod screen;
mod state;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{Receiver, channel};

use crate::admin_client::{Target, converse};
use crate::failure::{Exit, Failure};
use state::{Key, Seen, Top as State};

const EXAMPLES: &str = "\
Examples:
  pointsman top
  pointsman top --admin 10.0.0.5:9090 --interval 1s";

/// How long a look at the keyboard lasts; the thread that does it ends within as much.
const LOOK: Duration = Duration::from_millis(100);
/// Decisions that are asked for; more fit on no screen.
const DECISIONS: usize = 100;

/// Of which Pointsman, and how often.
#[derive(Args, Debug)]
#[command(
    before_help = EXAMPLES,
    after_help = "Keys: q ends, space holds the picture, up and down scroll the fleet, s changes its order."
)]
pub(crate) struct Top {
    /// Time between two looks
    #[arg(long, default_value = "500ms", value_parser = crate::serve::flags::at_least_10ms, value_name = "TIME")]
    interval: Duration,
    #[command(flatten)]
    target: Target,
}

/// Shows it until told to stop.
pub(crate) fn run(options: &Top) -> Result<Exit, Failure> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("top needs a terminal to draw on")
            .next("`pointsman status` and `pointsman explain --follow` print into pipes and files"));
    }
    let mut terminal = ratatui::try_init().map_err(|e| Failure::new("the terminal cannot be drawn on").why(e))?;
    let ended = converse(watch(&mut terminal, options));
    ratatui::restore();
    ended.map(|()| Exit::Fine)
}

async fn watch(terminal: &mut ratatui::DefaultTerminal, options: &Top) -> Result<(), Failure> {
    let mut keys = keyboard();
    let mut state = State::new(options.target.address());
    let mut looks = std::pin::pin!(look(&options.target));
    let mut beat = tokio::time::interval(options.interval);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut asking = true;
    loop {
        terminal.draw(|frame| screen::draw(frame, &mut state))?;
        tokio::select! {
            seen = &mut looks, if asking => {
                state.saw(seen);
                asking = false;
            }
            _ = beat.tick(), if !asking => {
                looks.set(look(&options.target));
                asking = true;
            }
            key = keys.recv() => match key {
                Some(Key::Quit) | None => return Ok(()),
                Some(key) => state.press(key),
            },
        }
    }
}

/// One look at everything.
async fn look(target: &Target) -> Result<Seen, Failure> {
    let endpoints = target.get("/api/endpoints").await?.read::<crate::status::Pool>()?.endpoints;
    let page: state::Page = target.get(&format!("/api/decisions?limit={DECISIONS}")).await?.read()?;
    Ok(Seen { endpoints, decisions: page.decisions })
}

/// Keys, read on a thread of their own: there is no other way to wait for them.
fn keyboard() -> Receiver<Key> {
    let (sender, receiver) = channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let key = match event::poll(LOOK) {
                Ok(false) => continue,
                Ok(true) => event::read().map(meaning).unwrap_or(Some(Key::Quit)),
                Err(_) => Some(Key::Quit),
            };
            if key.is_some_and(|key| sender.blocking_send(key).is_err()) {
                return;
            }
        }
    });
    receiver
}

fn meaning(event: Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Redraw),
        Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) => match code {
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
            KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
            KeyCode::Char(' ') => Some(Key::Hold),
            KeyCode::Char('s') => Some(Key::Order),
            KeyCode::Up | KeyCode::Char('k') => Some(Key::Scroll(-1)),
            KeyCode::Down | KeyCode::Char('j') => Some(Key::Scroll(1)),
            KeyCode::PageUp => Some(Key::Scroll(-20)),
            KeyCode::PageDown => Some(Key::Scroll(20)),
            _ => None,
        },
        _ => None,
    }
}

use super::*;
use crate::testing::{Bench, answered, endpoint};
use pointsman_scheduling::{Role, Served};

const LIMITS: Limits = Limits { ttl: Duration::from_secs(300), capacity: 1600 };

fn by_sealed_header() -> SessionAffinity {
    let key = Some(Key::new("a key of sixteen"));
    let strategy = Strategy::Header { name: "x-session-token".into(), key };
    SessionAffinity { strategy, ..by_plain_header() }
}

fn by_id(sources: Vec<Source>) -> SessionAffinity {
    SessionAffinity { strategy: Strategy::SessionId { sources, limits: LIMITS }, profile: None, state: Arc::default() }
}

fn header(name: &str) -> Source {
    Source::Header(name.into())
}

fn bench() -> Bench {
    Bench::new(["a", "b", "c"].map(endpoint))
}

fn bound(affinity: &SessionAffinity, bench: &Bench) -> Option<usize> {
    bench.with(|cycle, scope| affinity.bound(cycle, scope))
}

/// The request of `bench` goes to its endpoint `at`.
fn choose(affinity: &SessionAffinity, bench: &Bench, at: usize, others: &[StagePick]) -> Option<Box<dyn Held>> {
    let endpoint = &bench.endpoints()[at];
    let (request, facts) = (&bench.request, &bench.facts);
    let chosen = Chosen { request, facts, profile: "default", endpoint, candidate: at, candidates: 3, others };
    affinity.chosen(&chosen, &mut AddedHeaders::new())
}

/// The header that a response gets, of the endpoint `a`.
fn set(affinity: &SessionAffinity) -> Vec<(String, String)> {
    let mut out = Vec::new();
    answered(Served::NoNamespace, |a| {
        affinity.response_head(a, &mut |name, value| out.push((name.to_owned(), value.to_owned())));
    });
    out
}

#[test]
fn a_token_brings_a_request_back_to_its_endpoint() {
    let with = |token: &str| bound(&by_plain_header(), &bench().header("x-session-token", token));
    assert_eq!(with("ZGVmYXVsdC9i"), Some(1));
    assert_eq!(with("ZGVmYXVsdC96"), None, "default/z is not there");
    assert_eq!(with("not base64"), None);
    assert_eq!(bound(&by_plain_header(), &bench()), None);
}

#[test]
fn a_response_names_the_endpoint_that_served_it() {
    assert_eq!(set(&by_plain_header()), [("x-session-token".to_owned(), "ZGVmYXVsdC9h".to_owned())]);
    assert!(set(&by_id(vec![header("x-session-id")])).is_empty());
}

#[test]
fn a_sealed_token_goes_round_and_a_plain_one_counts_for_nothing() {
    let affinity = by_sealed_header();
    let token = Tags::default().token(&Key::new("a key of sixteen"), &bench().endpoints()[2]);
    assert_eq!(bound(&affinity, &bench().header("x-session-token", &token)), Some(2));
    assert_eq!(bound(&affinity, &bench().header("x-session-token", "ZGVmYXVsdC9i")), None);
    assert_eq!(set(&affinity).len(), 1);
}

#[test]
fn another_profiles_endpoint_is_named_where_that_is_asked_for() {
    let named = |profile: &str| SessionAffinity { profile: Some(profile.into()), ..by_plain_header() };
    assert_eq!(set(&named("default")).len(), 1, "the primary one by its name");
    assert!(set(&named("prefill")).is_empty(), "that profile did not run");
}

#[test]
fn the_first_source_that_says_something_identifies_the_session() {
    let (mut bench, id) = bench().columns(|c| c.text());
    let affinity = by_id(vec![header("x-session-id"), Source::Text(id)]);
    bench.facts.set_text(id, "agent-7");
    assert!(choose(&affinity, &bench, 2, &[]).is_some());
    assert_eq!(bound(&affinity, &bench), Some(2));
    let bench = bench.header("x-session-id", " other ");
    assert_eq!(bound(&affinity, &bench), None);
    let bench = bench.header("x-session-id", "agent-7");
    assert_eq!(bound(&affinity, &bench), Some(2), "an identifier is what it says, wherever it stands");
    assert_eq!(bound(&affinity, &bench.header("x-session-id", "  ")), Some(2), "a blank one says nothing");
}

#[test]
fn a_request_without_a_session_binds_nothing() {
    let affinity = by_id(vec![header("x-session-id")]);
    assert!(choose(&affinity, &bench(), 0, &[]).is_none());
    assert_eq!(bound(&affinity, &bench()), None);
    assert!(affinity.state.sessions.by_endpoint().is_empty());
}

#[test]
fn a_session_moves_only_when_its_endpoint_is_no_candidate() {
    let affinity = by_id(vec![header("x-session-id")]);
    let mut bench = bench().header("x-session-id", "alice");
    bench.request.id = "1".into();
    choose(&affinity, &bench, 0, &[]);
    bench.request.id = "2".into();
    assert_eq!(bound(&affinity, &bench), Some(0));
    assert!(choose(&affinity, &bench, 1, &[]).is_none());
    bench.request.id = "3".into();
    let missed = bench.with(|cycle, scope| affinity.bound(cycle, Scope { all: scope.all, kept: &[1, 2] }));
    assert_eq!(missed, None);
    choose(&affinity, &bench, 2, &[]);
    bench.request.id = "4".into();
    assert_eq!(bound(&affinity, &bench), Some(2));
}

#[test]
fn a_binding_is_withdrawn_with_the_request_that_made_it() {
    let affinity = by_id(vec![header("x-session-id")]);
    let bench = bench().header("x-session-id", "alice");
    choose(&affinity, &bench, 0, &[]).expect("bound anew").withdrawn();
    assert_eq!(bound(&affinity, &bench), None);
    choose(&affinity, &bench, 1, &[]).expect("bound anew").ended(pointsman_scheduling::Termination::Natural);
    assert_eq!(bound(&affinity, &bench), Some(1));
}

#[test]
fn the_choice_of_a_named_profile_counts() {
    let affinity = SessionAffinity { profile: Some("prefill".into()), ..by_id(vec![header("x-session-id")]) };
    let bench = bench().header("x-session-id", "alice");
    assert!(choose(&affinity, &bench, 0, &[]).is_none(), "it did not run");
    let prefill = StagePick {
        profile: "prefill".into(),
        role: Role::Prefill,
        endpoints: vec![Arc::clone(&bench.endpoints()[1])],
        candidates: vec![1],
    };
    choose(&affinity, &bench, 0, &[prefill]);
    assert_eq!(bound(&affinity, &bench), Some(1));
}

#[test]
fn a_dump_counts_sessions_and_names_none() {
    let affinity = by_id(vec![header("x-session-id")]);
    for (session, at) in [("alice", 0), ("bob", 2), ("carol", 2)] {
        choose(&affinity, &bench().header("x-session-id", session), at, &[]);
    }
    let fleet = pointsman_fleet::Fleet::new(Arc::new(pointsman_core::ManualClock::at(pointsman_core::Nanos(1))));
    let dump = affinity.state.dump(&fleet.snapshot()).expect("a dump");
    let want = serde_json::json!({
        "endpoints": [{"endpoint": "default/a", "sessions": 1}, {"endpoint": "default/c", "sessions": 2}],
        "totalEndpoints": 2, "maxEndpoints": 100, "totalSessions": 3,
    });
    assert_eq!(dump, want);
}

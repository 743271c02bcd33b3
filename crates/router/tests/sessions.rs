//! Sessions through the router: which endpoint they are bound to, and when that changes.

use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::{Condition, Endpoint, EndpointMeta, Scraped};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, RequestHead, Routed};
use pointsman_scheduling::{Served, Termination};
use std::sync::Arc;
use std::time::Duration;

struct Bench {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
}

/// Endpoints `a` and `b`, and a profile of this plugin (weight 10 where it scores) and short queues.
fn bench(plugin: &str) -> Bench {
    let kind = plugin.split([',', '}']).next().expect("a type").trim_start_matches("{type: ");
    let config = format!(
        "plugins:\n- {plugin}\n- type: queue-scorer\nschedulingProfiles:\n- name: default\n  plugins:\n  - {{pluginRef: {kind}{}}}\n  - pluginRef: queue-scorer\n",
        if kind.ends_with("scorer") { ", weight: 10" } else { "" }
    );
    let states = Arc::<LearnedStates>::default();
    let how = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::clone(&states) };
    let mut faults = Faults::new();
    let compiled = compile(config.as_bytes(), &how, &mut faults);
    let compiled = compiled.unwrap_or_else(|| panic!("{:?}", faults.iter().collect::<Vec<_>>()));
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let options = PoolOptions { clock: clock.clone(), states, stale_after: Duration::ZERO, ..PoolOptions::default() };
    let bench = Bench { pool: Pool::new(options, compiled), clock };
    for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
        bench.pool.fleet.upsert(EndpointMeta::new(EndpointName::new("default", name), address, 8000));
    }
    bench
}

impl Bench {
    fn endpoint(&self, name: &str) -> Arc<Endpoint> {
        let snapshot = self.pool.fleet.snapshot();
        Arc::clone(snapshot.named(&EndpointName::new("default", name)).expect("it is there"))
    }

    /// Makes `name` the endpoint that everybody without a session goes to.
    fn prefer(&self, name: &str) {
        for other in ["a", "b"] {
            let waiting = Some(if other == name { 0.0 } else { 9.0 });
            let scraped = Scraped { waiting, ..Scraped::default() };
            self.endpoint(other).engine.apply(Nanos(1_000_000_000), &scraped);
        }
    }

    fn ready(&self, name: &str, ready: bool) {
        let why = if ready { None } else { Some("refused".into()) };
        self.endpoint(name).health.set(Condition::Probe, why, &*self.clock);
    }

    fn send(&self, id: &str, header: (&str, &str)) -> Routed {
        let mut reading = self.pool.begin(RequestHead {
            transport: "gateway",
            method: "POST".into(),
            path: "/v1/completions".into(),
            headers: [("x-request-id".into(), id.into()), (header.0.into(), header.1.into())].into(),
            received: pointsman_core::Clock::now(&*self.clock),
            subset: None,
        });
        reading.push("{\"model\":\"m\",\"prompt\":\"hello\"}".into());
        reading.decide().expect("routed")
    }

    /// Where a request of `user` goes.
    fn goes(&self, id: &str, user: &str) -> String {
        let routed = self.send(id, ("x-session-id", user));
        let name = routed.endpoint().name().name.to_string();
        routed.finish(Termination::Natural, None);
        name
    }
}

const BY_ID: &str = "{type: session-affinity-filter, parameters: {strategy: session_id}}";
const BY_ID_SOFT: &str = "{type: session-affinity-scorer, parameters: {strategy: session_id}}";

#[test]
fn a_session_stays_where_its_first_request_went() {
    for plugin in [BY_ID, BY_ID_SOFT] {
        let bench = bench(plugin);
        bench.prefer("a");
        assert_eq!(bench.goes("1", "alice"), "a");
        bench.prefer("b");
        assert_eq!(bench.goes("2", "alice"), "a", "{plugin}");
        assert_eq!(bench.goes("3", "bob"), "b");
        bench.prefer("a");
        assert_eq!(bench.goes("4", "bob"), "b");
        assert_eq!(bench.goes("5", " "), "a", "a request without a session");
    }
}

#[test]
fn a_session_moves_when_its_endpoint_is_no_candidate_and_does_not_move_back() {
    for plugin in [BY_ID, BY_ID_SOFT] {
        let bench = bench(plugin);
        bench.prefer("a");
        assert_eq!(bench.goes("1", "alice"), "a");
        bench.ready("a", false);
        assert_eq!(bench.goes("2", "alice"), "b");
        bench.ready("a", true);
        assert_eq!(bench.goes("3", "alice"), "b", "{plugin}");
    }
}

#[test]
fn a_session_ends_when_it_was_not_used_for_its_time_to_live() {
    let bench = bench(
        "{type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {evictionTtlSeconds: 10}}}",
    );
    bench.prefer("a");
    assert_eq!(bench.goes("1", "alice"), "a");
    bench.prefer("b");
    for id in ["2", "3"] {
        bench.clock.advance(Duration::from_secs(10));
        assert_eq!(bench.goes(id, "alice"), "a", "it was used in between");
    }
    bench.clock.advance(Duration::from_secs(11));
    assert_eq!(bench.goes("4", "alice"), "b");
}

#[test]
fn a_session_is_bound_to_the_endpoint_that_served_and_not_to_the_one_that_could_not() {
    let bench = bench(BY_ID_SOFT);
    bench.prefer("a");
    let mut routed = bench.send("1", ("x-session-id", "alice"));
    assert_eq!(&*routed.endpoint().name().name, "a");
    assert!(routed.retry("connection refused"));
    routed.finish(Termination::Natural, None);
    assert_eq!(bench.goes("2", "alice"), "b");
}

#[test]
fn a_response_carries_a_token_that_brings_the_next_request_back() {
    let sealed =
        "{type: session-affinity-filter, parameters: {encodedEndpointHeaderConfig: {sealingKey: a key of sixteen}}}";
    for plugin in ["{type: session-affinity-filter}", "{type: session-affinity-scorer}", sealed] {
        let bench = bench(plugin);
        bench.prefer("a");
        let routed = bench.send("1", ("x-session-token", ""));
        let mut token = String::new();
        routed.response_headers(Served::NoNamespace, &mut |name, value| {
            assert_eq!(name, "x-session-token");
            value.clone_into(&mut token);
        });
        routed.finish(Termination::Natural, None);
        assert_eq!(token == "ZGVmYXVsdC9h", plugin != sealed, "{token}");
        bench.prefer("b");
        let back = bench.send("2", ("x-session-token", &token));
        assert_eq!(&*back.endpoint().name().name, "a", "{plugin}");
        let lost = bench.send("3", ("x-session-token", "nonsense"));
        assert_eq!(&*lost.endpoint().name().name, "b");
    }
}

#[test]
fn what_is_known_of_sessions_is_counted_for_people() {
    let bench = bench(BY_ID);
    bench.prefer("a");
    bench.goes("1", "alice");
    bench.goes("2", "bob");
    let state = bench.pool.learned("session-affinity-filter", &"session-affinity-filter".into()).expect("a dump");
    assert_eq!(state["totalSessions"], 2);
    assert!(!state.to_string().contains("alice"), "{state}");
}

#[test]
fn a_session_of_the_primary_profile_by_its_name_is_kept() {
    let bench = bench("{type: session-affinity-filter, parameters: {strategy: session_id, profileName: default}}");
    bench.prefer("a");
    assert_eq!(bench.goes("1", "alice"), "a");
    bench.prefer("b");
    assert_eq!(bench.goes("2", "alice"), "a");
}

#[test]
fn a_shadow_neither_ends_nor_moves_nor_keeps_a_session() {
    let shadow = |plugins: &str| {
        format!(
            "plugins:\n{plugins}- type: queue-scorer\nschedulingProfiles:\n- name: default\n  plugins:\n{}",
            "  - pluginRef: hide\n  - pluginRef: session-affinity-filter\n  - pluginRef: queue-scorer\n"
        )
    };
    let hide = "- {type: label-selector-filter, name: hide, parameters: {matchLabels: {shown: \"yes\"}}}\n";
    let short = "- {type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {evictionTtlSeconds: 1}}}\n";
    let bench = bench(BY_ID);
    let mut faults = Faults::new();
    let document = shadow(&format!("{hide}{short}"));
    assert!(
        bench.pool.shadow(document.as_bytes(), true, DefaultProfile::Epp, &mut faults).is_some(),
        "{:?}",
        faults.iter().collect::<Vec<_>>()
    );
    bench.prefer("a");
    assert_eq!(bench.goes("1", "alice"), "a");
    bench.prefer("b");
    bench.clock.advance(Duration::from_secs(2));
    assert_eq!(bench.goes("2", "alice"), "a", "the shadow thinks it over, and does not find `a`");
    assert_eq!(bench.goes("3", "alice"), "a");
    // The endpoint is gone for once: the session moves, though the shadow would have found it.
    let open = shadow(
        "- {type: label-selector-filter, name: hide, parameters: {}}\n- {type: session-affinity-filter, parameters: {strategy: session_id}}\n",
    );
    assert!(bench.pool.shadow(open.as_bytes(), true, DefaultProfile::Epp, &mut Faults::new()).is_some());
    bench.ready("a", false);
    assert_eq!(bench.goes("4", "alice"), "b");
    bench.ready("a", true);
    bench.prefer("a");
    assert_eq!(bench.goes("5", "alice"), "b");
}

#[test]
fn a_shadow_that_is_the_same_never_differs() {
    let agent = "{type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {sources: [{attribute: agent-identity}]}}}";
    let config = format!(
        "plugins:\n- {agent}\n- type: agent-identity\n- type: queue-scorer\nschedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: session-affinity-filter\n  - pluginRef: queue-scorer\n"
    );
    let bench = bench(&format!("{agent}\n- type: agent-identity"));
    let mut faults = Faults::new();
    assert!(bench.pool.shadow(config.as_bytes(), true, DefaultProfile::Epp, &mut faults).is_some());
    bench.prefer("a");
    let agent = ("x-session-affinity", "me");
    let first = bench.send("1", agent);
    let name = first.endpoint().name().clone();
    first.finish(Termination::Natural, None);
    bench.prefer("b");
    let second = bench.send("2", agent);
    assert_eq!(*second.endpoint().name(), name, "the agent's session is kept");
    let shadow = second.decision().shadow.as_ref().expect("compared");
    assert!(!shadow.differs, "{:?} is what is in force", shadow.endpoint);
    second.finish(Termination::Natural, None);
}

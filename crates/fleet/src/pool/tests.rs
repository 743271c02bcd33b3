use pointsman_core::{ManualClock, Nanos};

use super::*;
use crate::{Labels, Scraped};

fn fleet() -> Fleet {
    Fleet::new(Arc::new(ManualClock::at(Nanos(7_000_000))))
}

fn name(name: &str) -> EndpointName {
    EndpointName::new("default", name)
}

fn meta(called: &str, host: u8) -> EndpointMeta {
    EndpointMeta::new(name(called), format!("10.0.0.{host}"), 8000)
}

fn names(fleet: &Fleet) -> Vec<String> {
    fleet.snapshot().endpoints.iter().map(|e| e.name().name.to_string()).collect()
}

/// A listener that writes down what it hears.
fn listen(fleet: &Fleet) -> Arc<Mutex<Vec<String>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    fleet.subscribe(Box::new(move |event| {
        let (verb, endpoint) = match event {
            FleetEvent::Added(e) => ("+", e),
            FleetEvent::Updated(e) => ("~", e),
            FleetEvent::Removed(e) => ("-", e),
        };
        log.lock().push(format!("{verb}{} {}", endpoint.name().name, endpoint.host_port()));
    }));
    heard
}

#[test]
fn endpoints_are_listed_in_the_order_of_arrival() {
    let fleet = fleet();
    for (called, host) in [("c", 3), ("a", 1), ("b", 2)] {
        assert!(matches!(fleet.upsert(meta(called, host)), Change::Added(_)));
    }
    assert_eq!(names(&fleet), ["c", "a", "b"]);
    fleet.remove(&name("a"));
    fleet.upsert(meta("a", 1));
    assert_eq!(names(&fleet), ["c", "b", "a"]);
    assert_eq!(fleet.snapshot().version, 5);
}

#[test]
fn a_changed_label_keeps_slot_id_and_state() {
    let fleet = fleet();
    let Change::Added(old) = fleet.upsert(meta("a", 1)) else { panic!("not added") };
    fleet.upsert(meta("b", 2));
    old.load.charge(1, 100);
    old.engine.apply(Nanos(9), &Scraped { waiting: Some(4.0), ..Scraped::default() });
    let mut labelled = meta("a", 1);
    labelled.labels = [("role", "decode")].into_iter().collect::<Labels>();
    let Change::Updated(new) = fleet.upsert(labelled.clone()) else { panic!("not updated") };
    assert_eq!((new.slot, new.id, new.meta.labels.get("role")), (old.slot, old.id, Some("decode")));
    assert_eq!((new.load.requests(), new.engine.view().waiting), (1, 4.0));
    old.load.release(1, 100);
    assert_eq!(new.load.requests(), 0, "a request that began with the old description releases the same load");
    assert_eq!(names(&fleet), ["a", "b"]);
    let version = fleet.snapshot().version;
    assert!(matches!(fleet.upsert(labelled), Change::Unchanged(_)));
    assert_eq!(fleet.snapshot().version, version);
}

#[test]
fn a_changed_address_is_a_new_endpoint_with_nothing_known() {
    let fleet = fleet();
    let Change::Added(before) = fleet.upsert(meta("a", 1)) else { panic!("not added") };
    before.load.charge(3, 30);
    let heard = listen(&fleet);
    let Change::Replaced { old, new } = fleet.upsert(meta("a", 9)) else { panic!("not replaced") };
    assert_eq!(old.id, before.id);
    assert_ne!((new.id, new.slot), (old.id, old.slot));
    assert_eq!(new.load.requests(), 0);
    assert!(old.left() && !old.ready() && new.ready());
    assert_eq!(*heard.lock(), ["+a 10.0.0.1:8000", "-a 10.0.0.1:8000", "+a 10.0.0.9:8000"]);
    assert!(fleet.snapshot().at("10.0.0.1:8000").is_none());
    assert_eq!(fleet.snapshot().at("10.0.0.9:8000").map(|e| e.id), Some(new.id));
}

#[test]
fn a_slot_is_reused_only_when_nobody_holds_its_endpoint() {
    let fleet = fleet();
    fleet.upsert(meta("a", 1));
    fleet.upsert(meta("b", 2));
    let held = fleet.remove(&name("a")).expect("a is there");
    assert_eq!(held.slot, Slot(0));
    let Change::Added(c) = fleet.upsert(meta("c", 3)) else { panic!("not added") };
    assert_eq!((c.slot, fleet.snapshot().slots), (Slot(2), 3), "a request still holds the old one");
    drop(held);
    let Change::Added(d) = fleet.upsert(meta("d", 4)) else { panic!("not added") };
    assert_eq!((d.slot, fleet.snapshot().slots), (Slot(0), 3));
}

#[test]
fn a_slot_is_not_reused_while_an_old_description_of_its_endpoint_is_held() {
    let fleet = fleet();
    let Change::Added(old) = fleet.upsert(meta("a", 1)) else { panic!("not added") };
    let mut labelled = meta("a", 1);
    labelled.rank = 1;
    fleet.upsert(labelled);
    drop(fleet.remove(&name("a")));
    let Change::Added(b) = fleet.upsert(meta("b", 2)) else { panic!("not added") };
    assert_ne!(b.slot, old.slot);
}

#[test]
fn slots_stay_dense_however_often_endpoints_are_replaced() {
    let fleet = fleet();
    for generation in 0..100u8 {
        fleet.replace_all((0..10).map(|i| meta(&format!("{generation}-{i}"), i)).collect());
        let slots: HashSet<_> = fleet.snapshot().endpoints.iter().map(|e| e.slot).collect();
        assert_eq!(slots.len(), 10);
        assert!(fleet.snapshot().slots <= 20);
    }
}

#[test]
fn listeners_have_heard_of_a_removal_before_its_slot_is_reused() {
    let fleet = Arc::new(fleet());
    let owner: Arc<Mutex<HashMap<Slot, u64>>> = Arc::default();
    let column = Arc::clone(&owner);
    fleet.subscribe(Box::new(move |event| match event {
        FleetEvent::Added(e) => assert!(column.lock().insert(e.slot, e.id).is_none(), "slot still owned"),
        FleetEvent::Removed(e) => assert_eq!(column.lock().remove(&e.slot), Some(e.id)),
        FleetEvent::Updated(_) => {}
    }));
    for round in 0..50u8 {
        fleet.upsert(meta("a", round));
        fleet.upsert(meta("b", round.wrapping_add(100)));
        if round % 3 == 0 {
            fleet.remove(&name("a"));
        }
    }
    assert_eq!(owner.lock().len(), fleet.snapshot().endpoints.len());
}

#[test]
fn replacing_the_list_reports_only_what_changed() {
    let fleet = fleet();
    fleet.replace_all(vec![meta("a", 1), meta("b", 2), meta("c", 3)]);
    let heard = listen(&fleet);
    heard.lock().clear();
    let mut relabelled = meta("c", 3);
    relabelled.rank = 1;
    let changes = fleet.replace_all(vec![meta("d", 4), relabelled, meta("a", 1), meta("d", 5)]);
    let told: Vec<String> = changes
        .iter()
        .map(|change| match change {
            Change::Added(e) => format!("+{}", e.host_port()),
            Change::Updated(e) => format!("~{}", e.host_port()),
            Change::Removed(e) => format!("-{}", e.host_port()),
            Change::Replaced { .. } | Change::Unchanged(_) => "unexpected".into(),
        })
        .collect();
    assert_eq!(told, ["-10.0.0.2:8000", "+10.0.0.5:8000", "~10.0.0.3:8000"]);
    assert_eq!(names(&fleet), ["a", "c", "d"]);
    assert_eq!(*heard.lock(), ["-b 10.0.0.2:8000", "+d 10.0.0.5:8000", "~c 10.0.0.3:8000"]);
    assert!(fleet.replace_all(fleet.snapshot().endpoints.iter().map(|e| (*e.meta).clone()).collect()).is_empty());
}

#[test]
fn readers_never_see_an_empty_fleet_while_every_endpoint_is_replaced() {
    let fleet = Arc::new(fleet());
    fleet.replace_all(vec![meta("a", 1), meta("b", 2)]);
    std::thread::scope(|scope| {
        let reader = Arc::clone(&fleet);
        let watch = scope.spawn(move || {
            while reader.load().version < 300 {
                assert_eq!(reader.load().endpoints.len(), 2);
            }
        });
        for round in 0..300u32 {
            let [hi, lo] = (round as u16).to_be_bytes();
            let at = |n: &str, x: u8| EndpointMeta::new(name(n), format!("10.{x}.{hi}.{lo}"), 8000);
            fleet.replace_all(vec![at("a", 1), at("b", 2)]);
        }
        watch.join().expect("the reader saw two endpoints each time");
    });
}

#[test]
fn an_endpoint_that_discovery_calls_unready_joins_unready() {
    let fleet = fleet();
    let mut unready = meta("a", 1);
    unready.not_ready = Some("pod not ready".into());
    fleet.upsert(unready);
    let endpoint = Arc::clone(&fleet.snapshot().endpoints[0]);
    assert_eq!(endpoint.health.describe().reason.as_deref(), Some("pod not ready"));
    assert_eq!(fleet.snapshot().ready(), 0);
    fleet.upsert(meta("a", 1));
    assert!(endpoint.ready());
    assert_eq!(fleet.snapshot().ready(), 1);
}

#[test]
fn removing_an_unknown_name_changes_nothing() {
    let fleet = fleet();
    fleet.upsert(meta("a", 1));
    assert!(fleet.remove(&name("b")).is_none());
    assert_eq!(fleet.snapshot().version, 1);
}

#[test]
fn a_snapshot_taken_before_a_change_stays_as_it_was() {
    let fleet = fleet();
    fleet.upsert(meta("a", 1));
    let before = fleet.snapshot();
    fleet.remove(&name("a"));
    assert_eq!(before.endpoints.len(), 1);
    assert!(before.endpoints[0].left() && !before.endpoints[0].ready());
    assert_eq!(before.named(&name("a")).map(|e| e.slot), Some(Slot(0)));
    assert_eq!(fleet.snapshot().endpoints.len(), 0);
}

//! The endpoints file, changed in every way that files are changed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{pause, until};
use pointsman_core::SystemClock;
use pointsman_fleet::Fleet;
use pointsman_sources::{Discovery, EndpointsFile, endpoints_of};

fn list(names: &[&str]) -> String {
    let entry =
        |name: &&str| format!("- {{name: {name}, address: 10.0.0.1, port: \"8000\", labels: {{role: decode}}}}\n");
    format!("endpoints:\n{}", names.iter().map(entry).collect::<String>())
}

fn fleet() -> Arc<Fleet> {
    Arc::new(Fleet::new(Arc::new(SystemClock::default())))
}

fn names(fleet: &Fleet) -> Vec<String> {
    fleet.load().endpoints.iter().map(|e| e.name().name.to_string()).collect()
}

fn watch(fleet: &Arc<Fleet>, path: &Path) -> Discovery {
    let file = EndpointsFile { path: path.to_owned(), allow_any_host: false };
    Discovery::start(Arc::clone(fleet), Vec::new(), Some(file), true).unwrap()
}

async fn becomes(fleet: &Fleet, want: &[&str]) {
    until(&format!("{want:?}"), || names(fleet) == want).await;
}

#[tokio::test]
async fn every_way_of_changing_the_file_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    fs::write(&path, list(&["a"])).unwrap();
    let fleet = fleet();
    let _watching = watch(&fleet, &path);
    assert_eq!(names(&fleet), ["a"]);
    assert_eq!(fleet.load().endpoints[0].meta.labels.get("role"), Some("decode"));

    fs::write(&path, list(&["a", "b"])).unwrap();
    becomes(&fleet, &["a", "b"]).await;

    let next = folder.path().join("next");
    for want in [&["b", "c"][..], &["c"], &["c", "d"]] {
        fs::write(&next, list(want)).unwrap();
        fs::rename(&next, &path).unwrap();
        becomes(&fleet, want).await;
    }

    fs::remove_file(&path).unwrap();
    pause(700).await;
    assert_eq!(names(&fleet), ["c", "d"], "a missing file takes nobody away");
    fs::write(&path, list(&["e"])).unwrap();
    becomes(&fleet, &["e"]).await;
    fs::write(&path, list(&["f"])).unwrap();
    becomes(&fleet, &["f"]).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_swapped_link_is_seen() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    for (version, name) in [("v1", "a"), ("v2", "b")] {
        fs::create_dir(folder.path().join(version)).unwrap();
        fs::write(folder.path().join(version).join("endpoints.yaml"), list(&[name])).unwrap();
    }
    symlink("v1", folder.path().join("data")).unwrap();
    let fleet = fleet();
    let _watching = watch(&fleet, &folder.path().join("data/endpoints.yaml"));
    assert_eq!(names(&fleet), ["a"]);
    symlink("v2", folder.path().join("data_next")).unwrap();
    fs::rename(folder.path().join("data_next"), folder.path().join("data")).unwrap();
    becomes(&fleet, &["b"]).await;
}

#[tokio::test]
async fn a_file_caught_half_written_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    fs::write(&path, list(&["a", "b"])).unwrap();
    let fleet = fleet();
    let _watching = watch(&fleet, &path);
    let whole = list(&["a", "b", "c"]);
    // Written anew in steps of 30 ms for longer than a look takes to come round: whatever look comes, it sees a part.
    for cut in 0..24 {
        fs::write(&path, &whole[..cut * (whole.len() - 1) / 24]).unwrap();
        pause(30).await;
        assert_eq!(names(&fleet), ["a", "b"]);
    }
    fs::write(&path, &whole).unwrap();
    becomes(&fleet, &["a", "b", "c"]).await;
}

#[tokio::test]
async fn a_file_that_a_slow_writer_has_emptied_is_not_an_empty_pool_but_one_left_empty_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    fs::write(&path, list(&["a"])).unwrap();
    let fleet = fleet();
    let _watching = watch(&fleet, &path);
    fs::write(&path, "").unwrap();
    pause(1_500).await;
    assert_eq!(names(&fleet), ["a"]);
    fs::write(&path, list(&["b"])).unwrap();
    becomes(&fleet, &["b"]).await;
    fs::write(&path, "").unwrap();
    becomes(&fleet, &[]).await;
}

#[tokio::test]
async fn a_reload_with_faults_applies_what_is_valid_and_an_unusable_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    fs::write(&path, list(&["a"])).unwrap();
    let fleet = fleet();
    let _watching = watch(&fleet, &path);
    let id = fleet.load().endpoints[0].id;
    fs::write(&path, format!("{}- {{name: bad, address: nonsense, port: 1}}\n", list(&["a", "b"]))).unwrap();
    becomes(&fleet, &["a", "b"]).await;
    for unusable in [
        "endpoints: [{",
        "endpoints:\n- {name: c, address: nonsense, port: 1}\n",
        "endpoints:\n- {name: c, address: 10.0.0.1, port: 1, labels: {a: yes}}\n",
    ] {
        fs::write(&path, unusable).unwrap();
        pause(900).await;
        assert_eq!(names(&fleet), ["a", "b"]);
    }
    fs::write(&path, list(&["a", "c"])).unwrap();
    becomes(&fleet, &["a", "c"]).await;
    assert_eq!(fleet.load().endpoints[0].id, id, "one that stays keeps what is known of it");
}

#[tokio::test]
async fn the_first_load_is_strict_and_leaves_the_fleet_alone_when_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    let fleet = fleet();
    for text in [format!("{}- {{name: bad, address: nonsense, port: 1}}\n", list(&["a"])), "endpoints: [{".to_owned()] {
        fs::write(&path, text).unwrap();
        let file = EndpointsFile { path: path.clone(), allow_any_host: false };
        let error = Discovery::start(Arc::clone(&fleet), Vec::new(), Some(file), true).unwrap_err().to_string();
        assert!(error.contains("endpoints.yaml:"), "{error}");
        assert_eq!(names(&fleet).len(), 0);
    }
}

#[tokio::test]
async fn fixed_endpoints_stay_whatever_the_file_says_and_a_dropped_watch_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    fs::write(&path, list(&["a"])).unwrap();
    let fleet = fleet();
    let file = EndpointsFile { path: path.clone(), allow_any_host: false };
    let fixed = endpoints_of("10.0.0.9:8000").unwrap();
    let watching = Discovery::start(Arc::clone(&fleet), fixed, Some(file), true).unwrap();
    assert_eq!(names(&fleet), ["10.0.0.9:8000", "a"]);
    fs::write(&path, list(&[])).unwrap();
    becomes(&fleet, &["10.0.0.9:8000"]).await;
    drop(watching);
    fs::write(&path, list(&["a"])).unwrap();
    pause(900).await;
    assert_eq!(names(&fleet), ["10.0.0.9:8000"]);
    assert_eq!(Arc::strong_count(&fleet), 1);
}

//! What is shipped beside the binary says what the binary does.

use std::path::Path;
use std::process::Command;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no line begins with {start}"))
}

#[test]
fn the_image_starts_epp_as_nobody_on_the_default_ports() {
    let file = read("packaging/Dockerfile");
    assert_eq!(line(&file, "FROM "), "scratch");
    assert_eq!(line(&file, "ENTRYPOINT "), "[\"/epp\"]");
    let (user, group) = line(&file, "USER ").split_once(':').expect("user and group");
    assert!([user, group].iter().all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "by number, and not root");
    let flags = read("crates/pointsman/src/epp/flags.rs");
    for port in line(&file, "EXPOSE ").split(' ') {
        assert!(flags.contains(&format!("default_value_t = {port}")), "{port} is no default port");
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = read("packaging/pointsman.service");
    assert!(unit.contains("NoNewPrivileges=yes") && unit.contains("ProtectSystem=strict"));
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return;
    }
    // A program that is there in the place of ours.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pointsman.service");
    std::fs::write(&path, unit.replace("/usr/bin/pointsman", "/bin/true")).expect("the file can be written");
    let checked = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && !said.contains("pointsman.service"), "{said}");
}

//! Runs `cargo test`, passes its output through, and counts what the test runners report.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::report::Tally;
use crate::workspace;

/// Runs the command; its exit code counts as one more failure when no test explains it (a build that broke).
pub(super) fn run(command: &mut Command) -> Result<Tally> {
    let mut child = command
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo test")?;
    let mut tally = Tally::default();
    let output = child.stdout.take().context("the output of cargo test is piped")?;
    let mut lines = BufReader::new(output);
    let mut line = Vec::new();
    let mut out = std::io::stdout();
    while lines.read_until(b'\n', &mut line).context("cannot read the output of cargo test")? > 0 {
        out.write_all(&line).context("cannot write")?;
        if let Some(counted) = counted(&String::from_utf8_lossy(&line)) {
            tally += counted;
        }
        line.clear();
    }
    let status = child.wait().context("cargo test did not end")?;
    if !status.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

/// The counts of a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
fn counted(line: &str) -> Option<Tally> {
    let (_, counts) = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?;
    let number =
        |word: &str| counts.split(';').find_map(|part| part.trim().strip_suffix(word)?.trim_end().parse::<u64>().ok());
    Some(Tally { passed: number("passed")?, failed: number("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_counted_and_nothing_else_is() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s\n";
        let failed = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.2s";
        assert_eq!(counted(ok), Some(Tally { passed: 12, failed: 0 }));
        assert_eq!(counted(failed), Some(Tally { passed: 3, failed: 2 }));
        assert_eq!(counted("test tests::a_result ... ok"), None);
        assert_eq!(counted("12 passed, 0 failed"), None);
    }

    #[test]
    fn a_run_that_breaks_before_its_first_test_is_a_failure() {
        let tally = run(Command::new("sh").args(["-c", "echo nothing; exit 101"])).unwrap();
        assert_eq!(tally, Tally { passed: 0, failed: 1 });
    }
}

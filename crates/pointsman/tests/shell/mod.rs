//! A command, as a shell runs it.

use std::process::{Command, Output, Stdio};

pub(crate) fn pointsman(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pointsman")).args(args).stdin(Stdio::null()).output().expect("the program runs")
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("it ends by itself")
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

pub(crate) fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("the file can be written");
    path.to_str().expect("UTF-8").to_owned()
}

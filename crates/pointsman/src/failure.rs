//! What the process says, and returns, when something did not go as wished.

use std::fmt;
use std::process::ExitCode;

/// How a command ended. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: all is well.
    Fine,
    /// 1: it was done, and the answer is no.
    No,
    /// 2: it was called in a wrong way.
    Usage,
    /// 3: it could not be done.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Fine => 0,
            Exit::No => 1,
            Exit::Usage => 2,
            Exit::Failed => 3,
        })
    }
}

/// An error for a person: what happened and where, why, and what to do next. At most three lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    what: String,
    why: String,
    next: String,
}

impl Failure {
    /// Something could not be done.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, what: what.into(), why: String::new(), next: String::new() }
    }

    /// The command was called in a wrong way.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(what) }
    }

    pub(crate) fn why(mut self, why: impl fmt::Display) -> Self {
        self.why = one_line(&why.to_string());
        self
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    /// Ends with another code.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", one_line(&self.what))?;
        if !self.why.is_empty() {
            write!(f, "\n  why:  {}", self.why)?;
        }
        if !self.next.is_empty() {
            write!(f, "\n  next: {}", self.next)?;
        }
        Ok(())
    }
}

impl From<std::io::Error> for Failure {
    /// For output that cannot be written.
    fn from(error: std::io::Error) -> Self {
        // Whoever closed the pipe has seen enough.
        let exit = if error.kind() == std::io::ErrorKind::BrokenPipe { Exit::Fine } else { Exit::Failed };
        Self::new("cannot write the output").why(error).exit(exit)
    }
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_takes_three_lines_at_most_whatever_its_cause_says() {
        let failure =
            Failure::new("cannot listen on\n 127.0.0.1:80").why("denied\n  by\r\n the system").next("use another port");
        let want = "error: cannot listen on 127.0.0.1:80\n  why:  denied by the system\n  next: use another port";
        assert_eq!(failure.to_string(), want);
        assert_eq!(Failure::new("x").to_string(), "error: x");
    }
}

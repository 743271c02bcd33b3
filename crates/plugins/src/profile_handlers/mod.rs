//! Profile handlers: which profiles run, and whose picks are the answer.

pub mod single_profile_handler;

//! The director: read, resolve, admit, gather, schedule, send, observe.

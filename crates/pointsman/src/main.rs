//! pointsman: the endpoint picker for LLM inference.

fn main() {}

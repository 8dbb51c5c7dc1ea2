//! What travels, to the byte: golden bytes, payloads that are no message, and readers that meet other writers.

mod samples;

mod golden;

mod strangers;

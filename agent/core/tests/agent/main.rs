//! The agent's core from outside: sessions as text, and what holds whatever comes.

mod stage;

mod transcripts;

mod properties;

//! What `antwort prompt` shares with the Go program of the same purpose, so that scripts that read its output keep working:
//! the agent file that it reads, the words of its messages, the form of the calls that it prints.

pub(crate) mod agent_file;
pub(crate) mod calls;
pub(crate) mod messages;

//! Sessions, and the streams on which the server speaks unasked.

use std::collections::HashMap;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

/// The session of a server that has none.
pub(crate) const SHARED: &str = "";

/// Those that are open, and how many there were.
#[derive(Default)]
pub struct Sessions {
    open: HashMap<String, Session>,
    pub made: usize,
    pub deleted: usize,
}

/// One of them.
#[derive(Default)]
pub struct Session {
    /// The version of the protocol that was agreed on.
    pub protocol: String,
    /// Whether the client said that it is ready.
    pub ready: bool,
    stream: Option<UnboundedSender<Value>>,
    /// What waits for a stream.
    waiting: Vec<Value>,
}

impl Sessions {
    /// A new one.
    pub fn make(&mut self, protocol: &str) -> String {
        let id = Uuid::now_v7().simple().to_string();
        self.made += 1;
        self.open.insert(id.clone(), Session { protocol: protocol.to_owned(), ..Session::default() });
        id
    }

    /// The one that all share.
    pub fn open_shared(&mut self) {
        self.open.entry(SHARED.to_owned()).or_default();
    }

    pub fn get(&mut self, id: &str) -> Option<&mut Session> {
        self.open.get_mut(id)
    }

    /// Ends one; whether it was there.
    pub fn delete(&mut self, id: &str) -> bool {
        let there = self.open.remove(id).is_some();
        self.deleted += usize::from(there);
        there
    }

    pub fn forget(&mut self) {
        let shared = self.open.contains_key(SHARED);
        self.open.clear();
        if shared {
            self.open_shared();
        }
    }

    pub fn push(&mut self, id: &str, message: Value) {
        if let Some(session) = self.open.get_mut(id) {
            session.push(message);
        }
    }

    pub fn push_all(&mut self, message: &Value) {
        self.open.values_mut().for_each(|session| session.push(message.clone()));
    }

    pub fn count(&self) -> usize {
        self.open.keys().filter(|id| *id != SHARED).count()
    }

    pub fn streams(&self) -> usize {
        self.open.values().filter(|session| session.listens()).count()
    }
}

impl Session {
    /// Whether a client listens.
    pub fn listens(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.is_closed())
    }

    /// A stream on which all is said from now on, and what waited for it.
    pub fn listen(&mut self) -> UnboundedReceiver<Value> {
        let (stream, messages) = unbounded_channel();
        for message in self.waiting.drain(..) {
            stream.send(message).unwrap();
        }
        self.stream = Some(stream);
        messages
    }

    fn push(&mut self, message: Value) {
        let unsent = match &self.stream {
            Some(stream) => stream.send(message).err().map(|unsent| unsent.0),
            None => Some(message),
        };
        self.waiting.extend(unsent);
    }
}

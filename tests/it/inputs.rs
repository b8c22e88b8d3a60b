//! Client tools inside a run: the response asks for the outputs of the client's functions, waits for them as a row, and goes
//! on in the same stream.

mod a2a;
mod answers;
mod crash;
mod modes;
mod sessions;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::gateway::{Gateway, HttpAnswer, JsonBody, frames_so_far};
use crate::support::upstream::{Reply, Upstream};

/// A function of the client.
fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}})
}

/// A request whose functions run inline.
fn ask() -> Value {
    json!({"model": "test-model", "input": "Weather?", "stream": true, "tools": [function("weather")],
        "antwort": {"client_tools": "inline"}})
}

/// The model calls the function of [`ask`], and answers behind it.
fn calls_weather(upstream: &Upstream) {
    upstream.reply(Reply::Calls(vec![("weather", json!({"city": "Berlin"}))]));
    upstream.text("Sunny.");
}

/// A stream that is read as far as it has come.
pub struct Stream {
    answer: reqwest::Response,
    pub text: String,
}

impl Stream {
    pub async fn open(gateway: &Gateway, body: &Value) -> Self {
        Self::of(reqwest::Client::new().post(format!("{}/v1/responses", gateway.base)).json_body(body)).await
    }

    pub async fn resume(gateway: &Gateway, id: &str, after: u64) -> Self {
        let url = format!("{}/v1/responses/{id}?stream=true&starting_after={after}", gateway.base);
        Self::of(reqwest::Client::new().get(url)).await
    }

    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        Self { answer, text: String::new() }
    }

    /// Reads until there are so many events of this type, and returns them.
    pub async fn until(&mut self, kind: &str, count: usize) -> Vec<Value> {
        let read = async {
            loop {
                let whole = self.text.rfind("\n\n").map_or("", |end| &self.text[..end + 2]);
                let whole = whole.strip_suffix("data: [DONE]\n\n").unwrap_or(whole);
                let found: Vec<_> =
                    frames_so_far(whole).into_iter().filter(|event| event["type"] == kind).collect();
                if found.len() >= count {
                    return found;
                }
                match self.answer.chunk().await.unwrap() {
                    Some(bytes) => self.text.push_str(std::str::from_utf8(&bytes).unwrap()),
                    None => panic!("the stream has ended without {kind}: {}", self.text),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), read).await.expect(kind)
    }

    /// The next question.
    pub async fn question(&mut self) -> Value {
        self.until("antwort:input_required", 1).await.remove(0)
    }

    /// Reads to the end.
    pub async fn rest(mut self) -> String {
        while let Some(bytes) = self.answer.chunk().await.unwrap() {
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        self.text
    }

    /// The id of the response.
    pub fn id(&self) -> String {
        frames_so_far(&self.text)[0]["response"]["id"].as_str().unwrap().to_owned()
    }
}

pub async fn answer(gateway: &Gateway, id: &str, body: &Value) -> HttpAnswer {
    gateway.post(&format!("/v1/responses/{id}/inputs"), body).await
}

/// The answer to a question.
fn output(question: &Value, output: &str) -> Value {
    json!({"call_id": question["call_id"], "output": output})
}

/// The outputs of the client's functions in a response.
fn outputs(response: &Value) -> Vec<&str> {
    let items = response["output"].as_array().unwrap().iter();
    let outputs = items.filter(|item| item["type"] == "function_call_output");
    outputs.map(|item| item["output"].as_str().unwrap()).collect()
}

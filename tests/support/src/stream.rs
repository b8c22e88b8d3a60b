//! A stream that asks questions, and their answers.

use std::time::Duration;

use serde_json::Value;

use crate::gateway::{Gateway, HttpAnswer, JsonBody, frames_so_far};

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

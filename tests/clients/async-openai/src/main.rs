//! async-openai, unmodified, against the gateway that `scripts/test-clients` starts.
//!
//! Its types are closed: a status, an item or an event that they do not know fails the whole call. So every check that
//! reads something is a check of the wire.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::responses::{
    CreateResponse, FunctionToolCall, OutputItem, Response, ResponseStreamEvent, Status,
};
use futures::StreamExt;
use serde_json::{Value, json};

type Checked = Result<(), Box<dyn std::error::Error>>;

/// Says what differs.
macro_rules! same {
    ($left:expr, $right:expr) => {
        match (&$left, &$right) {
            (left, right) if left == right => {}
            (left, right) => return Err(format!("line {}: {left:?} is not {right:?}", line!()).into()),
        }
    };
}

struct Check {
    client: Client<OpenAIConfig>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let base = std::env::var("SDK_OPEN_URL").expect("run this by scripts/test-clients, which starts the gateway");
    let config = OpenAIConfig::new().with_api_base(base).with_api_key("unused");
    let check = Check { client: Client::with_config(config) };
    let results = [
        ("text", check.text().await),
        ("stream", check.stream().await),
        ("function", check.function().await),
        ("function, streamed", check.streamed_function().await),
        ("parallel functions", check.parallel_functions().await),
        ("function without storing", check.replay().await),
        ("structured", check.structured().await),
        ("reasoning", check.reasoning().await),
        ("refusal", check.refusal().await),
        ("incomplete", check.incomplete().await),
        ("chain", check.chain().await),
        ("stored", check.stored().await),
        ("errors", check.errors().await),
        ("broken stream", check.broken_stream().await),
        ("gateway tool", check.gateway_tool().await),
        ("mixed turn", check.mixed_turn().await),
    ];
    let mut passed = 0;
    for (name, result) in &results {
        match result {
            Ok(()) => passed += 1,
            Err(error) => println!("FAILED {name}: {error}"),
        }
    }
    println!("{passed} of {} passed", results.len());
    if passed == results.len() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

impl Check {
    async fn create(&self, body: Value) -> Result<Response, OpenAIError> {
        self.client.responses().create(request(body)).await
    }

    /// All events, and the response of the last one.
    async fn events(&self, body: Value) -> Result<(Vec<ResponseStreamEvent>, Response), Box<dyn std::error::Error>> {
        let mut stream = self.client.responses().create_stream(request(body)).await?;
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            events.push(event?);
        }
        let response = match events.last() {
            Some(ResponseStreamEvent::ResponseCompleted(event)) => event.response.clone(),
            Some(ResponseStreamEvent::ResponseIncomplete(event)) => event.response.clone(),
            other => return Err(format!("the stream ends with {other:?}").into()),
        };
        Ok((events, response))
    }

    async fn text(&self) -> Checked {
        let response = self.create(json!({"model": "scripted", "input": "hello there"})).await?;
        same!(response.status, Status::Completed);
        same!(response.output_text().as_deref(), Some("You said: hello there"));
        same!(response.usage.is_some(), true);
        Ok(())
    }

    async fn stream(&self) -> Checked {
        let (events, response) = self.events(json!({"model": "scripted", "input": "one two"})).await?;
        let deltas = events.iter().filter_map(|event| match event {
            ResponseStreamEvent::ResponseOutputTextDelta(event) => Some(event.delta.as_str()),
            _ => None,
        });
        same!(deltas.collect::<String>(), "You said: one two");
        same!(response.output_text().as_deref(), Some("You said: one two"));
        Ok(())
    }

    /// The status that this client can read; without it every function call fails.
    async fn function(&self) -> Checked {
        let paused = self.create(json!({"model": "scripted", "input": "weather?", "tools": weather()})).await?;
        same!(paused.status, Status::Completed);
        let answers = outputs(&paused, "sunny");
        same!(answers.len(), 1);
        let resumed = self.resume(&paused, answers).await?;
        same!(resumed.output_text().as_deref(), Some("The tools said: sunny"));
        Ok(())
    }

    async fn streamed_function(&self) -> Checked {
        let (events, paused) =
            self.events(json!({"model": "scripted", "input": "weather?", "tools": weather()})).await?;
        same!(paused.status, Status::Completed);
        let arguments = events.iter().filter_map(|event| match event {
            ResponseStreamEvent::ResponseFunctionCallArgumentsDelta(event) => Some(event.delta.as_str()),
            _ => None,
        });
        same!(serde_json::from_str::<Value>(&arguments.collect::<String>())?, json!({"city": "Paris"}));
        let resumed = self.resume(&paused, outputs(&paused, "rain")).await?;
        same!(resumed.output_text().as_deref(), Some("The tools said: rain"));
        // The row has the status that the stream had.
        same!(self.client.responses().retrieve(&paused.id).await?.status, Status::Completed);
        Ok(())
    }

    async fn parallel_functions(&self) -> Checked {
        let body = json!({"model": "scripted", "input": "weather in both?", "tools": weather()});
        let paused = self.create(body).await?;
        let resumed = self.resume(&paused, outputs(&paused, "fog")).await?;
        same!(resumed.output_text().as_deref(), Some("The tools said: fog; fog"));
        Ok(())
    }

    async fn replay(&self) -> Checked {
        let ask = json!({"role": "user", "content": "weather?"});
        let mut input = vec![ask];
        let body = json!({"model": "scripted", "input": input, "tools": weather(), "store": false});
        let paused = self.create(body).await?;
        for item in &paused.output {
            input.push(serde_json::to_value(item)?);
        }
        input.extend(outputs(&paused, "snow"));
        let body = json!({"model": "scripted", "input": input, "tools": weather(), "store": false});
        same!(self.create(body).await?.output_text().as_deref(), Some("The tools said: snow"));
        Ok(())
    }

    async fn structured(&self) -> Checked {
        let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"],
            "additionalProperties": false});
        let format = json!({"type": "json_schema", "name": "plan", "schema": schema, "strict": true});
        let response =
            self.create(json!({"model": "scripted", "input": "plan", "text": {"format": format}})).await?;
        let text = response.output_text().unwrap_or_default();
        same!(serde_json::from_str::<Value>(&text)?, json!({"title": "Paris"}));
        Ok(())
    }

    async fn reasoning(&self) -> Checked {
        let body = json!({"model": "thinker", "input": "hi", "reasoning": {"summary": "auto"}});
        for response in [self.create(body.clone()).await?, self.events(body).await?.1] {
            same!(matches!(response.output.first(), Some(OutputItem::Reasoning(_))), true);
            same!(response.output_text().as_deref(), Some("You said: hi"));
        }
        Ok(())
    }

    async fn refusal(&self) -> Checked {
        let (_, response) = self.events(json!({"model": "refuser", "input": "hi"})).await?;
        same!(response.status, Status::Completed);
        same!(response.output.len(), 1);
        Ok(())
    }

    async fn incomplete(&self) -> Checked {
        let body = json!({"model": "scripted", "input": "word ".repeat(40), "max_output_tokens": 16});
        let (_, response) = self.events(body).await?;
        same!(response.status, Status::Incomplete);
        same!(response.incomplete_details.map(|details| details.reason).as_deref(), Some("max_output_tokens"));
        Ok(())
    }

    async fn chain(&self) -> Checked {
        let first = self.create(json!({"model": "scripted", "input": "one"})).await?;
        let body = json!({"model": "mirror", "input": "two", "previous_response_id": first.id});
        let text = self.create(body).await?.output_text().unwrap_or_default();
        let seen: Value = serde_json::from_str(&text)?;
        same!(seen["messages"].as_array().map(Vec::len), Some(3));
        Ok(())
    }

    async fn stored(&self) -> Checked {
        let made = self.create(json!({"model": "scripted", "input": "keep this"})).await?;
        let responses = self.client.responses();
        same!(responses.retrieve(&made.id).await?, made);
        same!(responses.list_input_items(&made.id).await?.data.len(), 1);
        same!(responses.delete(&made.id).await?.deleted, true);
        same!(matches!(responses.retrieve(&made.id).await, Err(OpenAIError::ApiError(_))), true);
        Ok(())
    }

    async fn errors(&self) -> Checked {
        for (model, status) in [("err-400", 400), ("err-401", 502), ("err-404", 404), ("err-422", 422), ("err-429", 429)] {
            let error = self.create(json!({"model": model, "input": "hi"})).await;
            let Err(OpenAIError::ApiError(error)) = error else { return Err(format!("{model}: {error:?}").into()) };
            same!(error.status_code.as_u16(), status);
            // Of a 5xx it keeps the text alone.
            same!(error.api_error.code.is_some() && error.api_error.r#type.is_some(), status < 500);
        }
        let error = self.create(json!({"model": "scripted", "input": "x", "temperature": 9.0})).await;
        let Err(OpenAIError::ApiError(error)) = error else { return Err(format!("{error:?}").into()) };
        same!(error.api_error.param.as_deref(), Some("temperature"));
        Ok(())
    }

    async fn broken_stream(&self) -> Checked {
        let body = json!({"model": "cut", "input": "one two three"});
        let mut stream = self.client.responses().create_stream(request(body)).await?;
        while let Some(event) = stream.next().await {
            match event {
                Ok(ResponseStreamEvent::ResponseFailed(event)) => {
                    same!(event.response.status, Status::Failed);
                    return Ok(());
                }
                Ok(ResponseStreamEvent::ResponseCompleted(_)) => break,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err("nothing says that the stream was broken".into())
    }

    async fn gateway_tool(&self) -> Checked {
        let tools = json!([{"type": "mcp", "server_label": "antwort", "server_url": ""}]);
        let body = json!({"model": "caller", "input": "calculate {\"expression\": \"2 + 3\"}", "tools": tools});
        for response in [self.create(body.clone()).await?, self.events(body).await?.1] {
            same!(matches!(response.output.first(), Some(OutputItem::McpCall(_))), true);
            same!(response.output_text().unwrap_or_default().starts_with("The tools said: "), true);
        }
        Ok(())
    }

    /// A tool of the gateway and one of the client in one turn: the first is done when the second waits.
    async fn mixed_turn(&self) -> Checked {
        let mut tools = weather();
        if let Some(tools) = tools.as_array_mut() {
            tools.push(json!({"type": "mcp", "server_label": "antwort", "server_url": ""}));
        }
        let input = "calculate {\"expression\": \"2 + 3\"}\nget_weather {\"city\": \"Oslo\"}";
        let paused = self.create(json!({"model": "caller", "input": input, "tools": tools})).await?;
        same!(paused.status, Status::Completed);
        let resumed = self.resume(&paused, outputs(&paused, "cold")).await?;
        same!(resumed.output_text().unwrap_or_default().ends_with("cold"), true);
        Ok(())
    }

    async fn resume(&self, paused: &Response, outputs: Vec<Value>) -> Result<Response, OpenAIError> {
        self.create(json!({"model": "scripted", "previous_response_id": paused.id, "input": outputs})).await
    }
}

/// A request in the client's own types, which refuse what they do not know.
fn request(body: Value) -> CreateResponse {
    serde_json::from_value(body).expect("a request")
}

fn weather() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"type": "function", "name": "get_weather", "parameters": parameters, "strict": false}])
}

fn outputs(paused: &Response, output: &str) -> Vec<Value> {
    let calls = paused.output.iter().filter_map(|item| match item {
        OutputItem::FunctionCall(FunctionToolCall { call_id, .. }) => Some(call_id),
        _ => None,
    });
    calls.map(|id| json!({"type": "function_call_output", "call_id": id, "output": output})).collect()
}

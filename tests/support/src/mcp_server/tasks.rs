//! Tasks: calls whose results are fetched later.

use serde_json::{Value, json};

use super::McpServer;
use super::answer::{Caller, Error};
use super::script::Script;

/// How calls of a tool become tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskScript {
    pub tool: String,
    /// As in the extension of later versions; else as in 2025-11-25.
    pub is_extension: bool,
    /// How often a task is still being worked on when it is looked at.
    pub polls: usize,
    /// `taskSupport` of the tool.
    pub support: &'static str,
    /// Whether the list does not say so.
    pub is_secret: bool,
    /// What comes of it, or the words of its error; `cancelled`: the server has cancelled it.
    pub result: Option<Result<Value, String>>,
    /// What the model is told meanwhile.
    pub say: Option<String>,
    /// What is asked before it goes on.
    pub asks: Option<Value>,
}

/// A task that was made.
#[derive(Debug, Clone, Default)]
pub struct Task {
    pub polls: usize,
    pub is_cancelled: bool,
    pub answers: Option<Value>,
}

impl McpServer {
    /// Calls of this tool become tasks.
    pub fn makes_tasks(&self, script: TaskScript) -> &Self {
        let support = Some(script.support).filter(|_| !script.is_secret);
        self.redefine(&script.tool, |tool| tool["execution"] = json!({"taskSupport": support}));
        self.script.knobs().tasks = Some(script);
        self
    }

    /// The tasks that were made.
    pub fn tasks(&self) -> Vec<Task> {
        self.script.tasks.lock().clone()
    }

    /// All tasks end when they are looked at next.
    pub fn end_tasks(&self) -> &Self {
        if let Some(script) = &mut self.script.knobs().tasks {
            script.polls = 0;
        }
        self
    }
}

/// Makes a call a task, if it is to become one.
pub fn start(caller: &Caller, params: &Value) -> Option<Result<Value, Error>> {
    let script = caller.script.knobs().tasks.clone()?;
    if params["name"] != script.tool {
        return None;
    }
    if !(script.is_extension || params["task"].is_object()) {
        let must = || (-32601, "Tool must be called as a task".to_owned());
        return (script.support == "required").then(|| Err(must()));
    }
    let mut tasks = caller.script.tasks.lock();
    tasks.push(Task::default());
    let task = described(&script, tasks.len() - 1, "working");
    let meta = script.say.map(|say| json!({"io.modelcontextprotocol/model-immediate-response": say}));
    Some(Ok(match script.is_extension {
        true => {
            let mut result = task;
            result["resultType"] = json!("task");
            result["_meta"] = json!(meta);
            result
        }
        false => json!({"task": task, "_meta": meta}),
    }))
}

fn described(script: &TaskScript, number: usize, status: &str) -> Value {
    let mut task = json!({"taskId": format!("task-{number}"), "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z"});
    let (ttl, poll) = if script.is_extension { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    task[ttl] = json!(60_000);
    task[poll] = json!(200);
    task
}

/// Answers `tasks/…`.
pub fn answer(script: &Script, method: &str, params: &Value) -> Result<Value, Error> {
    let unknown = || (-32602, "Unknown task".to_owned());
    let number = params["taskId"].as_str().and_then(|id| id.strip_prefix("task-")?.parse::<usize>().ok());
    let tasks = script.knobs().tasks.clone().ok_or_else(unknown)?;
    let mut made = script.tasks.lock();
    let number = number.filter(|number| *number < made.len()).ok_or_else(unknown)?;
    let task = &mut made[number];
    let result = tasks
        .result
        .clone()
        .unwrap_or_else(|| Ok(json!({"content": [{"type": "text", "text": "worked out"}]})));
    let error = |why: &String| json!({"code": -32603, "message": why});
    match method {
        "tasks/cancel" => {
            task.is_cancelled = true;
            Ok(if tasks.is_extension {
                json!({"resultType": "complete"})
            } else {
                described(&tasks, number, "cancelled")
            })
        }
        "tasks/update" => {
            task.answers = Some(params["inputResponses"].clone());
            Ok(json!({"resultType": "complete"}))
        }
        "tasks/result" if !tasks.is_extension => result.map_err(|why| (-32603, why)),
        "tasks/get" => {
            task.polls += 1;
            let asks = tasks.asks.clone().filter(|_| task.answers.is_none());
            let status = match &result {
                _ if task.is_cancelled => "cancelled",
                _ if asks.is_some() => "input_required",
                _ if task.polls <= tasks.polls => "working",
                Ok(_) => "completed",
                Err(why) if why == "cancelled" => "cancelled",
                Err(_) => "failed",
            };
            let mut described = described(&tasks, number, status);
            if tasks.is_extension {
                described["resultType"] = json!("complete");
                match (status, &result) {
                    ("completed", Ok(result)) => described["result"] = result.clone(),
                    ("failed", Err(why)) => described["error"] = error(why),
                    ("input_required", _) => described["inputRequests"] = json!(asks),
                    _ => {}
                }
            }
            Ok(described)
        }
        _ => Err((-32601, format!("Method not found: {method}"))),
    }
}

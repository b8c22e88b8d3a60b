//! Outputs that name their function instead of a call: each answers the only call of that function that waits. If none
//! waits, it may be replayed: it is then the output that the history has.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use super::replayed::{Print, output_print};
use antwort_protocol::error::ApiError;
use antwort_protocol::item::{FunctionCall, Item, ItemStatus, ToolOutput};
use antwort_protocol::parse::truncate_for_display;

/// Gives such outputs of the input the `call_id` of their calls; `past`: the items before it.
pub(super) fn find_calls(past: &[Item], input: &mut [Item]) -> Result<(), ApiError> {
    if !input.iter().any(|item| matches!(item, Item::FunctionCallOutput(output) if output.name.is_some())) {
        return Ok(());
    }
    let mut waiting = WaitingCalls::default();
    for item in past {
        waiting.note(item);
    }
    let answered = LazyCell::new(|| AnsweredCalls::of(past));
    for (i, item) in input.iter_mut().enumerate() {
        if let Item::FunctionCallOutput(output) = item
            && let Some(name) = output.name.take()
        {
            let function = (output.namespace.take(), name);
            let replayed = match waiting.has_any(&function) {
                true => None,
                false => answered.only_call(&function, &output.output),
            };
            output.call_id = match replayed {
                Some(call_id) => call_id,
                None => waiting.only_call(&function, i)?,
            };
        }
        waiting.note(item);
    }
    Ok(())
}

/// Calls of functions with their outputs, by the function and what the output says.
struct AnsweredCalls<'a>(HashMap<(Function, Print), Vec<&'a str>>);

impl<'a> AnsweredCalls<'a> {
    fn of(past: &'a [Item]) -> Self {
        let mut calls: HashMap<&str, &FunctionCall> = HashMap::new();
        let mut answered: HashMap<_, Vec<&str>> = HashMap::new();
        for item in past {
            match item {
                Item::FunctionCall(call) => _ = calls.insert(&call.call_id, call),
                Item::FunctionCallOutput(answer) => {
                    let Some(call) = calls.get(answer.call_id.as_str()) else { continue };
                    let print = output_print(&answer.output);
                    for key in with_and_without_namespace(call) {
                        answered.entry((key, print)).or_default().push(call.call_id.as_str());
                    }
                }
                _ => {}
            }
        }
        Self(answered)
    }

    /// The `call_id` of the only call of a function that has this output.
    fn only_call(&self, function: &Function, output: &ToolOutput) -> Option<String> {
        match self.0.get(&(function.clone(), output_print(output)))?.as_slice() {
            [only] => Some((*only).to_owned()),
            _ => None,
        }
    }
}

/// Calls of functions that have no output yet.
#[derive(Default)]
struct WaitingCalls {
    /// The function by the `call_id`.
    functions: HashMap<String, Function>,
    /// Their `call_id`s by the function, with and without its namespace.
    calls: HashMap<Function, HashSet<String>>,
}

/// A namespace, if it is told, and a name.
type Function = (Option<String>, String);

impl WaitingCalls {
    fn note(&mut self, item: &Item) {
        match item {
            Item::FunctionCall(call) if call.status != ItemStatus::Incomplete => self.add(call),
            Item::FunctionCallOutput(output) => self.remove(&output.call_id),
            _ => {}
        }
    }

    fn add(&mut self, call: &FunctionCall) {
        for key in with_and_without_namespace(call) {
            self.calls.entry(key).or_default().insert(call.call_id.clone());
        }
        self.functions.insert(call.call_id.clone(), (call.namespace.clone(), call.name.clone()));
    }

    fn remove(&mut self, call_id: &str) {
        let Some(function) = self.functions.remove(call_id) else { return };
        for key in [without_namespace(&function), Some(function)].into_iter().flatten() {
            if let Some(calls) = self.calls.get_mut(&key) {
                calls.remove(call_id);
            }
        }
    }

    /// Whether an output can mean any call.
    fn has_any(&self, function: &Function) -> bool {
        self.calls.get(function).is_some_and(|calls| !calls.is_empty())
    }

    /// The `call_id` of the only call that an output can mean, which is the `i`th item of the input.
    fn only_call(&self, function: &Function, i: usize) -> Result<String, ApiError> {
        let mut calls = self.calls.get(function).into_iter().flatten();
        match (calls.next(), calls.next()) {
            (Some(only), None) => Ok(only.clone()),
            (Some(_), Some(_)) => Err(ApiError::invalid(
                "invalid_value",
                format!("input[{i}].call_id"),
                format!(
                    "Several calls of the function '{}' have no output yet: 'call_id' must say which of them this output answers.",
                    truncate_for_display(&function.1)
                ),
            )),
            (None, _) => Err(ApiError::invalid(
                "tool_call_not_found",
                format!("input[{i}].name"),
                format!(
                    "No call of the function '{}' waits for an output, and this output has no 'call_id'.",
                    truncate_for_display(&function.1)
                ),
            )),
        }
    }
}

/// What an output may name the function of a call by.
fn with_and_without_namespace(call: &FunctionCall) -> impl Iterator<Item = Function> {
    let function = (call.namespace.clone(), call.name.clone());
    let short = without_namespace(&function);
    std::iter::once(function).chain(short)
}

fn without_namespace((namespace, name): &Function) -> Option<Function> {
    namespace.is_some().then(|| (None, name.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call(id: &str, namespace: Option<&str>) -> Value {
        json!({"type": "function_call", "call_id": id, "name": "f", "namespace": namespace, "arguments": "{}"})
    }

    fn output(namespace: Option<&str>) -> Value {
        json!({"type": "function_call_output", "call_id": null, "name": "f", "namespace": namespace, "output": "x"})
    }

    /// The `call_id`s of the outputs, or the error's code and path.
    fn found(past: Value, input: Value) -> Result<Vec<String>, (String, String)> {
        let items = |value| serde_json::from_value::<Vec<Item>>(value).unwrap();
        let (past, mut input) = (items(past), items(input));
        find_calls(&past, &mut input)
            .map_err(|error| (error.code().to_owned(), error.body.param.unwrap()))?;
        let outputs = input.iter().filter_map(|item| match item {
            Item::FunctionCallOutput(output) => Some(output.call_id.clone()),
            _ => None,
        });
        Ok(outputs.collect())
    }

    #[test]
    fn an_output_without_a_call_id_answers_the_only_call_that_waits() {
        let named = json!({"type": "function_call_output", "call_id": "a", "output": "x"});
        assert_eq!(found(json!([call("a", None)]), json!([output(None)])), Ok(vec!["a".into()]));
        assert_eq!(
            found(json!([call("a", None)]), json!([named, call("b", Some("n")), output(None)])),
            Ok(vec!["a".into(), "b".into()])
        );
        let two = json!([call("a", Some("n")), call("b", Some("m")), output(Some("m")), output(None)]);
        assert_eq!(found(json!([]), two), Ok(vec!["b".into(), "a".into()]));
        let ambiguous = json!([call("a", None), call("b", None), output(None)]);
        assert_eq!(found(json!([]), ambiguous), Err(("invalid_value".into(), "input[2].call_id".into())));
        let none = Err(("tool_call_not_found".into(), "input[1].name".into()));
        assert_eq!(found(json!([]), json!([call("a", None), output(Some("n"))])), none);
    }

    #[test]
    fn an_output_that_the_history_has_is_found_by_what_it_says() {
        let answer =
            |id: &str, text: &str| json!({"type": "function_call_output", "call_id": id, "output": text});
        let answered = [call("a", Some("n")), answer("a", "x"), call("b", None), answer("b", "y")];
        assert_eq!(found(json!(answered), json!([output(None)])), Ok(vec!["a".into()]));
        assert_eq!(found(json!(answered), json!([output(Some("n"))])), Ok(vec!["a".into()]));
        // A call that waits comes first.
        let waits = [&answered[..], &[call("c", None)]].concat();
        assert_eq!(found(json!(waits), json!([output(None)])), Ok(vec!["c".into()]));
        let none = Err(("tool_call_not_found".to_owned(), "input[0].name".to_owned()));
        assert_eq!(found(json!(answered), json!([output(Some("m"))])), none);
        assert_eq!(found(json!(answered[2..]), json!([output(None)])), none);
        let twice = [&answered[..], &[call("c", None), answer("c", "x")]].concat();
        assert_eq!(found(json!(twice), json!([output(None)])), none);
    }
}

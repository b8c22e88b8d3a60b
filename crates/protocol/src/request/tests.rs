//! Bodies that are refused, each with its code and parameter, and bodies that are not.

mod accepted;
mod echoed;
mod fuzz;
mod items;
mod limits;
mod refused_fields;
mod refused_input;
mod refused_tools;
mod shapes;

use super::CreateResponse;
use crate::item::{InputItem, Item};
use crate::parse::truncate_for_display;

/// Parses a body that must be right.
fn parsed(body: &str) -> Box<CreateResponse> {
    CreateResponse::parse(body.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{body}"))
}

/// Code and parameter of the error that a body gives.
fn refused(body: &str) -> (String, String) {
    match CreateResponse::parse(body.as_bytes()) {
        Ok(_) => panic!("accepted: {body}"),
        Err(error) => {
            assert_eq!(error.kind.status(), 400);
            assert_eq!(error.body.kind, "invalid_request_error");
            assert!(error.body.message.ends_with('.') || error.body.message.ends_with('?'), "{error}");
            (error.code().to_owned(), error.body.param.unwrap_or_default())
        }
    }
}

/// A body with an input and one more field.
fn with(field: &str) -> String {
    format!(r#"{{"model":"m","input":"hi",{field}}}"#)
}

/// A body whose input is one item.
fn item(item: &str) -> String {
    format!(r#"{{"model":"m","input":[{item}]}}"#)
}

/// A body whose input is one user message of one part.
fn part(part: &str) -> String {
    item(&format!(r#"{{"role":"user","content":[{part}]}}"#))
}

/// Checks rows of body, code and parameter.
fn check(rows: &[(String, &str, &str)]) {
    for (body, code, param) in rows {
        assert_eq!(
            refused(body),
            ((*code).to_owned(), (*param).to_owned()),
            "{}",
            truncate_for_display(body)
        );
    }
}

/// The same with bodies that have an input and one more field.
fn check_fields(rows: &[(&str, &str, &str)]) {
    let rows: Vec<_> = rows.iter().map(|(field, code, param)| (with(field), *code, *param)).collect();
    check(&rows);
}

/// The items of a body that has no references.
fn items(body: &str) -> Vec<Item> {
    parsed(body)
        .input
        .into_iter()
        .map(|item| match item {
            InputItem::Item(item) => item,
            InputItem::Reference(id) => panic!("a reference to {id}"),
        })
        .collect()
}

//! Imports lists of MCP servers, as desktop programs have them: `{"mcpServers": {name: {command, args, env}
//! | {url, headers}}}`.

use serde_json::{Map, Value, json};

use super::field_reader::FieldReader;
use super::{ForeignReads, ImportedConfig, agent_name, render_yaml};
use antwort_config::units;

/// Names of the URL in various programs.
const URLS: [&str; 4] = ["url", "serverUrl", "server_url", "httpUrl"];

/// Imports a list of MCP servers.
///
/// # Errors
/// If it is no such list, or a value has the wrong type; the message names it.
pub(crate) fn from_mcp_servers(text: &str, reads: ForeignReads) -> Result<ImportedConfig, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let mut file = FieldReader::new("", file)?;
    let all = file.section("mcpServers")?.ok_or("mcpServers is missing")?;
    let (mut notes, mut servers) = (Vec::new(), Map::new());
    for (name, section) in all.into_entries() {
        let path = format!("mcpServers.{name}");
        let mut section = FieldReader::new(&path, section)?;
        if section.flag("disabled")? {
            notes.push(format!("{path} is disabled and was not imported"));
            continue;
        }
        let label = label(&name, &mut notes);
        if servers.contains_key(&label) {
            notes.push(format!("{path}: the label `{label}` is already used by another server"));
            continue;
        }
        let server = server(&path, &mut section, &mut notes)?;
        notes.extend(section.unknown_fields());
        servers.insert(label, server.into());
    }
    notes.extend(file.unknown_fields());
    let mut config = Map::from_iter([("mcp".to_owned(), json!({"servers": servers}))]);
    reads.apply(&mut config, &mut notes)?;
    let yaml = render_yaml("Imported from a list of MCP servers.", &notes, &config)?;
    Ok(ImportedConfig { yaml, notes, agent: String::new(), provider: String::new(), request: Map::new() })
}

/// A valid label.
fn label(name: &str, notes: &mut Vec<String>) -> String {
    let label = agent_name(Some(name.to_owned()), &mut Vec::new());
    let label = if label == "antwort" { "antwort-server".to_owned() } else { label };
    if label != name {
        notes.push(format!("the server `{name}` was renamed to `{label}`"));
    }
    label
}

fn server(
    path: &str,
    section: &mut FieldReader,
    notes: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut server = Map::new();
    for key in URLS {
        if let Some(url) = section.text(key)? {
            server.insert("url".to_owned(), escape_variables(path, &url, notes).into());
        }
    }
    for key in ["command", "cwd", "description"] {
        server.extend(
            section.text(key)?.map(|text| (key.to_owned(), escape_variables(path, &text, notes).into())),
        );
    }
    if let Some(args) = section.list("args")? {
        let args: Vec<_> =
            args.iter().filter_map(Value::as_str).map(|text| escape_variables(path, text, notes)).collect();
        server.insert("args".to_owned(), args.into());
    }
    for key in ["env", "headers"] {
        let Some(section) = section.section(key)? else { continue };
        let entries = section.into_entries().map(|(name, value)| match value {
            Value::String(text) => Ok((name, escape_variables(path, &text, notes).into())),
            Value::Number(_) | Value::Bool(_) => Ok((name, Value::String(value.to_string()))),
            _ => Err(format!("{path}.{key}.{name}: expected text")),
        });
        let entries: Map<String, Value> = entries.collect::<Result<_, _>>()?;
        server.insert(key.to_owned(), entries.into());
    }
    if let Some(time) = section.take("timeout") {
        let time = time.as_u64().filter(|time| *time > 0);
        let time = time.ok_or_else(|| format!("{path}.timeout: expected a number of milliseconds"))?;
        let time = units::format_duration(std::time::Duration::from_millis(time));
        notes.push(format!("{path}.timeout is interpreted as milliseconds: {time}"));
        server.insert("timeout".to_owned(), time.into());
    }
    for key in ["type", "transport"] {
        let Some(kind) = section.text(key)? else { continue };
        let ours = match kind.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "stdio" => "stdio",
            "sse" => "sse",
            "http" | "streamablehttp" => "streamable_http",
            _ => {
                notes.push(format!("{path}.{key} `{kind}` is not supported"));
                continue;
            }
        };
        server.insert("transport".to_owned(), ours.into());
    }
    Ok(server)
}

/// A text in which `${NAME}` is still a variable, and everything else is literal.
fn escape_variables(path: &str, text: &str, notes: &mut Vec<String>) -> String {
    let mut pieces = text.split("${");
    let mut escaped = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Some programs write `${env:NAME}` for `${NAME}`.
        let piece = piece.strip_prefix("env:").unwrap_or(piece);
        let name = piece.split_once('}').map_or("", |(inside, _)| inside);
        let name = name.split_once(":-").map_or(name, |(name, _)| name);
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_word && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            escaped.push_str("${");
        } else {
            notes.push(format!(
                "{path}: `${{{name}}}` is not an environment variable and was kept as literal text"
            ));
            escaped.push_str("$${");
        }
        escaped.push_str(piece);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::ExposeSecret;

    use super::*;
    use antwort_config::foreign_files::is_mcp_servers;
    use antwort_config::settings::McpTransport;
    use antwort_config::{LoadOptions, Settings};

    fn settings(imported: &ImportedConfig) -> Settings {
        let options = LoadOptions {
            file: Some("servers.json".into()),
            text: Some(imported.yaml.clone()),
            environment: [("KEY".to_owned(), "k3y".to_owned())].into(),
            ..LoadOptions::default()
        };
        Settings::load(&options).unwrap_or_else(|errors| panic!("{errors}\n{}", imported.yaml))
    }

    #[test]
    fn servers_of_desktop_programs_load_and_mean_what_they_said() {
        let text = json!({"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server", "/srv"], "env": {"KEY": "${KEY}", "PORT": 80}},
            "my docs": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${env:KEY}"},
                "timeout": 60000},
            "old": {"serverUrl": "https://h/sse", "transport": "sse", "alwaysAllow": ["a"]},
            "off": {"command": "x", "disabled": true},
            "odd": {"command": "x", "args": ["${input:folder}/a", "${KEY:-b}"]},
        }, "inputs": []});
        assert!(is_mcp_servers(&text.to_string()) && !is_mcp_servers("mcp: {}"));
        let imported = from_mcp_servers(&text.to_string(), ForeignReads::Allowed).unwrap();
        let servers = settings(&imported).mcp.servers;
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["files", "my-docs", "odd", "old"]);
        let files = &servers["files"];
        assert_eq!((files.command.as_deref(), files.args.len()), (Some("npx"), 3));
        assert_eq!((files.env["KEY"].expose_secret(), files.env["PORT"].expose_secret()), ("k3y", "80"));
        let docs = &servers["my-docs"];
        assert_eq!(
            (docs.transport, docs.timeout),
            (Some(McpTransport::StreamableHttp), Some(Duration::from_mins(1)))
        );
        assert_eq!(docs.headers["Authorization"].expose_secret(), "Bearer k3y");
        assert_eq!(servers["old"].transport, Some(McpTransport::Sse));
        assert_eq!(servers["odd"].args, ["${input:folder}/a", "k3y"]);
        let notes = imported.notes.join("\n");
        for part in [
            "`my docs` was renamed to `my-docs`",
            "mcpServers.off is disabled",
            "mcpServers.old.alwaysAllow is an unknown key",
            "inputs is an unknown key",
            "timeout is interpreted as milliseconds: 1m",
        ] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_names_it() {
        for (text, part) in [
            (r#"{"mcpServers": {"a": 1}}"#, "mcpServers.a: expected a JSON object"),
            (r#"{"mcpServers": {"a": {"args": "x"}}}"#, "mcpServers.a.args: expected a list"),
            (r#"{"mcpServers": {"a": {"env": {"B": []}}}}"#, "mcpServers.a.env.B: expected text"),
            (r#"{"mcpServers": {"a": {"timeout": -1}}}"#, "mcpServers.a.timeout: expected a number"),
            ("{}", "mcpServers is missing"),
        ] {
            let error = from_mcp_servers(text, ForeignReads::LeftOut).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

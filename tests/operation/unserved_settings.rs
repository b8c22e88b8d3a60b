//! Settings that are valid and cannot serve: said by `config check`, at the start and at a reload, in place of to each request.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::reload::{KEY_B, Running, yaml};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream};

async fn antwort(folder: &Path, words: &[&str], config: &str) -> Output {
    std::fs::write(folder.join("antwort.yaml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.args(words).current_dir(folder).env_clear().stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const PROVIDER: &str = "providers: {a: {url: 'http://127.0.0.1:9/v1'}}";

#[tokio::test]
async fn an_agents_unknown_tool_is_an_error_of_the_check_and_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    for (tools, more, error) in [
        ("[calculat]", "", Some("agents.r.tools[0]: there is no tool `calculat`; did you mean `calculate`?")),
        (
            "[calculate, lokup]",
            "tools: {mock: {lookup: {output: x}}}",
            Some("agents.r.tools[1]: there is no tool `lokup`"),
        ),
        ("[lookup, calculate]", "tools: {mock: {lookup: {output: x}}}", None),
        ("[shop__report]", "", Some("agents.r.tools[0]: there is no tool `shop__report`")),
        (
            "[repot]",
            "tools: {routes: {report: {executors: ['mcp:a', 'mcp:b']}}}
mcp: {servers: {a: {url: 'http://127.0.0.1:9/a'}, b: {url: 'http://127.0.0.1:9/b'}}}",
            Some("there is no tool `repot`; did you mean `report`?"),
        ),
        (
            "[report]",
            "tools: {routes: {report: {executors: ['mcp:a', 'mcp:b']}}}
mcp: {servers: {a: {url: 'http://127.0.0.1:9/a'}, b: {url: 'http://127.0.0.1:9/b'}}}",
            None,
        ),
        (
            "[calculate]",
            "tools: {routes: {calculate: {executors: [], require: [fast]}}}",
            Some("tools.routes.calculate.require: no executor of the route has the tool with the tag `fast`"),
        ),
    ] {
        let config = format!("{PROVIDER}\n{more}\nagents: {{r: {{tools: {tools}}}}}");
        let checked = antwort(folder.path(), &["config", "check"], &config).await;
        let said = text(&checked.stderr);
        let Some(error) = error else {
            assert!(checked.status.success() && said.is_empty(), "{config}: {said}");
            continue;
        };
        assert_eq!(checked.status.code(), Some(2), "{config}: {said}");
        assert!(said.contains(error), "{config}: {said}");
        let words = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:"];
        let started = antwort(folder.path(), &words, &config).await;
        let said = format!("{}{}", text(&started.stderr), text(&started.stdout));
        assert_eq!(started.status.code(), Some(1), "{config}: {said}");
        assert!(said.replace("\\\"", "\"").contains(error), "{config}: {said}");
    }
}

#[tokio::test]
async fn tools_of_an_agent_that_are_not_there_for_now_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "{PROVIDER}\nmcp: {{servers: {{shop: {{url: 'http://127.0.0.1:9/a'}}}}}}\n\
         agents: {{r: {{tools: [shop__report, get_weather]}}}}"
    );
    let checked = antwort(folder.path(), &["config", "check"], &config).await;
    let said = text(&checked.stderr);
    assert!(checked.status.success(), "{said}");
    for part in
        ["agents.r.tools[0]: `shop__report` would be", "agents.r.tools[1]: `get_weather` is not available"]
    {
        assert!(said.contains(&format!("warning: {part}")), "{said}");
    }
}

#[tokio::test]
async fn a_reload_refuses_an_agents_unknown_tool_and_warns_of_what_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = Running::start(folder.path(), &upstream, &yaml(&upstream, &[KEY_B], "")).await;
    let agent = |tools: &str| yaml(&upstream, &[KEY_B], &format!("agents: {{r: {{tools: [{tools}]}}}}"));
    gateway.reload(&agent("calculat"), "failure").await;
    assert!(gateway.log().contains("agents.r.tools[0]: there is no tool `calculat`"), "{}", gateway.log());
    gateway.reload(&agent("calculate, get_weather"), "success").await;
    assert!(gateway.log().contains("`get_weather` is not available"), "{}", gateway.log());
}

#[tokio::test]
async fn providers_that_no_model_leads_to_are_an_error_if_that_is_all_and_else_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let of = |a: &str, b: &str| {
        format!(
            "providers: {{a: {{url: 'http://127.0.0.1:9/v1'{a}}}, b: {{url: 'http://127.0.0.1:9/v1'{b}}}}}"
        )
    };
    for (a, b, code, said) in [
        ("", "", 2, "none of them serves a model"),
        (", models: [m]", "", 0, "warning: providers.b serves no model"),
        (
            ", models: ['m*']",
            ", models: [x, m1]",
            0,
            "warning: providers.b.models: `m1` goes to the provider `a`",
        ),
    ] {
        let checked = antwort(folder.path(), &["config", "check"], &of(a, b)).await;
        assert_eq!(checked.status.code(), Some(code), "{}", text(&checked.stderr));
        assert!(text(&checked.stderr).contains(said), "{}", text(&checked.stderr));
    }
    let checked = antwort(folder.path(), &["config", "check"], &of(", models: ['m*']", ", prefix: b")).await;
    assert_eq!((checked.status.code(), text(&checked.stderr).as_str()), (Some(0), ""));
    let config = of(", models: [m]", ", prefix: b") + "\nagents: {r: {model: other}, s: {model: b/any}}";
    let checked = antwort(folder.path(), &["config", "check"], &config).await;
    let said = text(&checked.stderr);
    assert_eq!(said, "antwort: warning: agents.r.model: no provider is configured for `other`\n");
}

#[tokio::test]
async fn connecting_tells_of_each_provider_whether_it_can_serve_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, refusing) = (Upstream::spawn().await, Upstream::spawn().await);
    let bare = upstream.url.strip_suffix("/v1").unwrap();
    let connect = async |providers: &str| {
        let output =
            antwort(folder.path(), &["config", "check", "--connect"], &format!("providers: {{{providers}}}"))
                .await;
        let lines = text(&output.stdout);
        let findings = lines.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        (output.status.code(), findings)
    };
    let url = &upstream.url;
    let (code, lines) =
        connect(&format!("a: {{url: '{url}', default: true, aliases: {{fast: gone}}}}")).await;
    assert_eq!((code, lines), (Some(0), vec![format!("a: ok, 2 models at {url}; it does not list `gone`")]));
    for wrong in [bare.to_owned(), format!("{url}/v1")] {
        let (code, lines) = connect(&format!("a: {{url: '{wrong}'}}, b: {{url: '{url}', prefix: b}}")).await;
        assert_eq!((code, lines.len()), (Some(1), 2), "{lines:?}");
        assert!(lines[0].starts_with(&format!("a: no list of models at {wrong} ")), "{lines:?}");
        assert!(
            lines[0].ends_with(&format!("but {url} has 2 models: set providers.a.url to {url}")),
            "{lines:?}"
        );
        assert_eq!(lines[1], format!("b: ok, 2 models at {url}"));
    }
    refusing.list(&[]);
    let (code, lines) = connect(&format!("a: {{url: '{}'}}", refusing.url)).await;
    assert_eq!((code, lines), (Some(1), vec![format!("a: {} lists no models", refusing.url)]));
    let (code, lines) = connect("a: {url: 'http://127.0.0.1:9/v1'}").await;
    assert_eq!(code, Some(1));
    assert!(lines[0].starts_with("a: http://127.0.0.1:9/v1 cannot be used: "), "{lines:?}");
}

#[tokio::test]
async fn models_that_requests_cannot_use_are_not_listed() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    one.list(&["shared", "own"]);
    other.list(&["shared", "hidden", "named"]);
    let mut second =
        antwort::config::ProviderSettings::new(antwort::config::Preset::Generic, other.url.as_str());
    second.models = vec!["shared".into(), "named".into()];
    second.aliases.insert("quick".into(), "hidden".into());
    let gateway = Gateway::with_upstream(&one)
        .provider(|provider| {
            provider.default = false;
            provider.models = vec!["shared".into()];
        })
        .set(|settings| drop(settings.providers.insert("second".into(), second)))
        .spawn()
        .await;
    let list = gateway.get("/v1/models").await.body;
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(ids, ["named", "quick", "shared"]);
    for id in ids {
        one.reply(Reply::Text("Hi".into()));
        other.reply(Reply::Text("Hi".into()));
        let answer = gateway.post("/v1/responses", &json!({"model": id, "input": "hi"})).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
    }
    let answer = gateway.post("/v1/responses", &json!({"model": "own", "input": "hi"})).await;
    assert_eq!(answer.body["error"]["code"], "model_not_found");
}

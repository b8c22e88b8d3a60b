//! `antwort mcp`: lists MCP servers and calls their tools without a gateway.

mod show;

use std::process::ExitCode;
use std::sync::Arc;

use axum::Json;
use clap::Args;
use futures_util::future::join_all;
use reqwest::Url;
use secrecy::SecretString;

use self::show::ServerReport;
use super::output::{print_error, print_json, print_line};
use super::{offline, tools};
use crate::app::tools::GatewayTools;
use crate::transport::tool_result;
use antwort_config::mcp::is_safe_for_secrets;
use antwort_config::{LoadOptions, McpAuth, McpServerSettings, Settings};
use antwort_identity::Reach;
use antwort_mcp::{CallDecision, Freshness, McpCaller, OnBehalfOf, ServedTool, ServerHandle, ServerToolSet};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_tools::{Progress, ToolCall, ToolContext};
use antwort_util::display;

/// The label of a server that is given by its URL.
const UNNAMED: &str = "url";

/// The server, and the caller.
#[derive(Debug, Args)]
pub(crate) struct McpServerArgs {
    /// URL of a server that is not in the configuration
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Environment variable with a token: for --url, or the caller's token for a server that needs one
    #[arg(long, value_name = "NAME")]
    bearer_env: Option<String>,
    /// Tenant of the caller
    #[arg(long, default_value = "default")]
    tenant: String,
}

/// Connects to the servers, or to one, and prints their tools; exits with 1 if one failed.
pub(super) fn list(
    label: Option<&str>,
    as_json: bool,
    which: &McpServerArgs,
    options: &LoadOptions,
) -> ExitCode {
    offline::run(options, async |settings| {
        let caller = Caller::new(which, options)?;
        let has_servers = !settings.mcp.servers.is_empty();
        let tools = caller.open(settings).await?;
        let labels: Vec<&str> = match (label, &which.url) {
            (Some(_), Some(_)) => return Err("LABEL and --url cannot be combined".into()),
            (Some(label), None) => vec![label],
            (None, Some(_)) => vec![UNNAMED],
            (None, None) => tools.mcp.labels(&caller.tenant),
        };
        let listed = join_all(labels.iter().map(|label| caller.server_report(&tools, label))).await;
        tools.shutdown().await;
        if as_json {
            print_json(&tools::pretty(&listed));
        } else if listed.is_empty() && has_servers {
            let tenant = &caller.tenant;
            print_error(&format!(
                "no configured MCP server (mcp.servers) is open to the tenant `{tenant}`; another: --tenant NAME"
            ));
        } else if listed.is_empty() {
            print_error(
                "no MCP server is configured (mcp.servers). This command reads the configuration (file and environment), not a \
                 running gateway: those of a gateway are listed at its /v1/mcp/servers, and --url URL asks any server",
            );
        } else {
            let text = listed.iter().map(ServerReport::lines).collect::<Vec<_>>().join("\n");
            print_line(&display::lines(&text));
        }
        let failed = listed.iter().any(ServerReport::has_failed);
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

/// Calls a tool and prints its result; exits with 1 if it failed.
pub(super) fn call(words: &[String], which: &McpServerArgs, options: &LoadOptions) -> ExitCode {
    offline::run(options, async |settings| {
        let (label, words) = match (&which.url, words) {
            (Some(_), words) => (UNNAMED, words),
            (None, [label, words @ ..]) => (label.as_str(), words),
            (None, []) => (UNNAMED, words),
        };
        let (name, arguments) = match words {
            [name] => (name, "{}"),
            [name, arguments] => (name, arguments.as_str()),
            _ => return Err("expected LABEL TOOL [JSON], or --url URL TOOL [JSON]".into()),
        };
        let caller = Caller::new(which, options)?;
        let tools = caller.open(settings).await?;
        let done = caller.call(&tools, label, name, arguments).await;
        tools.shutdown().await;
        done
    })
}

/// The caller.
struct Caller<'a> {
    url: Option<&'a str>,
    token: Option<SecretString>,
    authorization: Option<SecretString>,
    tenant: Arc<str>,
}

impl<'a> Caller<'a> {
    fn new(which: &'a McpServerArgs, options: &LoadOptions) -> Result<Self, String> {
        let token = match &which.bearer_env {
            None => None,
            Some(name) => {
                let token = options.environment.get(name).filter(|token| !token.is_empty());
                Some(token.ok_or_else(|| format!("the environment variable {name} is not set"))?)
            }
        };
        Ok(Self {
            url: which.url.as_deref(),
            token: token.map(|token| SecretString::from(token.as_str())),
            authorization: token.map(|token| SecretString::from(format!("Bearer {token}"))),
            tenant: which.tenant.as_str().into(),
        })
    }

    /// Opens the tools; a server of the command line is added to the configured ones.
    async fn open(&self, mut settings: Settings) -> Result<GatewayTools, String> {
        if let Some(url) = self.url {
            let is_safe = Url::parse(url).is_ok_and(|url| is_safe_for_secrets(&url));
            if self.token.is_some() && !is_safe {
                return Err("a token is sent over https only, or to this machine".into());
            }
            let auth = self.token.clone().map_or(McpAuth::None, |token| McpAuth::Bearer { token });
            let server =
                McpServerSettings { url: Some(url.to_owned()), auth, ..McpServerSettings::default() };
            settings.mcp.servers.insert(UNNAMED.to_owned(), server);
        }
        tools::open(&settings).await
    }

    async fn server_handle(&self, tools: &GatewayTools, label: &str) -> Result<ServerHandle, String> {
        let on_behalf_of = OnBehalfOf { principal: "cli", ..OnBehalfOf::default() };
        let caller = McpCaller {
            tenant: &self.tenant,
            key: &"cli".into(),
            authorization: self.authorization.as_ref(),
            on_behalf_of,
            shows: ElicitationModes::default(),
        };
        let found = tools.mcp.find_label(label, None, caller).map_err(|error| error.to_string())?;
        let bound = tools.mcp.bind(vec![found], caller).await.map_err(|error| error.body.message)?;
        bound.into_iter().next().ok_or_else(|| "the server is not available".into())
    }

    async fn server_report(&self, tools: &GatewayTools, label: &str) -> ServerReport {
        let tools_of_server = match self.server_handle(tools, label).await {
            Err(error) => Err(error),
            Ok(binding) => match binding.tools(Freshness::Cached).await {
                Err(error) => Err(error.for_operators()),
                Ok(set) => Ok((binding, set)),
            },
        };
        let states = tools.mcp.statuses(Reach::AllTenants);
        let state = states.into_iter().find(|state| state.server_label.as_deref() == Some(label));
        match tools_of_server {
            Ok((binding, set)) => {
                ServerReport::connected(label, state, offered(&binding, &set), &set.left_out)
            }
            Err(error) => ServerReport::failed(label, state, error),
        }
    }

    async fn call(
        &self,
        tools: &GatewayTools,
        label: &str,
        name: &str,
        arguments: &str,
    ) -> Result<ExitCode, String> {
        let binding = self.server_handle(tools, label).await?;
        let set = binding.tools(Freshness::Cached).await.map_err(|error| error.to_string())?;
        let Some((tool, _)) = offered(&binding, &set).find(|(tool, _)| tool.listed.name == name) else {
            let known: Vec<_> = offered(&binding, &set).map(|(tool, _)| &*tool.listed.name).collect();
            return Err(format!("there is no tool `{name}`; there are {}", known.join(", ")));
        };
        let context = ToolContext {
            tenant: Arc::clone(&self.tenant),
            principal: "cli".into(),
            request_id: "cli".into(),
            ..ToolContext::default()
        };
        let call = ToolCall::direct(name, arguments.to_owned());
        let outcome = tool.registered.call(call, Arc::new(context), Progress::none()).await;
        let failed = outcome.as_ref().map_or(true, |output| output.is_error);
        let Json(result) = tool_result::render(tool_result::ResultView::Antwort, "cli", name, outcome);
        print_json(&tools::pretty(&result));
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// The tools that are not blocked. Approvals are given implicitly by the user at the terminal.
fn offered<'a>(
    binding: &'a ServerHandle,
    set: &'a ServerToolSet,
) -> impl Iterator<Item = (&'a ServedTool, CallDecision)> {
    let tools = set.tools.iter().filter(|tool| binding.is_offered(tool));
    tools.map(|tool| (tool, binding.decide(tool, None)))
}

//! Asks all questions of a server, within bounds of tokens, and stops when it makes no sense to go on.

use std::time::Duration;

use super::client::Client;
use super::exchange::Exchange;
use super::finding::{Answer, Finding, Judgement, combine};
use super::interruption::Interruption;
use super::listing::{Listing, window_of_props};
use super::profile;
use super::question::{Ask, Question, Setup, Way};
use super::questions;
use super::report::{Report, Tokens};
use super::seen::Seen;
use super::structured;
use super::verdict::{self, LeftOut, Verdict};
use antwort_config::Preset;
use antwort_util::display::one_line;

/// Tokens of an answer, and with `--deep`.
const CAP: u32 = 64;
const DEEP_CAP: u32 = 512;
/// How often a question is asked that the model's habit decides, too, and with `--deep`.
const ASKINGS: usize = 3;
const DEEP_ASKINGS: usize = 5;
/// Requests that were not answered, one after the other, after which the server is taken to be gone.
const MAX_SILENCES: usize = 3;
/// Retries after a 429, and the longest wait before one.
const MAX_RETRIES: usize = 2;
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Bounds of an examination.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Whether costly questions are asked.
    pub deep: bool,
    /// Tokens of all requests and answers, after which nothing more is asked.
    pub max_tokens: u64,
}

/// The question that is being asked.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Its place among those that are asked, from 1.
    pub number: usize,
    /// How many questions are asked in all.
    pub of: usize,
    /// The question, as people read it.
    pub question: &'static str,
}

/// Asks a server all questions; `progress` is told of each. An interruption ends it with what is known by then.
pub async fn examine(
    client: Client,
    model: Option<&str>,
    bounds: Bounds,
    progress: &mut dyn FnMut(Progress),
    interruption: impl Future<Output = Interruption>,
) -> Report {
    let mut examination = Examination::new(client, bounds);
    let ended = tokio::select! {
        biased;
        interruption = interruption => Err(interruption),
        verdict = examination.ask_all(model, progress) => Ok(verdict),
    };
    examination.interruption = ended.as_ref().err().copied();
    examination.end(ended.ok().flatten())
}

/// Whether a server has not answered, whatever it was asked: nothing came, or no end, or it says that it cannot now.
fn is_silent(exchange: &Exchange) -> bool {
    exchange.failure.is_some() || matches!(exchange.status, None | Some(429 | 502..=504))
}

/// Whether a request of that kind would always be answered so: an error of the server (500) may be the model's.
fn is_refusal(status: u16) -> bool {
    (400..500).contains(&status)
}

struct Examination {
    client: Client,
    bounds: Bounds,
    setup: Setup,
    seen: Seen,
    tokens: Tokens,
    silences: usize,
    /// The status of the last answer.
    last_status: Option<u16>,
    /// The status with which the list of models was refused for want of a key.
    lacks_key: Option<u16>,
    /// Why nothing more is asked.
    stopped: Option<String>,
    /// What came of the last request, if the server no longer answers.
    lost: Option<String>,
    /// Whether the limit of tokens has left out questions.
    has_left_out: bool,
    /// The questions, once there is a model to ask.
    asked: Vec<&'static Question>,
    /// What was found out so far, in their order; `None` of those that are answered in passing.
    judgements: Vec<Option<Judgement>>,
    interruption: Option<Interruption>,
}

impl Examination {
    fn new(client: Client, bounds: Bounds) -> Self {
        let cap = if bounds.deep { DEEP_CAP } else { CAP };
        Self {
            client,
            bounds,
            setup: Setup { cap, ..Setup::default() },
            seen: Seen::default(),
            tokens: Tokens::default(),
            silences: 0,
            last_status: None,
            lacks_key: None,
            stopped: None,
            lost: None,
            has_left_out: false,
            asked: Vec::new(),
            judgements: Vec::new(),
            interruption: None,
        }
    }

    /// Asks all questions. Returns the verdict if it makes no sense to ask any.
    async fn ask_all(&mut self, model: Option<&str>, progress: &mut dyn FnMut(Progress)) -> Option<Verdict> {
        self.list().await;
        if let Some(status) = self.lacks_key {
            return Some(verdict::no_access(status));
        }
        let Some(model) = model.or(self.seen.listing.first_model()).map(str::to_owned) else {
            return Some(verdict::no_model(self.seen.listing.problem.as_deref()));
        };
        self.choose(model).await;
        self.asked = questions::all().filter(|question| self.bounds.deep || !question.deep).collect();
        let of = self.asked.len();
        for (index, question) in self.asked.clone().into_iter().enumerate() {
            progress(Progress { number: index + 1, of, question: question.text });
            let judgement = self.answer(question).await;
            self.judgements.push(judgement);
        }
        None
    }

    /// Asks for the list of models; if it is not below the given URL but below `/v1`, that is the base URL.
    async fn list(&mut self) {
        let given = self.client.base().to_owned();
        let (exchange, body) = self.client.get(&format!("{given}/models")).await;
        let mut listing = Listing::read(&exchange, body.as_ref());
        self.lacks_key = exchange.status.filter(|status| matches!(status, 401 | 403));
        if listing.problem.is_some() && exchange.status.is_some() && !given.ends_with("/v1") {
            let base = format!("{given}/v1");
            let (exchange, body) = self.client.get(&format!("{base}/models")).await;
            let below = Listing::read(&exchange, body.as_ref());
            if below.problem.is_none() || matches!(exchange.status, Some(401 | 403)) {
                self.lacks_key = exchange.status.filter(|status| matches!(status, 401 | 403));
                self.client.set_base(base);
                listing = below;
            }
        }
        self.seen.take(&exchange);
        self.seen.listing = listing;
    }

    /// Chooses the model, and finds out what is known of it.
    async fn choose(&mut self, model: String) {
        let preset = self.client.settings().preset;
        let guessed = Some(preset).filter(|preset| *preset != Preset::Generic);
        self.seen.preset = self.seen.preset.or_else(|| self.seen.listing.preset(&model)).or(guessed);
        let listed = self.seen.listing.context_window(&model);
        self.seen.context_window = listed.map(|(tokens, field)| (tokens, format!("`{field}` of the list")));
        if self.seen.context_window.is_none() || self.seen.preset == Some(Preset::LlamaCpp) {
            let base = self.client.base();
            let url = format!("{}/props", base.strip_suffix("/v1").unwrap_or(base));
            if let (_, Some(props)) = self.client.get(&url).await
                && let Some(tokens) = window_of_props(&props)
            {
                self.seen.context_window = Some((tokens, "`n_ctx` of /props".to_owned()));
                self.seen.preset = self.seen.preset.or(Some(Preset::LlamaCpp));
            }
        }
        self.setup.context_window = self.seen.context_window.as_ref().map(|(tokens, _)| *tokens);
        self.setup.model.clone_from(&model);
        self.seen.model = model;
    }

    /// Asks a question; `None` if it is answered in passing.
    async fn answer(&mut self, question: &Question) -> Option<Judgement> {
        if matches!(question.way, Way::Seen(_)) {
            return None;
        }
        let askings = match (question.repeated, self.bounds.deep) {
            (false, _) => 1,
            (true, false) => ASKINGS,
            (true, true) => DEEP_ASKINGS,
        };
        let mut judgements = Vec::new();
        for _ in 0..askings {
            if let Some(reason) = self.reason_not_to_ask(question) {
                self.has_left_out |= self.stopped.is_none() && self.is_used_up();
                judgements.push(Judgement::unknown(reason));
                break;
            }
            let judgement = self.ask(&question.way).await;
            let is_refused = judgement.answer == Answer::No && self.last_status.is_some_and(is_refusal);
            judgements.push(judgement);
            if is_refused {
                break;
            }
        }
        let judgement = combine(judgements);
        self.setup.learn(question.id, judgement.answer);
        if question.id == "stream" && judgement.answer == Answer::No {
            self.stopped = Some("not asked, as there is no completion".to_owned());
        }
        Some(judgement)
    }

    fn reason_not_to_ask(&self, question: &Question) -> Option<String> {
        let needs_schemas = question.deep && matches!(question.way, Way::Schema { .. });
        let has_schemas = matches!(self.setup.answered("json_schema"), Some(Answer::Yes | Answer::Unstable));
        match &self.stopped {
            Some(reason) => Some(reason.clone()),
            None if self.is_used_up() => {
                Some(format!("not asked: {} tokens are used up", self.bounds.max_tokens))
            }
            None if needs_schemas && !has_schemas => {
                Some("not asked, as schemas are not followed at all".to_owned())
            }
            None => None,
        }
    }

    fn is_used_up(&self) -> bool {
        self.tokens.total() >= self.bounds.max_tokens
    }

    async fn ask(&mut self, way: &Way) -> Judgement {
        match way {
            Way::Asked { ask, judge } => {
                let mut exchanges = Vec::new();
                for ask in ask(&self.setup) {
                    exchanges.push(self.exchange(&ask).await);
                }
                judge(&exchanges, &self.setup)
            }
            Way::Schema { schema, value, tools } => {
                let exchange = self.exchange(&structured::ask(&self.setup, schema, value, *tools)).await;
                structured::judge(&exchange, schema)
            }
            Way::Seen(judge) => judge(&self.seen),
        }
    }

    /// Sends a request, again after a 429.
    async fn exchange(&mut self, ask: &Ask) -> Exchange {
        let mut retries = 0;
        loop {
            let exchange = self.client.chat(ask).await;
            self.seen.take(&exchange);
            self.tokens.add(exchange.tokens());
            self.last_status = exchange.status;
            let wait =
                exchange.header("retry-after").and_then(|value| value.parse().ok()).map(Duration::from_secs);
            let wait = wait.unwrap_or(Duration::from_secs(1));
            if exchange.status != Some(429) || retries == MAX_RETRIES || wait > MAX_WAIT {
                self.count_silence(&exchange);
                return exchange;
            }
            retries += 1;
            tokio::time::sleep(wait).await;
        }
    }

    fn count_silence(&mut self, exchange: &Exchange) {
        self.silences = if is_silent(exchange) { self.silences + 1 } else { 0 };
        if self.silences >= MAX_SILENCES && self.stopped.is_none() {
            self.stopped = Some("not asked, as the server no longer answers".to_owned());
            self.lost = Some(exchange.refusal());
        }
    }

    fn end(mut self, verdict: Option<Verdict>) -> Report {
        let findings = self.findings();
        let has_completion =
            findings.iter().any(|finding| finding.id == "stream" && finding.answer != Answer::Unknown);
        let verdict = verdict.or_else(|| self.lost.as_deref().map(verdict::no_more_answers));
        let verdict = verdict.unwrap_or_else(|| match self.interruption {
            Some(interruption) if !has_completion => verdict::too_early(interruption),
            Some(interruption) => verdict::of(&findings, Some(interruption.into())),
            None => verdict::of(&findings, self.has_left_out.then_some(LeftOut::Tokens)),
        });
        let profile = (!verdict.is_failure()).then(|| profile::make(&self.client, &self.seen, &findings));
        let left_out = questions::all().filter(|question| question.deep && !self.bounds.deep);
        let deep_only = left_out.map(|question| question.id).collect();
        Report::new(&self.client, self.setup.model, verdict, profile, self.tokens, (findings, deep_only))
    }

    fn findings(&mut self) -> Vec<Finding> {
        let reason = self.interruption.map_or("not asked", Interruption::reason);
        let judgements = std::mem::take(&mut self.judgements).into_iter().chain(std::iter::repeat(None));
        let findings = self.asked.iter().zip(judgements).map(|(question, judgement)| {
            let judgement = judgement.unwrap_or_else(|| match question.way {
                Way::Seen(judge) => judge(&self.seen),
                _ => Judgement::unknown(reason),
            });
            let Judgement { answer, evidence, detail } = judgement;
            let evidence = self.client.mask(&one_line(&evidence));
            Finding { id: question.id, question: question.text, answer, evidence, detail }
        });
        findings.collect()
    }
}

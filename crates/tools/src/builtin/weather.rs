//! `get_weather`: the current weather from OpenWeatherMap or a compatible API.
//!
//! That API takes the key only in the query string; the URL is therefore never logged or returned.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Number, json};

use super::web;
use crate::{Annotations, Arguments, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};
use antwort_net::egress::Egress;

/// Maximum bytes of a location.
const MAX_LOCATION: usize = 256;

/// The tool.
pub(crate) struct Weather {
    base_url: String,
    api_key: SecretString,
    egress: Arc<Egress>,
}

/// The fields used of a response. Numbers are passed on as written.
#[derive(Deserialize)]
struct Report {
    name: String,
    main: Measured,
    #[serde(default)]
    weather: Vec<Condition>,
    #[serde(default)]
    wind: Wind,
}

#[derive(Deserialize)]
struct Measured {
    temp: Number,
    feels_like: Option<Number>,
    humidity: Option<Number>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(default)]
    description: String,
}

#[derive(Default, Deserialize)]
struct Wind {
    speed: Option<Number>,
}

impl Weather {
    /// Calls the server at `base_url`, which has no trailing slash.
    pub(crate) fn new(base_url: String, api_key: SecretString, egress: Arc<Egress>) -> Self {
        Self { base_url, api_key, egress }
    }
}

#[async_trait]
impl Tool for Weather {
    fn definition(&self) -> ToolDefinition {
        let parameters = json!({
            "type": "object",
            "properties": {
                "location": {
                    "type": "string",
                    "description": "A city, optionally with its country: 'Berlin', 'Paris, FR', 'Portland, OR, US'.",
                },
            },
            "required": ["location"],
        });
        let number = json!({"type": ["number", "null"]});
        let returns = json!({
            "type": "object",
            "properties": {
                "location": {"type": "string"},
                "temperature": {"type": "number"},
                "feels_like": number,
                "humidity": number,
                "description": {"type": "string"},
                "wind_speed": number,
            },
            "required": ["location", "temperature", "feels_like", "humidity", "description", "wind_speed"],
        });
        let description = "Tells the current weather at a place: temperature and felt temperature in degrees Celsius, \
            humidity in percent, wind speed in metres per second.";
        ToolDefinition::new("get_weather", description, &parameters)
            .with_returns(&returns)
            .with_annotations(Annotations::READ_ONLY_OPEN_WORLD)
            .with_tag("net")
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let location = arguments.get("location").and_then(|value| value.as_str()).map(str::trim);
        let location = location
            .filter(|location| !location.is_empty())
            .ok_or_else(|| ToolError::argument("location parameter required"))?;
        if location.len() > MAX_LOCATION {
            return Err(ToolError::argument(format!("location is longer than {MAX_LOCATION} bytes")));
        }
        let query =
            web::query([("q", location), ("appid", self.api_key.expose_secret()), ("units", "metric")]);
        let url = format!("{}/data/2.5/weather?{query}", self.base_url);
        let answer = self.egress.get(&url, HeaderMap::new()).await;
        let answer = answer.map_err(|error| web::failure("failed to fetch weather", error))?;
        let report: Report = web::json(&answer, "weather API", "weather response")?;
        let condition = report.weather.into_iter().next().map(|condition| condition.description);
        Ok(ToolOutput::value(json!({
            "location": report.name,
            "temperature": report.main.temp,
            "feels_like": report.main.feels_like,
            "humidity": report.main.humidity,
            "description": condition.unwrap_or_default(),
            "wind_speed": report.wind.speed,
        })))
    }
}

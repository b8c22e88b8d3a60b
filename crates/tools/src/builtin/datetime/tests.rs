//! Layouts as Go reads them, zones, and formats that nobody should write.

use proptest::prelude::*;

use super::*;

/// Thursday, 2 July 2026, 04:05:09.120345 in UTC.
fn noon() -> Timestamp {
    "2026-07-02T04:05:09.120345Z".parse().unwrap()
}

async fn call(arguments: Value) -> Result<Value, ToolError> {
    let output =
        Datetime::with_clock(noon).call(arguments.as_object().unwrap(), &ToolContext::default()).await?;
    assert_eq!(serde_json::from_str::<Value>(&output.for_model).unwrap(), output.structured.clone().unwrap());
    Ok(output.structured.unwrap())
}

#[tokio::test]
async fn the_tool_answers_in_the_seeds_shape() {
    let expected = json!({
        "timestamp": noon().as_second(), "formatted": "2026-07-02 04:05:09", "timezone": "UTC", "weekday": "Thursday",
    });
    assert_eq!(call(json!({})).await.unwrap(), expected);
    assert_eq!(call(json!({"format": "", "timezone": ""})).await.unwrap(), expected);
    assert_eq!(call(json!({"format": 5, "timezone": null})).await.unwrap(), expected);
}

#[tokio::test]
async fn zones() {
    for (zone, formatted, shown, weekday) in [
        ("America/Los_Angeles", "2026-07-01 21:05:09", "America/Los_Angeles", "Wednesday"),
        ("america/los_angeles", "2026-07-01 21:05:09", "America/Los_Angeles", "Wednesday"),
        ("Asia/Kolkata", "2026-07-02 09:35:09", "Asia/Kolkata", "Thursday"),
    ] {
        let got = call(json!({"timezone": zone})).await.unwrap();
        let expected = json!({
            "timestamp": noon().as_second(), "formatted": formatted, "timezone": shown, "weekday": weekday,
        });
        assert_eq!(got, expected, "{zone}");
    }
}

/// An unknown zone was UTC: a model that asked for the time of a city took it for that city's.
#[tokio::test]
async fn an_unknown_zone_is_an_error() {
    for zone in ["Nope/Zone", "Local", "../../../etc/passwd", "/etc/localtime"] {
        let error = call(json!({"timezone": zone})).await.unwrap_err();
        let expected = format!("timezone '{zone}' is unknown; use an IANA name such as 'Europe/Berlin'");
        assert!(error.message.contains(&expected), "{}", error.message);
    }
}

#[tokio::test]
async fn formats() {
    for (format, formatted) in [
        ("%A, %d %B %Y %H:%M", "Wednesday, 01 July 2026 21:05"),
        ("100%%", "100%"),
        ("Mon Jan 2 15:04:05 MST 2006", "Wed Jul 1 21:05:09 PDT 2026"),
        ("Monday, 02-Jan-06 15:04:05 MST", "Wednesday, 01-Jul-26 21:05:09 PDT"),
        ("Mon, 02 Jan 2006 15:04:05 -0700", "Wed, 01 Jul 2026 21:05:09 -0700"),
        ("2006-01-02T15:04:05Z07:00", "2026-07-01T21:05:09-07:00"),
        ("2006-01-02T15:04:05.999999999Z07:00", "2026-07-01T21:05:09.120345-07:00"),
        ("3:04PM", "9:05PM"),
        ("03:04:05 pm", "09:05:09 pm"),
        ("Jan _2 15:04:05.000", "Jul  1 21:05:09.120"),
        ("15:04:05,000000000", "21:05:09,120345000"),
        ("05.9", "09.1"),
        ("1/2/06 4:5", "7/1/26 5:9"),
        ("01.02.2006", "07.01.2026"),
        ("02.01.2006", "01.07.2026"),
        ("002 __2 _2006", "182 182 _2026"),
        ("-07 -07:00 -0700 -07:00:00 -070000", "-07 -07:00 -0700 -07:00:00 -070000"),
        ("Z07 Z0700 Z070000", "-07 -0700 -070000"),
        ("January Janus Jan. Mondrian Mon", "July Janus Jul. Mondrian Wed"),
        ("Uhrzeit: 15 Uhr — 04 ✓", "Uhrzeit: 21 Uhr — 05 ✓"),
        ("week", "week"),
    ] {
        let got = call(json!({"format": format, "timezone": "America/Los_Angeles"})).await.unwrap();
        assert_eq!(got["formatted"], formatted, "{format}");
    }
    for (format, formatted) in [("Z07:00 -07:00 Z07", "Z +00:00 Z"), ("MST", "UTC")] {
        assert_eq!(call(json!({"format": format})).await.unwrap()["formatted"], formatted, "{format}");
    }
}

#[tokio::test]
async fn formats_that_cannot_be_used_are_refused() {
    for format in ["%", "%!", "%é", "%999999999Y", &"x".repeat(257)] {
        let error = call(json!({"format": format})).await.unwrap_err();
        assert!(error.message.starts_with("format "), "{error}");
    }
}

proptest! {
    #[test]
    fn no_format_does_harm(text in any::<String>(), padding in any::<u8>()) {
        let time = noon().to_zoned(TimeZone::UTC);
        let _ = format(&time, &text);
        let _ = format(&time, &format!("%{text}"));
        let padded = format(&time, &format!("%{padding}Y")).map_or(0, |text| text.len());
        prop_assert!(padded < 300);
        prop_assert_eq!(time_layout::format(&time, "").len(), 0);
    }
}

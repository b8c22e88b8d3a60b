//! How durations, sizes and secrets are written in YAML: `15s`, `64KiB`, `********`.
//!
//! Each submodule is for serde's `with`. Serialized values can be deserialized again, except for masks.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use secrecy::SecretString;
use serde::de::{self, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserializer, Serializer};

use super::settings::SealKey;

pub(super) const MIB: usize = 1 << 20;
pub(super) const GIB: usize = 1 << 30;
pub(super) const DAY: Duration = Duration::from_hours(24);

/// Replaces secrets in output.
pub(super) const MASK: &str = "********";

const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, usize); 4] = [("GiB", GIB), ("MiB", MIB), ("KiB", 1 << 10), ("B", 1)];

/// A duration such as `500ms` or `1h30m`.
pub(super) mod duration {
    use super::{Deserializer, Duration, DurationVisitor, Serializer, format_duration};

    pub(in crate::config) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_duration(*value))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        from.deserialize_any(DurationVisitor)
    }
}

/// A value, or a word for none.
fn text_or<S: Serializer>(value: Option<impl fmt::Display>, none: &str, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(&value),
        None => to.serialize_str(none),
    }
}

/// A duration, or `off`.
pub(super) mod duration_or_off {
    use super::{Deserializer, Duration, DurationVisitor, OrOff, Serializer, format_duration, text_or};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        text_or(value.map(format_duration), "off", to)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        from.deserialize_any(OrOff(DurationVisitor))
    }
}

/// A duration, or `auto`.
pub(super) mod duration_or_auto {
    use super::{Deserializer, Duration, DurationOrAuto, Serializer, format_duration, text_or};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        text_or(value.map(format_duration), "auto", to)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        from.deserialize_any(DurationOrAuto)
    }
}

/// Bytes, such as `64KiB` or `4096`.
pub(super) mod size {
    use super::{Deserializer, Serializer, SizeVisitor, format_size};

    pub(in crate::config) fn serialize<S: Serializer>(value: &usize, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_size(*value))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

/// An optional duration, for keys whose absence differs from the default.
pub(super) mod some_duration {
    use super::{Deserializer, Duration, DurationVisitor, Serializer, duration};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => duration::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        from.deserialize_any(DurationVisitor).map(Some)
    }
}

/// Durations by name.
pub(super) mod duration_map {
    use serde::{Deserialize, Serialize};

    use super::{BTreeMap, Deserializer, Duration, Serializer, duration};

    #[derive(Serialize, Deserialize)]
    struct One(#[serde(with = "duration")] Duration);

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &BTreeMap<String, Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(value.iter().map(|(name, value)| (name, One(*value))))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, Duration>, D::Error> {
        let map = BTreeMap::<String, One>::deserialize(from)?;
        Ok(map.into_iter().map(|(name, One(value))| (name, value)).collect())
    }
}

/// An optional size, for keys whose absence differs from the default.
pub(super) mod opt_size {
    use super::{Deserializer, Serializer, size};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<usize>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => size::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<usize>, D::Error> {
        super::some_size(from)
    }
}

/// An optional size, for keys whose absence differs from the default.
pub(super) fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    from.deserialize_any(SizeVisitor).map(Some)
}

/// A size, or `off`.
pub(super) mod size_or_off {
    use super::{Deserializer, OrOff, Serializer, SizeVisitor, format_size, text_or};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<usize>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        text_or(value.map(format_size), "off", to)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<usize>, D::Error> {
        from.deserialize_any(OrOff(SizeVisitor))
    }
}

/// A count, or `off` for no limit.
pub(super) mod count_or_off {
    use super::{CountVisitor, Deserializer, OrOff, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(value: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.serialize_u64(*value),
            None => to.serialize_str("off"),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<u64>, D::Error> {
        from.deserialize_any(OrOff(CountVisitor))
    }
}

/// A count, or `auto`.
pub(super) mod count_or_auto {
    use super::{CountOrAuto, Deserializer, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<usize>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.serialize_u64(*value as u64),
            None => to.serialize_str("auto"),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<usize>, D::Error> {
        from.deserialize_any(CountOrAuto)
    }
}

/// Masks a secret.
pub(super) fn masked<S: Serializer>(_: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(MASK)
}

/// Masks a secret, if there is one.
pub(super) fn masked_option<S: Serializer>(value: &Option<SecretString>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(_) => to.serialize_str(MASK),
        None => to.serialize_none(),
    }
}

/// A URL without its query, which may contain a key.
pub(super) fn masked_query<S: Serializer>(value: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    match value.as_deref().map(|url| url.split_once('?').ok_or(url)) {
        Some(Ok((place, _))) => to.collect_str(&format_args!("{place}?{MASK}")),
        Some(Err(url)) => to.serialize_str(url),
        None => to.serialize_none(),
    }
}

/// Masks the secrets, not their names.
pub(super) fn masked_map<S: Serializer>(
    value: &BTreeMap<String, SecretString>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(value.len()))?;
    for name in value.keys() {
        map.serialize_entry(name, MASK)?;
    }
    map.end()
}

/// Masks each key.
pub(super) fn masked_keys<S: Serializer>(value: &[SealKey], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(value.iter().map(|_| MASK))
}

/// `sha256:` and hex digits. A hash is not secret: keys are too long to be guessed from it.
pub(super) fn digest<S: Serializer>(value: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
    struct Hex<'a>(&'a [u8]);
    impl fmt::Display for Hex<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("sha256:")?;
            self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
    }
    to.collect_str(&Hex(value))
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, such as 500ms, 15s, 2m, 1h or 30d")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

struct DurationOrAuto;

impl Visitor<'_> for DurationOrAuto {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DurationVisitor.expecting(f)?;
        f.write_str("; or `auto`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Duration>, E> {
        if text == "auto" { Ok(None) } else { DurationVisitor.visit_str(text).map(Some) }
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size, such as 64KiB, 32MiB, 1GiB or a number of bytes")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<usize, E> {
        usize::try_from(bytes).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(bytes), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<usize, E> {
        parse_size(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: de::Error>(self, count: u64) -> Result<u64, E> {
        Ok(count)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

struct CountOrAuto;

impl Visitor<'_> for CountOrAuto {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or `auto`")
    }

    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Option<usize>, E> {
        usize::try_from(count).map(Some).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(count), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<usize>, E> {
        let count = || text.parse().map(Some).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self));
        if text == "auto" { Ok(None) } else { count() }
    }
}

/// What `V` deserializes, or `off` (or `false`, as which some YAML writers emit it).
struct OrOff<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OrOff<V> {
    type Value = Option<V::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)?;
        f.write_str("; or `off`")
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<Self::Value, E> {
        if on { Err(E::invalid_type(de::Unexpected::Bool(on), &self)) } else { Ok(None) }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.0.visit_u64(value).map(Some)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == "off" { Ok(None) } else { self.0.visit_str(text).map(Some) }
    }
}

/// Parses `1h30m`: each number with its unit.
fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut millis) = (text, 0u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, tail) = tail.split_at(tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len()));
        let factor = TIME_UNITS.iter().find(|(name, _)| *name == unit)?.1;
        millis = number.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(millis)?;
        rest = tail;
    }
    Some(Duration::from_millis(millis))
}

fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim_start() {
        "" => 1,
        unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<usize>().ok()?.checked_mul(factor)
}

/// Can be parsed again; less than a millisecond is omitted.
pub(super) fn format_duration(value: Duration) -> String {
    let millis = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
    let (unit, factor) =
        TIME_UNITS.into_iter().find(|(_, factor)| millis.is_multiple_of(*factor)).unwrap_or(("ms", 1));
    // Zero is a multiple of every unit; seconds read best.
    if millis == 0 { "0s".into() } else { format!("{}{unit}", millis / factor) }
}

fn format_size(value: usize) -> String {
    let (unit, factor) =
        SIZE_UNITS.into_iter().find(|(_, factor)| value.is_multiple_of(*factor)).unwrap_or(("B", 1));
    if value == 0 { "0B".into() } else { format!("{}{unit}", value / factor) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DAY, format_duration, format_size, parse_duration, parse_size};

    #[test]
    fn durations_need_their_unit() {
        for (text, millis) in
            [("500ms", 500), ("15s", 15_000), ("2m", 120_000), ("1h30m", 5_400_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "15", "s", "15 s", "1.5s", "15sec", "-1s", "99999999999999999999s"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in
            [("64KiB", 65_536), ("32 MiB", 33_554_432), ("17", 17), ("17B", 17), ("1GiB", 1 << 30)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for wrong in ["", "KiB", "1MB", "1k", "1.5MiB", "-1"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for value in [Duration::ZERO, Duration::from_millis(1500), Duration::from_secs(90), 30 * DAY] {
            assert_eq!(parse_duration(&format_duration(value)), Some(value));
        }
        assert_eq!(
            (format_duration(30 * DAY), format_duration(Duration::from_secs(90))),
            ("30d".into(), "90s".into())
        );
        for value in [0, 1, 1024, 1025, 32 << 20] {
            assert_eq!(parse_size(&format_size(value)), Some(value));
        }
    }
}

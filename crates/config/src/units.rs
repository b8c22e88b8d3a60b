//! How durations, sizes and counts are written in YAML: `15s`, `64KiB`, `128`, `off`.
//!
//! The types with `serialize` and `deserialize` are for serde's `with`. Serialized values can be deserialized again.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Unexpected, Visitor};
use serde::{Deserializer, Serialize, Serializer};

pub(super) const MIB: usize = 1 << 20;
pub(super) const GIB: usize = 1 << 30;
pub(super) const DAY: Duration = Duration::from_hours(24);

pub(super) type HumanDuration = ValueOnly<DurationFormat>;
pub(super) type ByteSize = ValueOnly<SizeFormat>;
/// For keys whose absence differs from the default.
pub(super) type OptionalDuration = Optional<DurationFormat>;
pub(super) type OptionalSize = Optional<SizeFormat>;
pub(super) type DurationOrOff = ValueOr<Off, DurationFormat>;
pub(super) type DurationOrAuto = ValueOr<Auto, DurationFormat>;
pub(super) type SizeOrOff = ValueOr<Off, SizeFormat>;
pub(super) type CountOrOff = ValueOr<Off, CountFormat<u64>>;
pub(super) type CountOrAuto = ValueOr<Auto, CountFormat<usize>>;

const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, usize); 4] = [("GiB", GIB), ("MiB", MIB), ("KiB", 1 << 10), ("B", 1)];

/// How a value is written.
pub(super) trait Format {
    type Value: Copy;
    const EXPECTED: &'static str;

    fn parse(text: &str) -> Option<Self::Value>;
    fn from_number(number: u64) -> Option<Self::Value>;
    fn serialize<S: Serializer>(value: Self::Value, to: S) -> Result<S::Ok, S::Error>;
}

/// `500ms` or `1h30m`.
pub(super) struct DurationFormat;

impl Format for DurationFormat {
    type Value = Duration;
    const EXPECTED: &'static str = "a duration with its unit, such as 500ms, 15s, 2m, 1h or 30d";

    fn parse(text: &str) -> Option<Duration> {
        parse_duration(text)
    }

    fn from_number(_: u64) -> Option<Duration> {
        None
    }

    fn serialize<S: Serializer>(value: Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_duration(value))
    }
}

/// `64KiB` or `4096`.
pub(super) struct SizeFormat;

impl Format for SizeFormat {
    type Value = usize;
    const EXPECTED: &'static str = "a size, such as 64KiB, 32MiB, 1GiB or a number of bytes";

    fn parse(text: &str) -> Option<usize> {
        parse_size(text)
    }

    fn from_number(bytes: u64) -> Option<usize> {
        usize::try_from(bytes).ok()
    }

    fn serialize<S: Serializer>(value: usize, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_size(value))
    }
}

pub(super) struct CountFormat<T>(PhantomData<T>);

impl<T: Copy + FromStr + TryFrom<u64> + Serialize> Format for CountFormat<T> {
    type Value = T;
    const EXPECTED: &'static str = "a number";

    fn parse(text: &str) -> Option<T> {
        text.parse().ok()
    }

    fn from_number(number: u64) -> Option<T> {
        T::try_from(number).ok()
    }

    fn serialize<S: Serializer>(value: T, to: S) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }
}

/// A word that may be written for no value.
pub(super) trait Keyword {
    const WORD: &'static str;
}

pub(super) struct Off;
pub(super) struct Auto;

impl Keyword for Off {
    const WORD: &'static str = "off";
}

impl Keyword for Auto {
    const WORD: &'static str = "auto";
}

/// A value.
pub(super) struct ValueOnly<F>(PhantomData<F>);

impl<F: Format> ValueOnly<F> {
    pub(super) fn serialize<S: Serializer>(value: &F::Value, to: S) -> Result<S::Ok, S::Error> {
        F::serialize(*value, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<F::Value, D::Error> {
        Written::<F>::deserialize(from).map(|written| written.0)
    }
}

/// A value, or nothing.
pub(super) struct Optional<F>(PhantomData<F>);

impl<F: Format> Optional<F> {
    pub(super) fn serialize<S: Serializer>(value: &Option<F::Value>, to: S) -> Result<S::Ok, S::Error> {
        value.map(Written::<F>).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<F::Value>, D::Error> {
        ValueOnly::<F>::deserialize(from).map(Some)
    }
}

/// A value, or a word for none.
pub(super) struct ValueOr<W, F>(PhantomData<(W, F)>);

impl<W: Keyword, F: Format> ValueOr<W, F> {
    pub(super) fn serialize<S: Serializer>(value: &Option<F::Value>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => F::serialize(*value, to),
            None => to.serialize_str(W::WORD),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<F::Value>, D::Error> {
        from.deserialize_any(FormatVisitor::<F> { none: Some(W::WORD), format: PhantomData })
    }
}

/// Durations by name.
pub(super) struct DurationMap;

impl DurationMap {
    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<String, Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(map.iter().map(|(name, value)| (name, Written::<DurationFormat>(*value))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, Duration>, D::Error> {
        let map = BTreeMap::<String, Written<DurationFormat>>::deserialize(from)?;
        Ok(map.into_iter().map(|(name, value)| (name, value.0)).collect())
    }
}

/// A value in its format.
struct Written<F: Format>(F::Value);

impl<F: Format> Serialize for Written<F> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        F::serialize(self.0, to)
    }
}

impl<'de, F: Format> Deserialize<'de> for Written<F> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = from.deserialize_any(FormatVisitor::<F> { none: None, format: PhantomData })?;
        // Only a word is read as `None`.
        value.map(Self).ok_or_else(|| de::Error::custom(format!("expected {}", F::EXPECTED)))
    }
}

struct FormatVisitor<F> {
    /// The word that is read as `None`.
    none: Option<&'static str>,
    format: PhantomData<F>,
}

impl<F: Format> Visitor<'_> for FormatVisitor<F> {
    type Value = Option<F::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(F::EXPECTED)?;
        self.none.map_or(Ok(()), |word| write!(f, "; or `{word}`"))
    }

    /// Some YAML writers emit `off` as `false`.
    fn visit_bool<E: de::Error>(self, on: bool) -> Result<Self::Value, E> {
        let is_off = !on && self.none == Some(Off::WORD);
        if is_off { Ok(None) } else { Err(E::invalid_type(Unexpected::Bool(on), &self)) }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        let value = F::from_number(number);
        value.map(Some).ok_or_else(|| E::invalid_type(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if self.none == Some(text) {
            return Ok(None);
        }
        F::parse(text).map(Some).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
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
pub fn format_duration(value: Duration) -> String {
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

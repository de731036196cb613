//! The forms that values have in the file: sizes, times, counts, addresses. Each is read strictly
//! and written as it is read.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use toml::de::DeValue;

use crate::global::Level;
use crate::inspection::Inspection;
use crate::log::Format;
use sealpost_server::settings::sending::{Family, FamilyOf, QueuePlace, Resolver, Route, Switch};
use sealpost_server::settings::{IpRange, Origin, PlaintextLogin, StoredSearch};
use sealpost_vault::Addressing;

/// A value as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum WrittenValue {
    /// In quotes.
    Text(String),
    /// As it is.
    Number(u64),
    /// Texts, in brackets.
    List(Vec<String>),
}

impl WrittenValue {
    /// As TOML.
    pub fn to_toml(&self) -> String {
        match self {
            WrittenValue::Text(text) => quoted(text),
            WrittenValue::Number(number) => number.to_string(),
            WrittenValue::List(items) => {
                format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// How a value is read and written.
pub trait Form<T> {
    /// What to write, for people: `a size such as "256MiB"`.
    const NAME: &'static str;

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it, without the form's name.
    fn read(value: &DeValue<'_>) -> Result<T, String>;

    /// Writes it.
    fn write(value: &T) -> WrittenValue;
}

/// Any text.
pub struct Text;

impl Form<String> for Text {
    const NAME: &'static str = "a string";

    fn read(value: &DeValue<'_>) -> Result<String, String> {
        text(value).map(str::to_owned)
    }

    fn write(value: &String) -> WrittenValue {
        WrittenValue::Text(value.clone())
    }
}

impl Form<Option<String>> for Text {
    const NAME: &'static str = "a string; empty: none";

    fn read(value: &DeValue<'_>) -> Result<Option<String>, String> {
        Ok(Some(text(value)?.to_owned()).filter(|text| !text.is_empty()))
    }

    fn write(value: &Option<String>) -> WrittenValue {
        WrittenValue::Text(value.clone().unwrap_or_default())
    }
}

/// A file or directory; from where the configuration file is, unless it begins with `/`.
pub struct File;

impl Form<PathBuf> for File {
    const NAME: &'static str = "a path";

    fn read(value: &DeValue<'_>) -> Result<PathBuf, String> {
        text(value).map(PathBuf::from)
    }

    fn write(value: &PathBuf) -> WrittenValue {
        WrittenValue::Text(value.display().to_string())
    }
}

impl Form<Vec<PathBuf>> for File {
    const NAME: &'static str = "a list of paths";

    fn read(value: &DeValue<'_>) -> Result<Vec<PathBuf>, String> {
        list(value)?
            .into_iter()
            .map(|item| if item.is_empty() { Err("a path is empty".to_owned()) } else { Ok(item.into()) })
            .collect()
    }

    fn write(value: &Vec<PathBuf>) -> WrittenValue {
        WrittenValue::List(value.iter().map(|path| path.display().to_string()).collect())
    }
}

/// Searches for all, by name.
pub struct Searches;

impl Form<Vec<StoredSearch>> for Searches {
    const NAME: &'static str = "a list of strings such as \"unread-from-boss UNSEEN FROM boss@example.org\"";

    fn read(value: &DeValue<'_>) -> Result<Vec<StoredSearch>, String> {
        let parse = |item: String| {
            sealpost_server::parse_stored_search(&item).map_err(|why| format!("{item:?}: {why}"))
        };
        list(value)?.into_iter().map(parse).collect()
    }

    fn write(value: &Vec<StoredSearch>) -> WrittenValue {
        WrittenValue::List(value.iter().map(ToString::to_string).collect())
    }
}

/// Addresses to listen on.
pub struct Addresses;

impl Form<Vec<SocketAddr>> for Addresses {
    const NAME: &'static str =
        "a list of addresses such as \"127.0.0.1:143\" or \"[::]:143\" (all, IPv4 too)";

    fn read(value: &DeValue<'_>) -> Result<Vec<SocketAddr>, String> {
        list(value)?.iter().map(|item| address(item)).collect()
    }

    fn write(value: &Vec<SocketAddr>) -> WrittenValue {
        WrittenValue::List(value.iter().map(ToString::to_string).collect())
    }
}

/// A name is none: it may mean several addresses, and others tomorrow.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if text.parse::<IpAddr>().is_ok() {
        return Err(format!("{text:?} has no port"));
    }
    match text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()) {
        None => Err(format!("{text:?} is no address with a port")),
        Some((_, port)) => Err(format!(
            "{text:?} has no numeric address before the port: \"127.0.0.1:{port}\" or \"[::1]:{port}\" is this machine, \
             \"[::]:{port}\" is everywhere"
        )),
    }
}

/// Ranges of addresses.
pub struct Ranges;

impl Form<Vec<IpRange>> for Ranges {
    const NAME: &'static str = "a list of addresses and ranges such as \"10.0.0.1\" or \"2001:db8::/32\"";

    fn read(value: &DeValue<'_>) -> Result<Vec<IpRange>, String> {
        list(value)?.into_iter().map(|item| item.parse()).collect()
    }

    fn write(value: &Vec<IpRange>) -> WrittenValue {
        WrittenValue::List(value.iter().map(ToString::to_string).collect())
    }
}

/// An address, or none.
pub struct Source;

impl<T: FromStr + ToString> Form<Option<T>> for Source {
    const NAME: &'static str = "an address; empty: the system chooses";

    fn read(value: &DeValue<'_>) -> Result<Option<T>, String> {
        match text(value)? {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| format!("{text:?} is no address of that kind")),
        }
    }

    fn write(value: &Option<T>) -> WrittenValue {
        WrittenValue::Text(value.as_ref().map(ToString::to_string).unwrap_or_default())
    }
}

/// Origins of pages.
pub struct Origins;

impl Form<Vec<Origin>> for Origins {
    const NAME: &'static str = "a list of origins such as \"https://mail.example.org\"";

    fn read(value: &DeValue<'_>) -> Result<Vec<Origin>, String> {
        list(value)?.into_iter().map(|item| item.parse()).collect()
    }

    fn write(value: &Vec<Origin>) -> WrittenValue {
        WrittenValue::List(value.iter().map(ToString::to_string).collect())
    }
}

impl Form<Option<Origin>> for Origins {
    const NAME: &'static str = "a URL without a path, such as \"https://mail.example.org\"; empty: none";

    fn read(value: &DeValue<'_>) -> Result<Option<Origin>, String> {
        match text(value)? {
            "" => Ok(None),
            url => url.parse().map(Some),
        }
    }

    fn write(value: &Option<Origin>) -> WrittenValue {
        WrittenValue::Text(value.as_ref().map(ToString::to_string).unwrap_or_default())
    }
}

/// Ways for some mail.
pub struct Routes;

impl Form<Vec<Route>> for Routes {
    const NAME: &'static str = "a list of strings such as \"* via smtp.relay.example:587 credentials relay.secret\" or \"example.org direct\"";

    fn read(value: &DeValue<'_>) -> Result<Vec<Route>, String> {
        list(value)?.into_iter().map(|item| item.parse()).collect()
    }

    fn write(value: &Vec<Route>) -> WrittenValue {
        WrittenValue::List(value.iter().map(ToString::to_string).collect())
    }
}

/// Kinds of addresses for single domains.
pub struct Families;

impl Form<Vec<FamilyOf>> for Families {
    const NAME: &'static str = "a list of strings such as \"example.org ipv4\"";

    fn read(value: &DeValue<'_>) -> Result<Vec<FamilyOf>, String> {
        list(value)?.into_iter().map(|item| item.parse()).collect()
    }

    fn write(value: &Vec<FamilyOf>) -> WrittenValue {
        WrittenValue::List(value.iter().map(ToString::to_string).collect())
    }
}

/// Name servers.
pub struct NameServers;

impl Form<Resolver> for NameServers {
    const NAME: &'static str = "\"recursive\", \"system\" or addresses such as \"192.0.2.1, 192.0.2.2\"";

    fn read(value: &DeValue<'_>) -> Result<Resolver, String> {
        text(value)?.parse()
    }

    fn write(value: &Resolver) -> WrittenValue {
        WrittenValue::Text(value.to_string())
    }
}

/// A number of bytes.
pub struct Size;

const SIZES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl<T: TryFrom<u64> + TryInto<u64> + Copy> Form<T> for Size {
    const NAME: &'static str = "a size such as \"256MiB\" (B, KiB, MiB, GiB, TiB)";

    fn read(value: &DeValue<'_>) -> Result<T, String> {
        let bytes = quantity(value, &SIZES)?;
        T::try_from(bytes).map_err(|_| "too large".to_owned())
    }

    fn write(value: &T) -> WrittenValue {
        WrittenValue::Text(in_units((*value).try_into().unwrap_or(u64::MAX), &SIZES))
    }
}

/// A time span.
pub struct Span;

const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
/// A century, in milliseconds: a longer time is a mistake.
const LONGEST_MS: u64 = 100 * 366 * 86_400_000;

impl Form<Duration> for Span {
    const NAME: &'static str = "a time such as \"30s\" (ms, s, m, h, d)";

    fn read(value: &DeValue<'_>) -> Result<Duration, String> {
        match quantity(value, &TIMES)? {
            ms if ms > LONGEST_MS => Err("too long".to_owned()),
            ms => Ok(Duration::from_millis(ms)),
        }
    }

    fn write(value: &Duration) -> WrittenValue {
        WrittenValue::Text(in_units(u64::try_from(value.as_millis()).unwrap_or(u64::MAX), &TIMES))
    }
}

/// A time span to wait, which cannot be nothing.
pub struct Wait;

impl Form<Duration> for Wait {
    const NAME: &'static str = <Span as Form<Duration>>::NAME;

    fn read(value: &DeValue<'_>) -> Result<Duration, String> {
        match Span::read(value)? {
            Duration::ZERO => Err("it cannot be zero".to_owned()),
            wait => Ok(wait),
        }
    }

    fn write(value: &Duration) -> WrittenValue {
        Span::write(value)
    }
}

/// How many, zero included.
pub struct Count;

impl<T: TryFrom<u64> + TryInto<u64> + Copy> Form<T> for Count {
    const NAME: &'static str = "a number";

    fn read(value: &DeValue<'_>) -> Result<T, String> {
        T::try_from(number(value)?).map_err(|_| "too large".to_owned())
    }

    fn write(value: &T) -> WrittenValue {
        WrittenValue::Number((*value).try_into().unwrap_or(u64::MAX))
    }
}

/// How many, at least one.
pub struct Several;

impl<T: TryFrom<u64> + TryInto<u64> + Copy> Form<T> for Several {
    const NAME: &'static str = "a number, at least 1";

    fn read(value: &DeValue<'_>) -> Result<T, String> {
        match number(value)? {
            0 => Err("it cannot be zero".to_owned()),
            number => T::try_from(number).map_err(|_| "too large".to_owned()),
        }
    }

    fn write(value: &T) -> WrittenValue {
        <Count as Form<T>>::write(value)
    }
}

/// One of a few words.
pub struct Choice;

impl Form<PlaintextLogin> for Choice {
    const NAME: &'static str = "\"loopback\" or \"never\"";

    fn read(value: &DeValue<'_>) -> Result<PlaintextLogin, String> {
        choose(value, &[("loopback", PlaintextLogin::Loopback), ("never", PlaintextLogin::Never)])
    }

    fn write(value: &PlaintextLogin) -> WrittenValue {
        let word = match value {
            PlaintextLogin::Loopback => "loopback",
            PlaintextLogin::Never => "never",
        };
        WrittenValue::Text(word.to_owned())
    }
}

impl Form<Inspection> for Choice {
    const NAME: &'static str = "\"off\" or \"on\"";

    fn read(value: &DeValue<'_>) -> Result<Inspection, String> {
        choose(value, &[("off", Inspection::Off), ("on", Inspection::On)])
    }

    fn write(value: &Inspection) -> WrittenValue {
        let word = match value {
            Inspection::Off => "off",
            Inspection::On => "on",
        };
        WrittenValue::Text(word.to_owned())
    }
}

impl Form<bool> for Choice {
    const NAME: &'static str = "\"on\" or \"off\"";

    fn read(value: &DeValue<'_>) -> Result<bool, String> {
        choose(value, &[("on", true), ("off", false)])
    }

    fn write(value: &bool) -> WrittenValue {
        WrittenValue::Text(if *value { "on" } else { "off" }.to_owned())
    }
}

impl Form<Switch> for Choice {
    const NAME: &'static str = "\"auto\", \"on\" or \"off\"";

    fn read(value: &DeValue<'_>) -> Result<Switch, String> {
        choose(value, &SWITCHES)
    }

    fn write(value: &Switch) -> WrittenValue {
        written_choice(*value, &SWITCHES)
    }
}

const SWITCHES: [(&str, Switch); 3] = [("auto", Switch::Auto), ("on", Switch::On), ("off", Switch::Off)];

impl Form<QueuePlace> for Choice {
    const NAME: &'static str = "\"store\" or \"local\"";

    fn read(value: &DeValue<'_>) -> Result<QueuePlace, String> {
        choose(value, &PLACES)
    }

    fn write(value: &QueuePlace) -> WrittenValue {
        written_choice(*value, &PLACES)
    }
}

const PLACES: [(&str, QueuePlace); 2] = [("store", QueuePlace::Store), ("local", QueuePlace::Local)];

impl Form<Family> for Choice {
    const NAME: &'static str = "\"prefer-ipv6\", \"prefer-ipv4\", \"ipv4\" or \"ipv6\"";

    fn read(value: &DeValue<'_>) -> Result<Family, String> {
        choose(value, &Family::ALL)
    }

    fn write(value: &Family) -> WrittenValue {
        written_choice(*value, &Family::ALL)
    }
}

impl Form<Level> for Choice {
    const NAME: &'static str = "\"off\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\"";

    fn read(value: &DeValue<'_>) -> Result<Level, String> {
        choose(value, &Level::ALL.map(|level| (level.name(), level)))
    }

    fn write(value: &Level) -> WrittenValue {
        WrittenValue::Text(value.name().to_owned())
    }
}

impl Form<Addressing> for Choice {
    const NAME: &'static str = "\"auto\", \"path\" or \"virtual\"";

    fn read(value: &DeValue<'_>) -> Result<Addressing, String> {
        choose(value, &ADDRESSING)
    }

    fn write(value: &Addressing) -> WrittenValue {
        let found = ADDRESSING.iter().find(|(_, addressing)| addressing == value);
        WrittenValue::Text(found.map_or("auto", |(word, _)| *word).to_owned())
    }
}

const ADDRESSING: [(&str, Addressing); 3] =
    [("auto", Addressing::Auto), ("path", Addressing::Path), ("virtual", Addressing::Virtual)];

impl Form<Format> for Choice {
    const NAME: &'static str = "\"text\" or \"json\"";

    fn read(value: &DeValue<'_>) -> Result<Format, String> {
        choose(value, &[("text", Format::Text), ("json", Format::Json)])
    }

    fn write(value: &Format) -> WrittenValue {
        let word = match value {
            Format::Text => "text",
            Format::Json => "json",
        };
        WrittenValue::Text(word.to_owned())
    }
}

fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| "it needs quotes".to_owned())
}

fn list(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let items = value.as_array().ok_or_else(|| "it needs brackets".to_owned())?;
    items.iter().map(|item| text(item.get_ref()).map(str::to_owned)).collect()
}

fn number(value: &DeValue<'_>) -> Result<u64, String> {
    let integer = value.as_integer().ok_or_else(|| "it is not one".to_owned())?;
    u64::from_str_radix(integer.as_str(), integer.radix())
        .map_err(|_| "it is negative or too large".to_owned())
}

fn choose<T: Copy>(value: &DeValue<'_>, choices: &[(&str, T)]) -> Result<T, String> {
    let word = text(value)?;
    let found = choices.iter().find(|(name, _)| *name == word);
    found.map(|(_, choice)| *choice).ok_or_else(|| format!("{word:?} is none of them"))
}

/// The word of a value.
fn written_choice<T: Copy + PartialEq>(value: T, choices: &[(&str, T)]) -> WrittenValue {
    let found = choices.iter().find(|(_, choice)| *choice == value);
    WrittenValue::Text(found.map_or("", |(word, _)| *word).to_owned())
}

/// A number with a unit; zero needs none.
fn quantity(value: &DeValue<'_>, units_of: &[(&str, u64)]) -> Result<u64, String> {
    units(text(value)?, units_of)
}

fn units(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    let unit = text[digits..].trim_start();
    if number == 0 && unit.is_empty() {
        return Ok(0);
    }
    let unit =
        units.iter().find(|(name, _)| *name == unit).ok_or_else(|| format!("{text:?} has no such unit"))?;
    number.checked_mul(unit.1).ok_or_else(|| format!("{text:?} is too large"))
}

/// A size as it is written in the configuration.
pub fn size<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    T::try_from(units(text, &SIZES)?).map_err(|_| format!("{text:?} is too large"))
}

/// In the largest unit that leaves a whole number.
fn in_units(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, unit): &&(&str, u64)| value >= *unit && value.is_multiple_of(*unit);
    match units.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", value / unit),
        None => "0".to_owned(),
    }
}

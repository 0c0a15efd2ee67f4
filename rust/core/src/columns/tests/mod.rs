//! The model is the evaluation of conditions on the records themselves.

mod damage;
mod layout;
mod same_as_records;
mod speed;

use super::*;
use crate::episode::{Episode, MetaValue, Origin, Outcome, Scope, Source, Status, Trust};
use crate::query::{Filter, Kind};
use crate::sections::SectionWriter;

/// An id; greater numbers give greater ids.
fn id(number: u64) -> RecordId {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&(number >> 8).to_be_bytes()[2..]);
    bytes[6] = 0x70;
    bytes[8] = 0x80;
    bytes[15] = number as u8;
    RecordId::from_bytes(bytes).unwrap()
}

fn blank(number: u64) -> Episode {
    Episode::new(id(number), Moment::utc(1_000 + number.cast_signed()), Scope::root(), Origin::User)
}

fn built(episodes: &[Episode], states: &[u8]) -> ColumnsBuilder {
    let mut builder = ColumnsBuilder::default();
    for (episode, state) in episodes.iter().zip(states) {
        builder.push(episode, *state).unwrap();
    }
    builder
}

fn file(builder: ColumnsBuilder) -> Vec<u8> {
    let mut writer = SectionWriter::new(Vec::new()).unwrap();
    builder.write(&mut writer).unwrap();
    writer.finish().unwrap()
}

fn columns(episodes: &[Episode], states: &[u8]) -> Columns {
    let sections = Sections::from_bytes(&file(built(episodes, states))).unwrap();
    sections.check_all().unwrap();
    Columns::open(&sections).unwrap()
}

/// Values that are close to each other: prefixes, neighbours in byte order, the same number in several spellings.
const SCOPES: [&str; 8] = ["", "a", "a/b", "a/b/c", "a/b-c", "a-b", "a/bc", "é/x"];
const DIRS: [&str; 9] =
    ["/", "/srv", "/srv/app", "/srv-x", "/srv/app/x", "C:/", "C:/w", "\\\\srv/share", "/srv/"];
const TEXTS: [&str; 7] = ["x", "X", "x/y", "", "\u{10FFFF}", "ada", "x\u{1}"];
const NAMES: [&str; 4] = ["run", "ru", "n", ""];
const MICROS: [i64; 8] = [i64::MIN, -1, 0, 1, 5, 1_030, 1_100, i64::MAX];

fn value(pick: u8) -> MetaValue {
    const EXACT: i64 = 1 << 53;
    match pick % 24 {
        0 => MetaValue::Null,
        1 => MetaValue::Bool(true),
        2 => MetaValue::Bool(false),
        3 => MetaValue::Int(0),
        4 => MetaValue::Int(1),
        5 => MetaValue::Int(7),
        6 => MetaValue::Int(-7),
        7 => MetaValue::Int(EXACT - 1),
        8 => MetaValue::Int(EXACT),
        9 => MetaValue::Int(EXACT + 1),
        10 => MetaValue::Int(i64::MAX),
        11 => MetaValue::Int(i64::MIN),
        12 => MetaValue::Float(0.0),
        13 => MetaValue::Float(-0.0),
        14 => MetaValue::Float(7.0),
        15 => MetaValue::Float(-7.0),
        16 => MetaValue::Float(0.5),
        17 => MetaValue::Float((EXACT - 1) as f64),
        18 => MetaValue::Float(EXACT as f64),
        19 => MetaValue::Float(i64::MAX as f64),
        20 => MetaValue::Float(f64::NAN),
        21 => MetaValue::Str(String::new()),
        22 => MetaValue::Str("7".into()),
        _ => MetaValue::Str("t".into()),
    }
}

fn pick<T: Copy>(from: &[T], pick: u8) -> T {
    from[usize::from(pick) % from.len()]
}

fn word<T: std::str::FromStr<Err: std::fmt::Debug>>(words: &[&str], by: u8) -> T {
    pick(words, by).parse().unwrap()
}

/// A text for five of eight picks.
fn text(by: u8) -> Option<String> {
    (by % 8 < 5).then(|| pick(&TEXTS, by / 8).to_owned())
}

/// A record from bytes that say which values it has.
fn episode(number: u64, raw: &[u8; 20]) -> Episode {
    let mut e = blank(number);
    // A third goes by the number, so that whole words lie on one side of a limit.
    if !raw[0].is_multiple_of(3) {
        let micros = Moment::utc(pick(&MICROS, raw[0] / 3)).unix_micros();
        let offset = if micros.abs() < 9_999 { i32::from(raw[0]) * 60 } else { 0 };
        e.occurred_at = Moment::new(micros, offset).unwrap();
    }
    e.status = word(Status::WORDS, u8::from(raw[1].is_multiple_of(5)));
    e.outcome = (!raw[2].is_multiple_of(5)).then(|| word(Outcome::WORDS, raw[2] / 5));
    e.source = word(Source::WORDS, raw[3]);
    e.origin = word(Origin::WORDS, raw[4]);
    e.trust = word(Trust::WORDS, raw[5]);
    e.scope = word(&SCOPES, raw[6]);
    e.key = text(raw[7]);
    e.user_id = text(raw[8]);
    e.agent_id = text(raw[9]);
    e.session_id = text(raw[10]);
    e.task_id = text(raw[11]);
    e.actor = text(raw[12]);
    e.working_dir = (!raw[13].is_multiple_of(4)).then(|| pick(&DIRS, raw[13] / 4).to_owned());
    e.tags = raw[14..17].iter().filter_map(|by| text(*by)).collect();
    for by in &raw[17..19] {
        if !by.is_multiple_of(3) {
            e.metadata.insert(pick(&NAMES, by / 96).to_owned(), value(by / 3));
        }
    }
    e.importance = pick(&[0.5, 0.5, 0.0, -0.0, 0.1, 1.0], raw[19]);
    e
}

/// Sets one condition of a filter.
fn set(filter: &mut Filter, (which, by, more): (u8, u8, u8), episodes: &[Episode]) {
    let ids = |by: u8| -> Vec<RecordId> {
        let known = episodes.iter().skip(usize::from(by)).step_by(usize::from(by % 7) + 1);
        known.map(|e| e.id).chain([id(u64::from(by))]).rev().collect()
    };
    let some = || Some(pick(&TEXTS, by).to_owned());
    match which % 21 {
        0 => filter.ids = Some(ids(by)),
        1 => filter.not_ids = ids(by),
        2 => filter.kinds = Some(vec![Kind::Episode, Kind::Section].split_off(usize::from(by % 3))),
        3 => filter.key = some(),
        4 => filter.scope = Some(word(&SCOPES, by)),
        5 => filter.user_id = some(),
        6 => filter.agent_id = some(),
        7 => filter.session_id = some(),
        8 => filter.task_id = some(),
        9 => filter.working_dir = Some(pick(&DIRS, by).to_owned()),
        10 => filter.below = true,
        11 => filter.tags = [by, more].iter().filter_map(|by| text(*by)).collect(),
        12 => filter.outcome = Some(word(Outcome::WORDS, by)),
        13 => filter.source = Some(word(Source::WORDS, by)),
        14 => filter.actor = some(),
        15 => filter.origin = Some(word(Origin::WORDS, by)),
        16 => filter.trust = Some(word(Trust::WORDS, by)),
        17 => filter.since = Some(Moment::utc(pick(&MICROS, by))),
        18 => filter.until = Some(Moment::utc(pick(&MICROS, by))),
        19 => drop(filter.metadata.insert(pick(&NAMES, more).to_owned(), value(by))),
        _ => filter.status = Some(word(Status::WORDS, by)),
    }
}

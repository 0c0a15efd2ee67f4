//! What a workload does, and which rows the store must hold after it: worked out without the store.

use super::Random;
use crate::episode::{Episode, MetaValue, Origin, Scope};
use crate::error::Result;
use crate::ids::RecordId;
use crate::store::parts;
use crate::store::rows::{Embedded, EmbeddingRow, NO_EMBEDDER, Operation};
use crate::store::tables::{self, CHANGES, CWD_INDEX, EMBEDDERS, EMBEDDINGS, EPISODES, KEYS, META};
use crate::store::view::Source;
use crate::store::{ReadView, Store, WriteView, seal};
use crate::time::Moment;
use redb::ReadableTable;
use std::collections::BTreeMap;

/// Every row of every table, by table and key bytes. Of a change the random number is left out, of `meta` what is
/// drawn when a store is made.
pub(super) type Rows = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

const DIRS: [&str; 4] = ["/", "/work", "/work/a", "/项目"];
const EMBEDDERS_USED: [(&str, u32); 2] = [("one", 3), ("two", 384)];

/// One job of a workload. Each is right for the state it was drawn for.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Put(Box<Episode>),
    /// A key goes from one record to another.
    MoveKey(Box<Episode>, Box<Episode>),
    Forget(RecordId),
    Embed {
        id: RecordId,
        embedder: usize,
        rows: Vec<EmbeddingRow>,
    },
    Unembed(RecordId),
    SetMeta(String, Vec<u8>),
    Several(Vec<Step>),
}

/// The memory as it must be.
#[derive(Debug, Default, Clone)]
pub(super) struct Model {
    pub(super) episodes: BTreeMap<RecordId, Episode>,
    /// By number, from 1.
    embedders: Vec<(&'static str, u32)>,
    vectors: BTreeMap<(u32, RecordId), Vec<EmbeddingRow>>,
    changes: Vec<(Operation, RecordId)>,
    meta: BTreeMap<String, Vec<u8>>,
}

impl Step {
    /// Draws a step for the state `model`.
    pub(super) fn draw(model: &Model, random: &mut Random) -> Self {
        let known: Vec<RecordId> = model.episodes.keys().copied().collect();
        let pick = |random: &mut Random| known[random.below(known.len() as u64) as usize];
        match random.below(12) {
            0..=3 => Self::Put(Box::new(new_episode(model, random))),
            _ if known.len() < 2 => Self::Put(Box::new(new_episode(model, random))),
            4 | 5 => {
                let old = &model.episodes[&pick(random)];
                let fresh = new_episode(model, random);
                Self::Put(Box::new(Episode { id: old.id, created_at: old.created_at, ..fresh }))
            }
            6 => {
                let (from, to) = (pick(random), pick(random));
                if from == to {
                    return Self::Forget(from);
                }
                let mut giver = model.episodes[&from].clone();
                let key = giver.key.take().unwrap_or_else(|| format!("moved {}", random.below(u64::MAX)));
                let taker = Episode { key: Some(key), ..model.episodes[&to].clone() };
                // The key is unique within a scope only.
                let taker = Episode { scope: giver.scope.clone(), ..taker };
                Self::MoveKey(Box::new(giver), Box::new(taker))
            }
            7 => Self::Forget(pick(random)),
            8 => Self::embed(pick(random), random),
            9 => match model.vectors.keys().next() {
                Some((_, id)) => Self::Unembed(*id),
                None => Self::embed(pick(random), random),
            },
            10 => Self::SetMeta(format!("note {}", random.below(3)), random.text(200).into_bytes()),
            _ => {
                let (mut after, mut steps) = (model.clone(), Vec::new());
                for _ in 0..2 + random.below(6) {
                    let step = Self::draw(&after, random);
                    after.apply(&step);
                    steps.push(step);
                }
                Self::Several(steps)
            }
        }
    }

    fn embed(id: RecordId, random: &mut Random) -> Self {
        let embedder = random.below(2) as usize;
        let dim = EMBEDDERS_USED[embedder].1;
        let rows = (0..=random.below(3) as u32)
            .map(|chunk| EmbeddingRow {
                chunk,
                text_hash: u128::from(random.below(u64::MAX)),
                vector: if random.chance(6) {
                    Embedded::Refused(random.text(40))
                } else {
                    Embedded::Row((0..dim).map(|_| random.below(1000) as f32 / 1000.0).collect())
                },
            })
            .collect();
        Self::Embed { id, embedder, rows }
    }

    /// Does it in the store.
    pub(super) fn run(&self, view: &mut WriteView<'_>) -> Result<()> {
        match self {
            Self::Put(episode) => view.put_episode(episode, None),
            Self::MoveKey(giver, taker) => {
                view.put_episode(giver, None)?;
                view.put_episode(taker, None)
            }
            Self::Forget(id) => match view.episode(*id)? {
                Some(episode) => view.delete_episode(&episode).map(|_| ()),
                None => Ok(()),
            },
            Self::Embed { id, embedder, rows } => {
                let (fingerprint, dim) = EMBEDDERS_USED[*embedder];
                let number = view.register_embedder(fingerprint, dim)?;
                if view.home_embedder()?.is_none() {
                    view.set_home_embedder(number)?;
                }
                view.put_embeddings(number, *id, rows)
            }
            Self::Unembed(id) => view.delete_embeddings(*id).map(|_| ()),
            Self::SetMeta(name, body) => view.set_meta(name, body),
            Self::Several(steps) => steps.iter().try_for_each(|step| step.run(view)),
        }
    }
}

/// A record with a key, a directory, metadata and a scope of its own, or without.
pub(super) fn new_episode(model: &Model, random: &mut Random) -> Episode {
    let now = Moment::utc(1_760_000_000_000_000 + random.below(1 << 40).cast_signed());
    let id = random.id();
    let scope: Scope = ["", "team"][random.below(2) as usize].parse().unwrap();
    let mut episode = Episode::new(id, now, scope, Origin::User);
    let length = [20, 200, 2_000, 40_000][random.below(8).saturating_sub(4) as usize];
    episode.summary = format!("record {} {}", model.changes.len(), random.text(60));
    episode.body = random.chance(2).then(|| random.text(length));
    episode.key = random.chance(2).then(|| format!("key {}", random.below(u64::MAX)));
    episode.working_dir = random.chance(2).then(|| DIRS[random.below(4) as usize].to_owned());
    for name in 0..random.below(4) {
        episode.metadata.insert(format!("m{name}"), MetaValue::Str(random.text(30)));
    }
    episode
}

impl Model {
    /// The state after `step`.
    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Put(episode) => self.put(episode),
            Step::MoveKey(giver, taker) => {
                self.put(giver);
                self.put(taker);
            }
            Step::Forget(id) => {
                self.vectors.retain(|(_, owner), _| owner != id);
                if self.episodes.remove(id).is_some() {
                    self.changes.push((Operation::Delete, *id));
                }
            }
            Step::Embed { id, embedder, rows } => {
                let wanted = EMBEDDERS_USED[*embedder];
                let known = self.embedders.iter().position(|known| *known == wanted);
                let number = known.unwrap_or_else(|| {
                    self.embedders.push(wanted);
                    self.embedders.len() - 1
                }) as u32
                    + 1;
                let home = tables::META_HOME_EMBEDDER.to_owned();
                self.meta.entry(home).or_insert_with(|| number.to_le_bytes().to_vec());
                self.vectors.insert((number, *id), rows.clone());
                self.changes.push((Operation::Embed, *id));
            }
            Step::Unembed(id) => {
                let before = self.vectors.len();
                self.vectors.retain(|(_, owner), _| owner != id);
                if self.vectors.len() != before {
                    self.changes.push((Operation::Embed, *id));
                }
            }
            Step::SetMeta(name, body) => drop(self.meta.insert(name.clone(), body.clone())),
            Step::Several(steps) => steps.iter().for_each(|step| self.apply(step)),
        }
    }

    fn put(&mut self, episode: &Episode) {
        self.episodes.insert(episode.id, episode.clone());
        self.changes.push((Operation::Put, episode.id));
    }

    /// The rows of this state.
    pub(super) fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        for (id, episode) in &self.episodes {
            let id = id.as_bytes();
            rows.insert(("episodes", id.to_vec()), episode.to_stored().unwrap());
            if let Some(dir) = &episode.working_dir {
                rows.insert(("cwd_index", [dir.as_bytes(), b"\0", id].concat()), Vec::new());
            }
            if let Some(key) = &episode.key {
                let scope = episode.scope.as_str().as_bytes();
                rows.insert(("keys", [scope, b"\0", key.as_bytes()].concat()), id.to_vec());
            }
        }
        for ((number, id), chunks) in &self.vectors {
            assert_ne!(*number, NO_EMBEDDER);
            for row in chunks {
                for (part, body) in parts::cut(row).unwrap() {
                    let key = [&number.to_le_bytes()[..], id.as_bytes(), &part.to_le_bytes()].concat();
                    rows.insert(("embeddings", key), body);
                }
            }
        }
        for ((fingerprint, dim), number) in self.embedders.iter().zip(1u32..) {
            let body = [&dim.to_le_bytes()[..], fingerprint.as_bytes()].concat();
            rows.insert(("embedders", number.to_le_bytes().to_vec()), body);
        }
        for ((operation, id), sequence) in self.changes.iter().zip(1u64..) {
            let operation = match operation {
                Operation::Put => 1,
                Operation::Delete => 2,
                Operation::Embed => 3,
            };
            rows.insert(
                ("changes", sequence.to_le_bytes().to_vec()),
                [&[operation, 1], &id.as_bytes()[..]].concat(),
            );
        }
        for (name, body) in &self.meta {
            rows.insert(("meta", name.as_bytes().to_vec()), body.clone());
        }
        let last = self.changes.len() as u64;
        rows.insert(("meta", tables::META_LAST_SEQUENCE.as_bytes().to_vec()), last.to_le_bytes().to_vec());
        rows
    }
}

/// The rows that are in the store, each checked against its checksum, read behind the back of [`ReadView`]'s queries.
pub(super) fn rows_of(store: &Store) -> Result<Rows> {
    store.read(|view| {
        let mut rows = Rows::new();
        all_rows(view, &mut rows)?;
        let drawn =
            [tables::META_CREATED, tables::META_STORE_ID, tables::META_FORMAT, tables::META_OLDEST_READER];
        for name in drawn {
            let there = rows.remove(&("meta", name.as_bytes().to_vec())).is_some();
            assert!(there, "meta {name} is missing");
        }
        Ok(rows)
    })
}

fn all_rows(view: &ReadView<'_>, rows: &mut Rows) -> Result<()> {
    let Source::Snapshot(tables) = &view.source else { unreachable!("read views are snapshots") };
    let mut add = |table: &'static str, key: Vec<u8>, value: &[u8]| -> Result<()> {
        let (_, body) = seal::unseal(table, &key, value)
            .map_err(|error| view.context.corrupt(format!("{table}: {error:?}")))?;
        let body = if table == "changes" { &body[..18] } else { body };
        rows.insert((table, key), body.to_vec());
        Ok(())
    };
    macro_rules! each_row {
        ($definition:ident, $name:literal, $key:pat => $bytes:expr) => {
            let table = tables.transaction.open_table($definition).map_err(|e| view.context.fail(e))?;
            for row in table.iter().map_err(|e| view.context.fail(e))? {
                let (key, value) = row.map_err(|e| view.context.fail(e))?;
                let $key = key.value();
                add($name, $bytes, value.value())?;
            }
        };
    }
    each_row!(EPISODES, "episodes", id => id.to_vec());
    each_row!(CWD_INDEX, "cwd_index", (dir, id) => tables::cwd_key(dir, id));
    each_row!(KEYS, "keys", (scope, key) => tables::name_key(scope, key));
    each_row!(EMBEDDINGS, "embeddings", (number, id, chunk) => tables::chunk_key(number, id, chunk).to_vec());
    each_row!(EMBEDDERS, "embedders", number => number.to_le_bytes().to_vec());
    each_row!(CHANGES, "changes", sequence => sequence.to_le_bytes().to_vec());
    each_row!(META, "meta", name => name.as_bytes().to_vec());
    Ok(())
}

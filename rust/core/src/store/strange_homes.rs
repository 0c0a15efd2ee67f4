//! Makes the homes of tests/data/homes that no build of this version writes: versions that never were, and newer ones.

use super::seal::{seal, seal_version, unseal};
use super::tables::{EPISODES, META, META_FORMAT, META_OLDEST_READER};
use super::{STORE_FILE, Store, StoreOptions, Wait};
use crate::episode::{Episode, Origin, Scope};
use crate::ids::RecordId;
use crate::time::Moment;
use redb::{Builder, ConcurrencyMode, Database, ReadableTable};
use std::path::Path;

/// Versions that no build writes.
const NEVER: u32 = 0;
const NEWER: u32 = 999;

fn home(root: &Path, name: &str) -> (Database, RecordId) {
    let home = root.join(name);
    let store = Store::open(&home, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap();
    let mut strange = None;
    for (place, summary) in ["a record as any other", "a record of another version"].into_iter().enumerate() {
        let now = Moment::utc(1_760_000_000_000_000 + i64::try_from(place).unwrap());
        let id = RecordId::new_episode(now.unix_micros());
        let episode =
            Episode { summary: summary.to_owned(), ..Episode::new(id, now, Scope::root(), Origin::User) };
        store.write(&Wait::default(), move |view| view.put_episode(&episode, None)).unwrap();
        strange = Some(id);
    }
    drop(store);
    let mut builder = Builder::new();
    builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
    (builder.open(home.join(STORE_FILE)).unwrap(), strange.unwrap())
}

fn set_meta(db: &Database, name: &str, number: u32) {
    let transaction = db.begin_write().unwrap();
    let value = seal("meta", name.as_bytes(), &number.to_le_bytes());
    transaction.open_table(META).unwrap().insert(name, value.as_slice()).unwrap();
    transaction.commit().unwrap();
}

fn set_row(db: &Database, id: RecordId, change: impl FnOnce(&[u8]) -> Vec<u8>) {
    let transaction = db.begin_write().unwrap();
    {
        let mut table = transaction.open_table(EPISODES).unwrap();
        let value = change(table.get(id.as_bytes()).unwrap().unwrap().value());
        table.insert(id.as_bytes(), value.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
#[ignore = "writes files for tests/data/homes/make.py"]
fn make_strange_homes() {
    let root = std::env::var_os("STRANGE_HOMES").expect("STRANGE_HOMES names the directory to fill");
    let root = Path::new(&root);
    for number in [NEVER, NEWER] {
        let (db, _) = home(root, &format!("store-{number}"));
        set_meta(&db, META_FORMAT, number);
        set_meta(&db, META_OLDEST_READER, number);
        let (db, id) = home(root, &format!("record-{number}"));
        set_row(&db, id, |value| {
            let (_, json) = unseal("episodes", id.as_bytes(), value).unwrap();
            let mut json: serde_json::Value = serde_json::from_slice(json).unwrap();
            json["schema_version"] = number.into();
            let other = json.to_string();
            seal("episodes", id.as_bytes(), other.as_bytes())
        });
    }
    let (db, _) = home(root, "store-999-readable");
    set_meta(&db, META_FORMAT, NEWER);
    for version in [0, u8::MAX] {
        let (db, id) = home(root, &format!("value-{version}"));
        set_row(&db, id, |value| {
            let (_, body) = unseal("episodes", id.as_bytes(), value).unwrap();
            seal_version(version, "episodes", id.as_bytes(), &[body])
        });
    }
}

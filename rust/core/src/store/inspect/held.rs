//! The rows of an open store, for one that has no file.

use super::super::Store;
use super::super::tables::{CHANGES, CWD_INDEX, EMBEDDERS, EMBEDDINGS, EPISODES, KEYS, META};
use super::super::view::{ReadView, Source, on_table};
use super::check::Checker;
use super::report::Verified;
use super::row::{Key, Table, decode};
use super::walk::TreeState;
use crate::error::Result;
use redb::{ReadableTable, ReadableTableMetadata};

/// Hands every row of one table to the checker.
macro_rules! take {
    ($view:expr, $checker:expr, $kind:ident, $definition:ident, $field:ident, $key:pat => $parsed:expr) => {
        on_table!($view, $definition, $field, table => {
            let mut state = TreeState { rows: 0, whole: true };
            for row in table.iter().map_err(|e| $view.context.fail(e))? {
                let (key, value) = row.map_err(|e| $view.context.fail(e))?;
                let $key = key.value();
                let key: Key = $parsed;
                match decode(Table::$kind, &key, value.value()) {
                    Ok(row) => $checker.row(key, &row),
                    Err(fault) => $checker.bad_row(Table::$kind, Some(&key), "", &fault),
                }
                state.rows += 1;
            }
            let said = table.len().map_err(|e| $view.context.fail(e))?;
            $checker.table(Table::$kind, said, state);
        })
    };
}

impl Store {
    /// Checks every row of the open store against every other, in one snapshot; the file itself is not looked at.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub fn verify_rows(&self) -> Result<Verified> {
        let bytes = self.file_len()?;
        self.read(|view| {
            let mut checker = Checker::default();
            gather(view, &mut checker)?;
            let records = checker.finish();
            Ok(Verified { records, vectors: checker.vectors, problems: checker.problems, bytes, held_ms: 0 })
        })
    }
}

/// In the order of [`Table::ALL`].
fn gather(view: &ReadView<'_>, checker: &mut Checker) -> Result<()> {
    take!(view, checker, Meta, META, meta, name => Key::Meta(name.to_owned()));
    take!(view, checker, Changes, CHANGES, changes, sequence => Key::Change(sequence));
    take!(view, checker, Episodes, EPISODES, episodes, id => Key::Episode(*id));
    take!(view, checker, Keys, KEYS, keys, (scope, key) => Key::Name(scope.to_owned(), key.to_owned()));
    take!(view, checker, CwdIndex, CWD_INDEX, cwd_index, (dir, id) => Key::Dir(dir.to_owned(), *id));
    take!(view, checker, Embedders, EMBEDDERS, embedders, number => Key::Embedder(number));
    take!(view, checker, Embeddings, EMBEDDINGS, embeddings, (embedder, id, number) => Key::Part(embedder, *id, number));
    Ok(())
}

//! The last commit of a file whose header does not lead to it.

use super::super::tables;
use super::pages::{Definition, Node, PAGE, PageRef, Pages, Root, hash};
use super::row::{Key, Row, Table, decode};
use super::walk::{Shape, Walk};
use std::io;

/// The tree of tables with the largest number of changes that can be read, of several a whole one. Whether a later
/// commit was in pages that are lost, only changes with larger numbers tell.
pub(super) fn last_commit(
    pages: &mut Pages,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<Option<Root>> {
    let all = pages.file_len();
    // Most trees are of earlier commits and were written over: one flipped bit is searched for in the right one only.
    let budget = pages.stop_mending();
    let found = search(pages, &mut |done, _| progress(done.min(all), all));
    pages.mend_again(budget);
    found
}

fn search(
    pages: &mut Pages,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<Option<Root>> {
    let all = pages.file_len();
    let mut roots = Vec::new();
    pages.each_leaf(&mut |done| progress(done, all), &mut |offset, bytes| {
        roots.extend(tree_of_tables(offset, bytes));
        Ok(())
    })?;
    let mut found = Vec::new();
    for (root, tables) in roots {
        if let Some(sequence) = last_sequence(pages, progress, &tables)? {
            let rows = tables.iter().map(|table| table.rows).sum::<u64>();
            found.push((sequence, rows, root, tables));
        }
    }
    found.sort_by_key(|(sequence, rows, root, _)| std::cmp::Reverse((*sequence, *rows, root.page.offset)));
    let Some((last, _, newest, _)) = found.first() else { return Ok(None) };
    for (sequence, _, root, tables) in &found {
        if sequence == last && is_whole(pages, progress, tables)? {
            return Ok(Some(*root));
        }
    }
    Ok(Some(*newest))
}

fn tree_of_tables(offset: u64, bytes: &[u8]) -> Option<(Root, Vec<Definition>)> {
    let node = Node::of(bytes, None, None)?;
    let end = node.end()?;
    let Node::Leaf(leaf) = node else { return None };
    let definitions: Option<Vec<_>> = (0..leaf.count())
        .map(|n| leaf.row(n).and_then(|(key, value)| Definition::parse(&bytes[key], &bytes[value])))
        .collect();
    let definitions = definitions?;
    let is_there = |table: &Table| definitions.iter().any(|found| found.name == table.name());
    Table::ALL.iter().all(is_there).then(|| {
        let page = PageRef { offset, len: PAGE };
        (Root { page, sum: hash(&bytes[..end]), rows: leaf.count() as u64 }, definitions)
    })
}

fn last_sequence(
    pages: &mut Pages,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
    tables: &[Definition],
) -> io::Result<Option<u64>> {
    let Some(meta) = tables.iter().find(|table| table.name == Table::Meta.name()) else { return Ok(None) };
    let shape = Shape { tree: "", table: Some(Table::Meta), key: None, value: None, sure: true };
    let mut sequence = None;
    let state = Walk::new(pages, progress).tree(meta.root, shape, &mut |row| {
        if let Some(key @ Key::Meta(_)) = Key::parse(Table::Meta, row.key)
            && row.key == tables::META_LAST_SEQUENCE.as_bytes()
            && let Ok(Row::Meta(body)) = decode(Table::Meta, &key, row.value)
        {
            sequence = body.as_slice().try_into().ok().map(u64::from_le_bytes);
        }
        Ok(())
    })?;
    Ok(sequence.filter(|_| state.whole))
}

fn is_whole(
    pages: &mut Pages,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
    tables: &[Definition],
) -> io::Result<bool> {
    let mut walk = Walk::new(pages, progress);
    for table in Table::ALL {
        let found = tables.iter().find(|found| found.name == table.name());
        let Some(found) = found.filter(|found| found.key_width == table.key_width()) else {
            return Ok(false);
        };
        let shape = Shape { tree: "", table: None, key: table.key_width(), value: None, sure: true };
        if !walk.tree(found.root, shape, &mut |_| Ok(()))?.whole {
            return Ok(false);
        }
    }
    Ok(true)
}

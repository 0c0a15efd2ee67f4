//! Records that are whole and may have been forgotten, in a form that can be imported.

use super::super::failure::Context;
use super::super::rows::Embedded;
use super::lost_found::LostFound;
use super::pages::Pages;
use super::row::{Key, Row, Table, decode, id_text};
use super::salvage::{Salvage, Spot};
use crate::episode::SCHEMA_VERSION;
use crate::error::Result;
use serde_json::{Value, json};
use std::io;

/// Its name: an export without its last line, which `otolith import --partial` reads.
pub(super) const NAME: &str = "records.jsonl";

#[derive(Default)]
pub(super) struct HeldBack {
    lines: Vec<u8>,
    count: usize,
}

impl HeldBack {
    /// Adds a record with its vectors, as one line of JSON.
    pub(super) fn add(
        &mut self,
        pages: &Pages,
        salvage: &Salvage,
        context: &Context,
        (id, at): (&[u8; 16], Spot),
    ) -> Result<()> {
        let value = pages.read(at.offset, at.len).map_err(|error| context.io(error))?;
        let json = match decode(Table::Episodes, &Key::Episode(*id), &value) {
            Ok(Row::Episode(episode)) => episode.to_json()?,
            _ => return Err(context.corrupt(format!("{} changed while it was read", id_text(id)))),
        };
        let vectors = vectors(pages, salvage, id).map_err(|error| context.io(error))?;
        match json.strip_suffix(b"}") {
            Some(open) if !vectors.is_empty() => {
                self.lines.extend_from_slice(open);
                self.lines.extend_from_slice(format!(",\"vectors\":{}}}", Value::from(vectors)).as_bytes());
            }
            _ => self.lines.extend_from_slice(&json),
        }
        self.lines.push(b'\n');
        self.count += 1;
        Ok(())
    }

    pub(super) fn keep(self, salvage: &Salvage, found: &mut LostFound) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let home = salvage.home_embedder().and_then(|number| salvage.embedders.get(&number));
        let first = json!({
            "otolith": "export",
            "format": 1,
            "schema_version": SCHEMA_VERSION,
            "records": self.count,
            "home_embedder": home.map(|row| json!([row.fingerprint, row.dim])),
        });
        let bytes = [first.to_string().as_bytes(), b"\n", &self.lines].concat();
        found.keep(NAME, &bytes).map(drop)
    }
}

/// Those of a record as an export has them: for each embedder the rows of all chunks, if they are all there.
fn vectors(pages: &Pages, salvage: &Salvage, id: &[u8; 16]) -> io::Result<Vec<Value>> {
    let mut all = Vec::new();
    for (number, embedder) in &salvage.embedders {
        let (mut rows, mut next) = (Vec::new(), 0);
        for (at, _) in salvage.vectors.range((*number, *id, 0)..=(*number, *id, u32::MAX)) {
            let row = match salvage.vector(pages, at)?.map(|row| row.vector) {
                Some(Embedded::Row(row)) if row.len() == embedder.dim as usize && at.2 == next => row,
                _ => {
                    rows.clear();
                    break;
                }
            };
            rows.extend(row.iter().flat_map(|cell| cell.to_le_bytes()));
            next += 1;
        }
        if !rows.is_empty() {
            all.push(json!({"embedder": embedder.fingerprint, "dim": embedder.dim, "f32": base64(&rows)}));
        }
    }
    Ok(all)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().enumerate().fold(0, |bits, (n, byte)| bits | u32::from(*byte) << (16 - 8 * n));
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n) & 63) as usize];
            text.push(if n <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_as_in_its_standard() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xFB, 0xFF, 0x00]), "+/8A");
    }
}

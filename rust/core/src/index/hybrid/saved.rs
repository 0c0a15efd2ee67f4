//! A `HybridIndex` in a file.
//!
//! | section | what |
//! |---|---|
//! | `hyb.head` | `u64`: layout, documents, width of the vectors (0 when not known), bits of k1 and of b as `f32`, then `ef_search` and `exact_below`, each one more than it is, 0 for none |
//! | `hyb.anal` | `u8`: the id of the analyzer, as text |
//! | `hyb.text` | `u64`: one bit by document: whether it was given text |
//! | `hyb.refu` | `u32`: document, reason, two numbers for each vector that was refused |
//! | `ids.*` | the ids, a dictionary with the document of each rank and the rank of each document |
//! | `lex.*`, `vec.*`, `vgr.*` | words, vectors, and their graph if there is one, as in a segment |
//!
//! Documents are numbered in the order of their insertion, without gaps. Layout 1 had the vectors as `f32` rows in `vec.rows`
//! and the document of each in `vec.docs`; it is read.

use super::{DocIds, HybridIndex, IndexParams};
use crate::error::{Error, Result};
use crate::ids::DocId;
use crate::index::Index;
use crate::lexical::{Bm25Params, LexicalIndex, Segment};
use crate::sections::{SectionName, SectionWriter, Sections};
use crate::text::{Analyzer, AnalyzerKind, Language};
use crate::vector::{Graph, Refusal, VectorSegment};
use fixedbitset::FixedBitSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const HEAD: SectionName = SectionName::new("hyb.head");
const ANALYZER: SectionName = SectionName::new("hyb.anal");
const TEXTS: SectionName = SectionName::new("hyb.text");
const REFUSED: SectionName = SectionName::new("hyb.refu");
const LAYOUT: u64 = 2;
/// Vectors of layout 1.
const FLOAT_ROWS: SectionName = SectionName::new("vec.rows");
const FLOAT_DOCS: SectionName = SectionName::new("vec.docs");

impl HybridIndex {
    /// Writes the index to a file, compacted, in place of what is there: beside it first, synced, then renamed, so that
    /// the file is the old or the new one whatever happens.
    ///
    /// # Errors
    /// [`Error::Store`] when it cannot be written, [`Error::IndexCorrupt`] when the file it was loaded from is damaged;
    /// then the file is as it was.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.check_source()?;
        let failed = |error: io::Error| Error::Store {
            path: path.to_owned(),
            message: format!("cannot be written: {error}; nothing was changed, save to another place"),
            source: Some(error),
        };
        let draft = draft(path).ok_or_else(|| Error::store(path, "is not the path of a file; give one"))?;
        let written = self.write(&draft, path, failed);
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn write(&self, draft: &Path, path: &Path, failed: impl Fn(io::Error) -> Error + Copy) -> Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).open(draft).map_err(failed)?;
        let mut out = SectionWriter::new(BufWriter::with_capacity(1 << 20, &file)).map_err(failed)?;
        let (numbers, count) = self.numbers();
        self.index.lexical().write(&mut out, &numbers, count)?.map_err(failed)?;
        let write = || -> io::Result<()> {
            let docs: Vec<DocId> = self.index.live().ones().map(|doc| DocId(doc as u32)).collect();
            let vectors = self.index.vectors();
            VectorSegment::write(&mut out, vectors.dim(), count, |doc| vectors.rows_of(docs[doc.index()]))?;
            if let Some(graph) = vectors.graph_in_order() {
                graph.write(&mut out)?;
            }
            self.ids.write(&mut out, &numbers, count)?;
            let mut texts = vec![0_u64; docs.len().div_ceil(64)];
            for (doc, at) in docs.iter().zip(0..) {
                texts[at / 64] |= u64::from(self.index.has_text(*doc)) << (at % 64);
            }
            out.section(TEXTS, &texts)?;
            let refused = self.refused.iter().flat_map(|(doc, refused)| {
                let [reason, a, b] = coded(*refused);
                [numbers[doc.index()], reason, a, b]
            });
            out.section(REFUSED, &refused.collect::<Vec<u32>>())?;
            out.section(ANALYZER, self.analyzer.id().to_string().as_bytes())?;
            let params = self.params.bm25;
            let dim = vectors.dim().unwrap_or(0) as u64;
            let constants = [params.k1().to_bits().into(), params.b().to_bits().into()];
            let [ef, exact] = [self.params.ef_search, self.params.exact_below].map(numbered);
            out.section(HEAD, &[LAYOUT, u64::from(count), dim, constants[0], constants[1], ef, exact])?;
            out.finish()?.flush()?;
            file.sync_all()?;
            fs::rename(draft, path)?;
            sync_parent(path)
        };
        write().map_err(failed)
    }

    /// The index in a file that [`HybridIndex::save`] wrote. Words and ids stay in the file and are mapped: what is not
    /// searched is not read.
    ///
    /// # Errors
    /// [`Error::Store`] when it cannot be read or was made with another analyzer, [`Error::IndexCorrupt`] when it is cut
    /// short or damaged, [`Error::FormatTooNew`].
    pub fn load(path: &Path) -> Result<Self> {
        Self::open(path).map_err(|error| match error {
            Error::StoreCorrupt { path, detail } => Error::IndexCorrupt { path, detail },
            Error::Store { path, source: Some(error), .. } => Error::Store {
                message: format!(
                    "cannot be read: {error}; give the path of a file that HybridIndex.save wrote"
                ),
                path,
                source: Some(error),
            },
            other => other,
        })
    }

    fn open(path: &Path) -> Result<Self> {
        let sections = Sections::open(path)?;
        sections.will_need([HEAD, ANALYZER, TEXTS, REFUSED].into_iter().chain(DocIds::SECTIONS));
        for name in [HEAD, ANALYZER, TEXTS, REFUSED] {
            sections.check(name)?;
        }
        let head = sections.array::<u64>(HEAD)?;
        let &[layout, count, dim, k1, b, ref more @ ..] = &head[..] else {
            return Err(sections.corrupt("its head"));
        };
        if layout > LAYOUT {
            let what = path.display().to_string();
            return Err(Error::FormatTooNew { what, found: layout, supported: LAYOUT });
        }
        let analyzer = analyzer(&sections)?;
        let constant = |bits: u64| f32::from_bits(bits as u32);
        let bm25 =
            Bm25Params::new(constant(k1), constant(b)).map_err(|_| sections.corrupt("its constants"))?;
        let (analyzer, language) = (analyzer.kind(), analyzer.language());
        // Files of before there were graphs end here.
        let [ef_search, exact_below] =
            [0, 1].map(|at| more.get(at).and_then(|number| usize::try_from(number.checked_sub(1)?).ok()));
        let params = IndexParams { bm25, analyzer, language, ef_search, exact_below };
        let segment = Segment::open(&sections)?;
        let count = u32::try_from(count).ok().filter(|count| *count == segment.num_docs());
        let count = count.ok_or_else(|| sections.corrupt("counts other documents than it holds"))?;
        let texts = texts(&sections, count)?;
        let dim = usize::try_from(dim).ok().filter(|dim| *dim > 0);
        let mut index = Self { ids: DocIds::open(&sections, count as usize)?, ..Self::new(dim, params)? };
        index.index = Index::of_words(LexicalIndex::of_segment(bm25, segment, &texts), dim, count, texts);
        if layout > 1 {
            index.map_vectors(&sections)?;
        } else if let Some(dim) = dim.filter(|_| sections.has(FLOAT_ROWS)) {
            index.load_floats(&sections, dim)?;
        }
        index.source = Some(sections.clone());
        for entry in sections.array::<u32>(REFUSED)?.as_chunks::<4>().0 {
            let [doc, reason, a, b] = *entry;
            if let Some(refused) = refusal(reason, a, b).filter(|_| doc < count) {
                index.refused.insert(DocId(doc), refused);
            }
        }
        Ok(index)
    }

    /// Vectors stay in the file until a document is given another one.
    fn map_vectors(&mut self, sections: &Sections) -> Result<()> {
        let Some(vectors) = VectorSegment::open(sections)? else { return Ok(()) };
        let graph = Graph::open(sections)?;
        let unfit = |_| sections.corrupt("holds vectors of another width than its head says");
        self.index.map_vectors(vectors.with_graph(graph)).map_err(unfit)
    }

    /// Vectors of layout 1.
    fn load_floats(&mut self, sections: &Sections, dim: usize) -> Result<()> {
        for name in [FLOAT_ROWS, FLOAT_DOCS] {
            sections.check(name)?;
        }
        let (rows, docs) = (sections.array::<f32>(FLOAT_ROWS)?, sections.array::<u32>(FLOAT_DOCS)?);
        let max_doc = self.index.max_doc() as u32;
        if docs.len().checked_mul(dim) != Some(rows.len()) || docs.iter().any(|doc| *doc >= max_doc) {
            return Err(sections.corrupt("its vectors do not fit their head"));
        }
        let unfit = |_| sections.corrupt("holds a vector that cannot be searched");
        let mut rows = rows.chunks_exact(dim);
        for docs in docs.chunk_by(|a, b| a == b) {
            let rows: Vec<&[f32]> = rows.by_ref().take(docs.len()).collect();
            self.index.set_vectors(DocId(docs[0]), &rows).map_err(unfit)?;
        }
        Ok(())
    }
}

/// A setting in a number: 0 for none.
fn numbered(setting: Option<usize>) -> u64 {
    setting.map_or(0, |setting| (setting as u64).saturating_add(1))
}

/// A name beside the file that nobody else has.
fn draft(path: &Path) -> Option<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name()?.to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_nanos());
    Some(path.with_file_name(format!(".{name}.{}-{count}-{time:x}", std::process::id())))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(parent)?.sync_all() } else { Ok(()) }
}

/// The analyzer that the words came from, if this version has it.
fn analyzer(sections: &Sections) -> Result<Analyzer> {
    let name = sections.array::<u8>(ANALYZER)?;
    let plain = Analyzer::new(AnalyzerKind::Plain, Language::Off);
    let known = Language::ALL.iter().map(|language| Analyzer::new(AnalyzerKind::Default, *language));
    let mut known = known.chain([plain]);
    let found = known.find(|analyzer| analyzer.id().to_string().as_bytes() == &name[..]);
    found.ok_or_else(|| {
        let name = String::from_utf8_lossy(&name);
        let message = format!(
            "its words were made by analyzer {name}, this version has {} and {}; build it again from the documents",
            Analyzer::default().id(),
            plain.id()
        );
        Error::store(sections.path(), message)
    })
}

/// The documents without text, of `count`.
fn texts(sections: &Sections, count: u32) -> Result<FixedBitSet> {
    let blocks = sections.array::<u64>(TEXTS)?;
    if blocks.len() != (count as usize).div_ceil(64) {
        return Err(sections.corrupt("tells of other documents than it holds which have text"));
    }
    let mut without = FixedBitSet::with_capacity(count as usize);
    for doc in 0..count as usize {
        without.set(doc, blocks[doc / 64] >> (doc % 64) & 1 == 0);
    }
    Ok(without)
}

fn coded(refused: Refusal) -> [u32; 3] {
    match refused {
        Refusal::Zero => [1, 0, 0],
        Refusal::NotFinite => [2, 0, 0],
        Refusal::Width { expected, found } => [3, expected as u32, found as u32],
        Refusal::Size { found } => [4, found as u32, 0],
    }
}

fn refusal(reason: u32, a: u32, b: u32) -> Option<Refusal> {
    match reason {
        1 => Some(Refusal::Zero),
        2 => Some(Refusal::NotFinite),
        3 => Some(Refusal::Width { expected: a as usize, found: b as usize }),
        4 => Some(Refusal::Size { found: a as usize }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Search;

    /// Files of before there were codes and halves hold rows of floats.
    #[test]
    fn a_file_of_layout_1_gives_the_same_answers() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("new"), folder.path().join("old"));
        let mut index = HybridIndex::new(None, IndexParams::default()).unwrap();
        let rows = [[0.6_f32, 0.8, 0.0], [0.1, -0.7, 0.4], [0.0, 0.0, 1.0]];
        for (row, id) in rows.iter().zip(["a", "b", "c"]) {
            let doc = index.prepare(&[("text", "pool")]);
            index.insert(id, Some(&doc), (id != "b").then_some(&row[..])).unwrap();
        }
        index.save(&path).unwrap();
        let sections = Sections::open(&path).unwrap();
        let mut out = SectionWriter::new(File::create(&old).unwrap()).unwrap();
        for (name, _) in sections.sizes() {
            if name == HEAD {
                let mut head = sections.array::<u64>(HEAD).unwrap().to_vec();
                head[0] = 1;
                out.section(HEAD, &head).unwrap();
            } else if !name.to_string().starts_with("vec.") {
                out.section(name, &sections.array::<u8>(name).unwrap()[..]).unwrap();
            }
        }
        out.section(FLOAT_ROWS, &[rows[0], rows[2]].concat()).unwrap();
        out.section(FLOAT_DOCS, &[0_u32, 2]).unwrap();
        out.finish().unwrap();
        let ask = Search { vector: Some(&[0.3, 0.4, -0.5]), ..Search::default() };
        let hits = |index: &HybridIndex| format!("{:?}", index.search(&ask).unwrap());
        let loaded = HybridIndex::load(&old).unwrap();
        assert_eq!(hits(&loaded), hits(&index));
        assert_eq!(loaded.vectorized(), 2);
    }
}

//! `Analyzer`: how text becomes terms, and where they stand in it.

use crate::convert::{mapping, text};
use crate::door;
use crate::record;
use otolith_core::text as core;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ops::Range;

/// The analyzer of these names, each with its default.
pub(crate) fn read(
    name: Option<&Bound<'_, PyAny>>,
    language: Option<&Bound<'_, PyAny>>,
) -> PyResult<core::Analyzer> {
    let kind = name.map(|name| text::parsed("analyzer", name)).transpose()?;
    let language = language.map(|language| text::parsed("language", language)).transpose()?;
    Ok(core::Analyzer::new(kind.unwrap_or_default(), language.unwrap_or_default()))
}

/// A table of synonyms: words, each with a list of words.
pub(crate) fn synonyms(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Vec<String>)>> {
    let entry = |(word, names): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let word = text::text(field, &word)?.to_owned();
        let names = text::texts(&format!("{field}.{word}"), &names)?;
        Ok((word, names))
    };
    mapping::entries(field, value)?.into_iter().map(entry).collect()
}

/// Ranges of bytes, in order and apart from each other, as pairs of character numbers.
pub(crate) fn in_characters(text: &str, spans: &[Range<usize>]) -> Vec<(usize, usize)> {
    let (mut bytes, mut characters) = (0, 0);
    let mut character = |at: usize| {
        characters += text.get(bytes..at).map_or(0, |between| between.chars().count());
        bytes = at;
        characters
    };
    spans.iter().map(|span| (character(span.start), character(span.end))).collect()
}

/// Turns text into the terms that are searched. `Memory` and `HybridIndex` have one; make one to see what finds what.
///
/// Args:
///     name: `default`, or `plain`: case-folded words and nothing else, for comparison with other engines.
///     language: Whose words are stemmed, by Snowball's name, or `off`; nothing to `plain`, where it is always `off`.
///
/// Raises:
///     InvalidInput: There is no such analyzer or language.
#[pyclass(frozen, eq, hash, module = "otolith")]
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub(crate) struct Analyzer(pub(crate) core::Analyzer);

impl Analyzer {
    const FIELDS: [&str; 2] = ["name", "language"];
}

#[pymethods]
impl Analyzer {
    #[new]
    #[pyo3(signature = (name=None, language=None), text_signature = "(name='default', language='english')")]
    fn new(name: Option<&Bound<'_, PyAny>>, language: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        read(name, language).map(Self)
    }

    /// Which pipeline: `default` or `plain`.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.kind().name()
    }

    /// Whose words are stemmed, or `off`.
    #[getter]
    fn language(&self) -> &'static str {
        self.0.language().name()
    }

    /// Name, language and version of the rules: terms of another id are not comparable.
    #[getter]
    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// The terms of a document, in the order of the text. One that begins with `=` is a word as it is written, beside its
    /// stem.
    ///
    /// Args:
    ///     text: Any text.
    fn terms(&self, text: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let (py, text) = (text.py(), text::text("text", text)?);
        door::run(py, || {
            let mut terms = Vec::new();
            self.0.document(text, &mut |term, _| terms.push(term.to_owned()));
            Ok(terms)
        })
    }

    /// Where a text holds what a question asks for, for highlighting.
    ///
    /// Args:
    ///     text: Any text.
    ///     query: The question.
    ///
    /// Returns:
    ///     Pairs (start, end) for `text[start:end]`, in order, none touching another. Each is whole characters as people see
    ///     them: a letter with its accents, an emoji with its skin tone.
    fn spans(&self, text: &Bound<'_, PyAny>, query: &Bound<'_, PyAny>) -> PyResult<Vec<(usize, usize)>> {
        let (py, text, query) = (text.py(), text::text("text", text)?, text::text("query", query)?);
        door::run(py, || Ok(in_characters(text, &self.0.spans(text, &self.0.query(query)))))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    fn _from_state(name: &Bound<'_, PyAny>, language: &Bound<'_, PyAny>) -> PyResult<Self> {
        read(Some(name), Some(language)).map(Self)
    }
}

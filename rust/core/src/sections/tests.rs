use super::*;
use crate::error::Error;
use proptest::prelude::*;
use std::io::Write;

const LENGTHS: SectionName = SectionName::new("lengths");
const NAMES: SectionName = SectionName::new("names");
const EMPTY: SectionName = SectionName::new("empty");

fn file() -> Vec<u8> {
    let mut writer = SectionWriter::new(Vec::new()).unwrap();
    writer.section(LENGTHS, &[1u32, 2, u32::MAX]).unwrap();
    let names =
        |out: &mut Pieces<'_, _, u8>| [&b"abc"[..], b"", b"defg"].iter().try_for_each(|piece| out.put(piece));
    writer.pieces(NAMES, names).unwrap();
    writer.section::<u64>(EMPTY, &[]).unwrap();
    writer.finish().unwrap()
}

#[test]
fn arrays_come_back_from_a_map_and_from_memory() {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(&file()).unwrap();
    for sections in [Sections::open(written.path()).unwrap(), Sections::from_bytes(&file()).unwrap()] {
        let lengths = sections.array::<u32>(LENGTHS).unwrap();
        assert_eq!(lengths[..], [1, 2, u32::MAX]);
        assert_eq!(lengths.as_ptr().addr() % 64, 0);
        assert_eq!(sections.array::<u8>(NAMES).unwrap()[..], *b"abcdefg");
        assert!(sections.array::<u64>(EMPTY).unwrap().is_empty());
        sections.check_all().unwrap();
        assert_eq!(sections.len(), file().len());
        assert_eq!(sections.sizes().map(|(_, size)| size).collect::<Vec<_>>(), [12, 7, 0]);
        assert!(sections.has(NAMES) && !sections.has(SectionName::new("other")));
        let error = sections.array::<u64>(LENGTHS).unwrap_err().to_string();
        assert!(error.contains("section lengths of 12 bytes"), "{error}");
        drop(sections);
        assert_eq!(lengths[0], 1, "an array keeps its file");
    }
}

#[test]
fn a_newer_layout_is_refused_by_name() {
    let mut bytes = file();
    bytes[8] = 2;
    assert!(matches!(Sections::from_bytes(&bytes), Err(Error::FormatTooNew { found: 2, supported: 1, .. })));
}

proptest! {
    /// Every cut and every flipped byte is a typed error at open or at the check, or changes nothing that is read.
    #[test]
    fn damage_is_found(cut in any::<proptest::sample::Index>(), at in any::<proptest::sample::Index>(), flip in 1..=255u8) {
        let whole = file();
        let (cut, at) = (cut.index(whole.len()), at.index(whole.len()));
        let refused = matches!(Sections::from_bytes(&whole[..cut]), Err(Error::StoreCorrupt { .. }));
        prop_assert!(refused);
        let mut bytes = whole;
        bytes[at] ^= flip;
        match Sections::from_bytes(&bytes) {
            Err(error) => {
                let typed = matches!(error, Error::StoreCorrupt { .. } | Error::FormatTooNew { .. });
                prop_assert!(typed, "{}", error);
            }
            Ok(sections) if sections.check_all().is_ok() => {
                prop_assert_eq!(&sections.array::<u32>(LENGTHS).unwrap()[..], [1, 2, u32::MAX]);
                prop_assert_eq!(&sections.array::<u8>(NAMES).unwrap()[..], *b"abcdefg");
            }
            Ok(_) => {}
        }
    }
}

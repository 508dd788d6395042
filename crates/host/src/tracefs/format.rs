//! What the kernel says of its own records: `events/SYSTEM/NAME/format` and `events/header_page`.
//!
//! ```text
//! ID: 2097
//!  field:sector_t sector; offset:16; size:8; signed:0;
//! ```
//!
//! Offsets differ between kernels (`rwbs` had 8 bytes, then 10), so nothing is read by an offset of ours.

/// The fields of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// The number that opens each record of this event; of the page header there is none.
    pub id: Option<u16>,
    fields: Vec<(String, Field)>,
}

/// Where a field lies in its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the beginning of the record.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

impl Format {
    /// Reads the text of such a file. Lines that are no fields are passed over.
    pub fn parse(text: &str) -> Format {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        Format { id, fields: text.lines().filter_map(field).collect() }
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

/// One line, if it describes a field: `field:char rwbs[10]; offset:28; size:10; signed:0;`.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let name = declared.rsplit([' ', '*']).next()?;
    let name = name.split('[').next().filter(|name| !name.is_empty())?.to_owned();
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            _ => {}
        }
    }
    Some((name, Field { offset: offset?, size: size? }))
}

impl Field {
    /// The number in this field of a record; `None` if the record is shorter, or the field no number.
    #[inline]
    pub fn number(&self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        Some(match bytes.len() {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The bytes of this field; `None` if the record is shorter.
    #[inline]
    pub fn bytes<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 prints it.
    pub(crate) const QUEUE: &str = "name: block_bio_queue\nID: 2097\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%d,%d %s %llu + %u [%s]\", REC->field:x; offset:1; size:1;\n";

    #[test]
    fn fields_are_found_by_their_names_whatever_their_types() {
        let format = Format::parse(QUEUE);
        assert_eq!(format.id, Some(2097));
        assert_eq!(format.field("sector"), Some(Field { offset: 16, size: 8 }));
        assert_eq!(format.field("rwbs"), Some(Field { offset: 28, size: 10 }));
        assert_eq!(format.field("cmd"), Some(Field { offset: 60, size: 4 }));
        assert_eq!(format.field("print"), None);
        let header = Format::parse("\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n");
        assert_eq!((header.id, header.field("commit")), (None, Some(Field { offset: 8, size: 8 })));
    }

    #[test]
    fn a_number_is_read_only_where_there_is_one() {
        let record: Vec<u8> = (0..12).collect();
        assert_eq!(Field { offset: 4, size: 4 }.number(&record), Some(u64::from(u32::from_ne_bytes([4, 5, 6, 7]))));
        assert_eq!(Field { offset: 9, size: 4 }.number(&record), None, "it reaches beyond the record");
        assert_eq!(Field { offset: 0, size: 3 }.number(&record), None, "no number has three bytes");
        assert_eq!(Field { offset: usize::MAX, size: 4 }.number(&record), None);
    }
}

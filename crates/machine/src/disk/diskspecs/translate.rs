//! DiskSim's parameters into ours, one by one.
//!
//! ```text
//!   block        a block of a file, and which of its parameters have been asked for
//!   value        what stands there into what we write
//!   layout       surfaces, zones, skews, spares
//!   mechanics    rotation and arm
//!   controller   buffer, read-ahead, writes, overheads, bus, queue
//! ```

mod block;
mod controller;
mod layout;
mod mechanics;
mod value;

use std::sync::Arc;

use super::syntax::{self, Block, Item};
use super::{ImportError, Imported, Role, Text, Trouble};
use crate::part::{Part, Table};
use block::Params;
use controller::controller;
use layout::layout;
use mechanics::mechanics;

pub(super) fn drive(
    specs: &Text,
    find: &mut dyn FnMut(Role, &str) -> Result<Text, String>,
) -> Result<Imported, ImportError> {
    let file: Arc<str> = Arc::from(specs.name.as_str());
    let block = only(&file, syntax::parse(&file, &specs.text)?, "disksim_disk")?;
    let disk = Params::new(&file, &block);
    let mut notes = Vec::new();
    let mut values = Table::new(disk.place(block.line)).sourced(format!("DiskSim drive files of {}", block.name));

    // The model may stand in the same file or in one of its own.
    let model_entry = disk.entry("Model")?;
    let fetched;
    let (model_file, model_block) = match &model_entry.item {
        Item::Block(block) => (Arc::clone(&file), block),
        Item::Source(name) => {
            let text = find(Role::Model, name)
                .map_err(|error| disk.at(model_entry.line, Trouble::NoFile { role: Role::Model, error }))?;
            let model_file: Arc<str> = Arc::from(text.name.as_str());
            fetched = only(&model_file, syntax::parse(&model_file, &text.text)?, "dm_disk")?;
            (model_file, &fetched)
        }
        _ => return Err(disk.wrong(model_entry, "'source FILE' or a dm_disk block")),
    };
    let model = Params::new(&model_file, model_block);
    layout(&model, &mut values, &mut notes)?;
    mechanics(&model, &mut values, &mut notes, find)?;
    model.unused(&mut notes);
    controller(&disk, &mut values, &mut notes)?;
    disk.unused(&mut notes);

    let name = block.name.trim_end_matches("_validate").replace('_', " ");
    let part = Part { kind: "disk".into(), name, status: "measured".into(), note: String::new(), values };
    Ok(Imported { part, notes })
}

fn only(file: &Arc<str>, blocks: Vec<Block>, wanted: &'static str) -> Result<Block, ImportError> {
    let error = |line, trouble| ImportError { file: Arc::clone(file), line, trouble };
    let mut found: Vec<Block> = blocks.into_iter().filter(|block| block.kind == wanted).collect();
    match found.len() {
        0 => Err(error(1, Trouble::NoBlock { wanted })),
        1 => Ok(found.remove(0)),
        _ => {
            let names: Vec<&str> = found.iter().map(|block| block.name.as_str()).collect();
            Err(error(found[1].line, Trouble::Several { names: names.join(", ") }))
        }
    }
}

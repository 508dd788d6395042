//! What a node of a machine holds, and what each kind of part tells the rest of the machine.
//!
//! A kind of part is one file: parameters, how it is built on the node above it, what it does, what it counts, and
//! which values make it fast. [`Kind`] is the summary of that for the rest of the machine; [`crate::kinds`] lists all
//! of them. Two interfaces carry everything else: an [`Endpoint`] carries out commands, a [`Route`] is the way of
//! packets from a node to memory.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use runtime::Runtime;
use units::{Duration, Rate};

use crate::backplane::Backplane;
use crate::endpoint::Endpoint;
use crate::flow::Flows;
use crate::load::Gauges;
use crate::packet::route::Route;
use crate::packet::sas::Port;
use crate::part::{Part, PartError, Problem, Reader};
use crate::trace::Trace;
use crate::tree::Written;

/// A kind of part that can stand in a tree.
pub struct Kind {
    /// As part files name it.
    pub name: &'static str,
    /// Kinds that it stands on; none for a root.
    pub on: &'static [&'static str],
    /// What the ladder calls its limits, and the values that make it fast under each.
    pub fast: &'static [Fast],
    /// Makes one.
    pub build: fn(&Site) -> Result<Rc<dyn Component>, PartError>,
}

/// Values that make a part fast.
pub struct Fast {
    /// What limits if they do. Several kinds may name one: what a string takes for a command is set by the disks on it,
    /// too.
    pub limit: &'static str,
    /// Their paths in the part.
    pub values: &'static [&'static str],
}

/// What stands in a node.
pub trait Component: Any {
    /// Writes down what it has done since the start of the machine.
    fn gauges(&self, gauges: &mut Gauges) {
        let _ = gauges;
    }
    /// The places for what stands on it, if they are counted.
    fn places(&self) -> Option<Places> {
        None
    }
    /// How much of reads it passes towards memory at most, if it bounds that: without pauses, waits or anything else
    /// that it may have to do.
    fn rate(&self) -> Option<Rate> {
        None
    }
    /// The way of packets from it to memory, if it carries packets.
    fn route(&self) -> Option<&Route> {
        None
    }
    /// What SAS drives are plugged into, if it has that.
    fn port(&self) -> Option<&Port> {
        None
    }
    /// The kind of a part without which it has nothing to do, and which has to stand in its host.
    fn needs(&self) -> Option<&'static str> {
        None
    }
    /// What it is to whoever sends commands, if it carries them out.
    fn endpoint(self: Rc<Self>) -> Option<Rc<dyn Endpoint>> {
        None
    }
    /// It as the owner of the drives behind it, if it takes them for itself: the host then sees none of them.
    fn owner(self: Rc<Self>) -> Option<Rc<dyn Owner>> {
        None
    }
}

/// Who has drives of its own.
pub trait Owner {
    /// Takes them, in the order of the file, when all nodes have been built. Says why it cannot work with them.
    fn adopt(self: Rc<Self>, drives: Vec<(Arc<str>, Rc<dyn Endpoint>)>) -> Result<(), String>;
}

/// The places on a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// The key that gives one in the system's file, one of `slot`, `channel`, `target` and `port`.
    pub key: &'static str,
    /// How many; they count from 0.
    pub count: u32,
    /// One that the part itself takes.
    pub taken: Option<u32>,
}

/// A node of a machine.
pub struct TreeNode {
    /// Its name.
    pub name: Arc<str>,
    /// The name of its part; of a part's own file that of the file without `.toml`.
    pub part: String,
    /// The kind of its part.
    pub kind: &'static Kind,
    /// The index of the node above it.
    pub above: Option<usize>,
    pub(crate) stands: Rc<dyn Component>,
}

impl TreeNode {
    /// The part in this node, if it is of this type.
    pub fn get<T: Component>(&self) -> Option<Rc<T>> {
        let any: Rc<dyn Any> = Rc::clone(&self.stands) as Rc<dyn Any>;
        any.downcast().ok()
    }
}

/// Where a part is built: what it is told, and what it may ask.
pub struct Site<'b> {
    /// The machine's clock.
    pub runtime: &'b Runtime,
    /// What its parts share.
    pub flows: &'b Flows,
    /// Its spans.
    pub trace: &'b Trace,
    /// Decides everything that is random in it.
    pub seed: u64,
    /// The node's name.
    pub name: &'b Arc<str>,
    /// The node's part.
    pub part: &'b Part,
    /// The place on the node above; 0 where places are not counted.
    pub place: u32,
    pub(crate) written: &'b Written<'b>,
    pub(crate) above: Option<&'b TreeNode>,
}

impl Site<'_> {
    /// The part's parameters; a value that nobody asks for is refused.
    pub fn parameters<T>(&self, read: impl FnOnce(&Reader) -> Result<T, PartError>) -> Result<T, PartError> {
        let reader = self.part.reader(&self.part.kind)?;
        let parameters = read(&reader)?;
        reader.done()?;
        Ok(parameters)
    }

    /// Whether the node above is of that kind.
    pub fn is_on(&self, kind: &str) -> bool {
        self.above.is_some_and(|above| above.kind.name == kind)
    }

    /// What stands in the node above, if it is of this type.
    pub fn find<T: Component>(&self) -> Option<Rc<T>> {
        self.above?.get()
    }

    /// What stands in the node above.
    ///
    /// # Panics
    /// If it is of another type: the kind says what it stands on.
    pub fn on<T: Component>(&self) -> Rc<T> {
        self.find().expect("a kind says what it stands on, and the tree keeps to it")
    }

    /// The way of packets from the node above to memory.
    pub fn route(&self) -> Option<&Route> {
        self.above?.stands.route()
    }

    /// For how long the host's processor stands still while it writes a word to a register of what stands here. Behind
    /// links of packets it does not wait.
    pub fn register_word(&self) -> Duration {
        self.find::<Backplane>().map_or(Duration::ZERO, |bus| bus.parameters.register_access)
    }

    /// What the node above has for SAS drives.
    ///
    /// # Panics
    /// If it has nothing of that: the kind says what it stands on.
    pub fn sas_port(&self) -> &Port {
        let port = self.above.and_then(|above| above.stands.port());
        port.expect("a kind says what it stands on, and the tree keeps to it")
    }

    /// Says that the node cannot stand here.
    pub fn fault(&self, key: &str, message: String) -> PartError {
        self.written.reader.fault(key, Problem::Contradiction(message))
    }
}

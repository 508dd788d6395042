//! A device that does nothing, at once: what remains is the cost of the generator.

use runtime::Runtime;

use crate::{Device, Reply, Request, Shape, Stamps};

/// Reads give what the buffer held, writes are dropped.
pub struct NullDevice {
    runtime: Runtime,
    shape: Shape,
}

impl NullDevice {
    /// A device of the given shape without contents.
    pub fn new(runtime: &Runtime, shape: Shape) -> NullDevice {
        NullDevice { runtime: runtime.clone(), shape }
    }
}

impl Device for NullDevice {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, submitted);
        }
        self.runtime.yield_now().await;
        // It takes no time: what passes until the caller goes on is the generator's, and shows as the wait of its next
        // request.
        request.answer(Ok(()), Stamps { submitted, completed: submitted })
    }
}

//! Any text as a system file: a machine that can be put together, or one line that names the place; never a panic.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use machine::capacity::{capacities, narrowest};
use machine::kit::Kit;
use machine::part::Part;
use machine::trace::Trace;
use runtime::Runtime;

thread_local! {
    static KIT: RefCell<Kit> = RefCell::new(Kit::load("nvme-24").expect("it comes with the program"));
}

fuzz_target!(|text: &str| {
    KIT.with_borrow_mut(|kit| match Part::parse("system", text) {
        Ok(system) => {
            kit.system = system;
            match kit.build(&Runtime::simulated(), 1, &Trace::default()) {
                Ok(machine) => {
                    assert_eq!(capacities(&machine).len(), machine.nodes().len());
                    assert_eq!(narrowest(&machine).is_none(), machine.drives().is_empty());
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
});

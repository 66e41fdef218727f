//! What a panic leaves behind.
//!
//! It stops the whole instance: every request in flight in it, and every timer of Rust's. The `worker` crate installs
//! a hook that marks the instance as broken, so that the next event gets a new one; `src/entry.mjs` sees the same
//! mark and answers what was in flight. So the hook that prints the panic is chained with that one and never takes
//! its place.

use std::panic;

/// Prints panics with their stack, and leaves the rest to the hook that was there.
pub fn report() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        console_error_panic_hook::hook(info);
        previous(info);
    }));
}

/// Panics when it is asked to, at the path `/panic`: a fixture.
#[cfg(feature = "fixtures")]
#[allow(clippy::panic)]
pub fn on_demand(request: &worker::Request) {
    if request.path() == "/panic" {
        panic!("on demand, in the object");
    }
}

//! Functions that the page calls in WebAssembly, whose interface has only numbers and a shared memory. The page calls [`request`]
//! for space, writes the request there as JSON in UTF-8, calls [`answer`], and reads the returned number of bytes from the
//! address in [`response`]. The caller frees no memory: both buffers stay here until the next call. No pointer is dereferenced on
//! this side.
#![expect(unsafe_code, reason = "a function that is found by its name alone needs the attribute no_mangle")]

use crate::PageRequest;
use std::cell::RefCell;

thread_local! {
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static RESPONSE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

// SAFETY of the attributes: no other function of the program has one of these names.

/// Allocates space for a request of `bytes` bytes and returns its address.
#[unsafe(no_mangle)]
extern "C" fn request(bytes: usize) -> *mut u8 {
    REQUEST.with_borrow_mut(|request| {
        request.clear();
        request.resize(bytes, 0);
        request.as_mut_ptr()
    })
}

/// Answers the request and returns the answer's length in bytes.
#[unsafe(no_mangle)]
extern "C" fn answer() -> usize {
    let answered = REQUEST.with_borrow(|request| match serde_json::from_slice::<PageRequest>(request) {
        Ok(request) => serde_json::to_vec(&crate::answer(&request)),
        // Only a defect in the page causes an invalid request; the page shows the error.
        Err(error) => serde_json::to_vec(&serde_json::json!({ "defect": error.to_string() })),
    });
    let answered = answered.expect("the answer has string keys and finite numbers");
    RESPONSE.with_borrow_mut(|response| {
        *response = answered;
        response.len()
    })
}

#[unsafe(no_mangle)]
extern "C" fn response() -> *const u8 {
    RESPONSE.with_borrow(|response| response.as_ptr())
}

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| answerable_fuzz::tokens::tokens(data));

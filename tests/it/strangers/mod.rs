//! Nobody sees or changes what is another's: every operation of the document, asked by everybody whom it isn't for.

mod doors;
mod gone;
mod ids;
mod links;
mod namesakes;
mod operations;
mod owner;

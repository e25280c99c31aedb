//! The engine against a store, a model and a far side that do what a test tells them: refuse, hang, answer late.

mod attachments;
mod desk;
mod far_side;
mod fencing;
mod giving_back;
mod shelf;
mod storing;

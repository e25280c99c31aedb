//! The engine against a store, a model and a far side that do what a test tells them: refuse, hang, answer late.

mod allowances;
mod attachments;
mod children;
mod desk;
mod far_side;
mod fencing;
mod giving_back;
mod holding;
mod judging;
mod limits;
mod listing;
mod looking;
mod shelf;
mod storing;
mod taking_over;

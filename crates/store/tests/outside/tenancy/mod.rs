//! What parts the tenants: the laws of the schema, every query run with another tenant's ids, and a deletion that leaves
//! nothing.

mod arguments;
pub(crate) mod full;
mod gone;
mod laws;
mod privileges;
mod queries;
mod rows;
mod sql;

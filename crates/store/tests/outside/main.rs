//! What comes to runs from outside, against a real PostgreSQL: accepting, answering, deciding, settling; and the walls
//! between tenants.

mod accepting;
mod answers;
mod callers;
mod changes;
mod children;
mod commits;
mod decisions;
mod deleting;
mod deliveries;
mod files;
mod gauges;
mod given;
mod late;
mod leases;
mod mcp;
mod outliving;
mod places;
mod pruning;
mod renewing;
mod settling;
mod spans;
mod walls;
mod world;

//! What comes to runs from outside, against a real PostgreSQL: accepting, answering, deciding, settling; and the walls
//! between tenants.

mod accepting;
mod acting;
mod answers;
mod approving;
mod audit;
mod callers;
mod changes;
mod children;
mod commits;
mod decisions;
mod deleting;
mod deliveries;
mod fence;
mod files;
mod gauges;
mod given;
mod hand;
mod inbox;
mod late;
mod leases;
mod lives;
mod mcp;
mod migrating;
mod outliving;
mod places;
mod pruning;
mod renewing;
mod settling;
mod spans;
mod walls;
mod world;

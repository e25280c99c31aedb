//! What comes to runs from outside, against a real PostgreSQL: accepting, answering, deciding, settling; and the walls
//! between tenants.

mod accepting;
mod answers;
mod changes;
mod commits;
mod decisions;
mod deleting;
mod deliveries;
mod gauges;
mod given;
mod late;
mod leases;
mod outliving;
mod pruning;
mod renewing;
mod settling;
mod spans;
mod walls;
mod world;

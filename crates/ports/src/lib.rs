//! The traits at the rim of the engine: what it asks of models, tools and the store, and what they answer.
//!
//! The engine knows these and nothing of HTTP, SQL or vendors.

pub mod allowance;
pub mod blobs;
pub mod clock;
pub mod commit;
pub mod gauges;
pub mod identity;
pub mod kept;
pub mod mcp;
pub mod model;
pub mod observe;
pub mod place;
pub mod shares;
pub mod signals;
pub mod spans;
pub mod store;
pub mod tool;
pub mod workspace;

pub use allowance::{Allowance, AllowanceWanted};
pub use blobs::{BlobHash, BlobName, BlobStore};
pub use clock::Clock;
pub use commit::{Commit, CommitOutcome, Inbound, InboundBody, Release, StoredArtifact};
pub use gauges::{Gauges, Waiting};
pub use identity::{Identity, NotVouched, Vouched};
pub use kept::ArtifactsKept;
pub use mcp::{ListedTool, McpFault, McpPlace, McpServers, McpTarget, ToolSource, is_reserved_header};
pub use model::{DeltaSink, ModelProvider, ModelTarget, Patience};
pub use observe::{Committed, Observer, Started};
pub use place::{PlaceTaken, PlaceWanted, Placed};
pub use shares::{Crowded, Share, Shares};
pub use signals::{Hearing, Outgoing, OwnedInbox, Parcel, RENEW, Reply, Signal, Signals, Speaker, Words};
pub use spans::{SpanBacklog, SpanBatch, SpanOutbox};
pub use store::{Claimed, Claims, LateOutcome, Lease, LoadedRun, Renewal, Room, RunStore, StoreError, Wake};
pub use tool::{Came, PreparedCall, ToolExecutor};
pub use workspace::{
    Author, CONTENTS_AT_ONCE, CallOutcome, Change, Expected, FileAt, FilesCommitted, NewContent, Workspace,
    WorkspaceCommit, WorkspaceStore, given_at_once,
};

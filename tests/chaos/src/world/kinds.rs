//! The tools that the world has.

/// A tool, as the world and the judge know it.
#[derive(Clone, Copy, Debug)]
pub struct ToolKind {
    /// Its name, in the agent and in the path.
    pub name: &'static str,
    /// It changes something.
    pub writes: bool,
    /// The world honours `Idempotency-Key`.
    pub dedupes: bool,
    /// How long it takes, in milliseconds: at least, at most.
    pub takes_ms: (u64, u64),
}

const fn tool(name: &'static str, writes: bool, dedupes: bool, takes_ms: (u64, u64)) -> ToolKind {
    ToolKind { name, writes, dedupes, takes_ms }
}

/// All but `find_payment` and `confirm`, which does not come to the world.
pub const TOOLS: [ToolKind; 12] = [
    tool("look", false, false, (0, 40)),
    tool("slow_look", false, false, (500, 3000)),
    tool("pay", true, false, (0, 200)),
    tool("ship", true, true, (0, 200)),
    tool("slow_ship", true, true, (500, 3000)),
    tool("mail", true, false, (0, 300)),
    tool("note", true, false, (0, 300)),
    tool("bill", true, false, (0, 300)),
    tool("reserve", true, true, (50, 800)),
    tool("refund", true, false, (0, 300)),
    tool("poison", false, false, (60_000, 60_000)),
    tool(FIND, false, false, (0, 20)),
];

/// The tool that says what became of a payment.
pub const FIND: &str = "find_payment";

/// A tool by its name.
#[must_use]
pub fn kind_of(name: &str) -> Option<ToolKind> {
    TOOLS.into_iter().find(|tool| tool.name == name)
}

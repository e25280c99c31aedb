//! Agents, compiled once for all runs that have them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use answerable_core::agent::AgentSpec;
use answerable_core::registry::Registry;
use tokio::sync::OnceCell;

/// Compiled agents by their hashes; those that were not asked for longest go first. What is compiled keeps nobody waiting but
/// those who want the same.
#[derive(Debug)]
pub(crate) struct Registries {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Counts what was asked for.
    asked: u64,
    cells: HashMap<String, (u64, Cell)>,
}

type Cell = Arc<OnceCell<Arc<Registry>>>;

impl Registries {
    /// None yet; `most` of them are kept.
    pub(crate) fn of(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    /// The agent of that hash.
    pub(crate) async fn compiled(
        &self,
        hash: &str,
        spec: impl FnOnce() -> AgentSpec,
    ) -> Result<Arc<Registry>, String> {
        let cell = self.cell(hash);
        let compile = || async {
            let spec = spec();
            aside(move || compile(spec)).await.map(Arc::new)
        };
        cell.get_or_try_init(compile).await.map(Arc::clone)
    }

    fn cell(&self, hash: &str) -> Cell {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.asked += 1;
        let asked = kept.asked;
        if let Some((last, cell)) = kept.cells.get_mut(hash) {
            *last = asked;
            return Arc::clone(cell);
        }
        if kept.cells.len() >= self.most
            && let Some(oldest) =
                kept.cells.iter().min_by_key(|(_, (last, _))| *last).map(|(hash, _)| hash.clone())
        {
            kept.cells.remove(&oldest);
        }
        let cell = Cell::default();
        kept.cells.insert(hash.to_owned(), (asked, Arc::clone(&cell)));
        cell
    }
}

/// Compiles an agent: where others chose its schemas that may take seconds.
pub(crate) fn compile(spec: AgentSpec) -> Result<Registry, String> {
    Registry::compile(spec).map_err(|faults| {
        faults.first().map_or_else(String::new, |fault| format!("{}: {}", fault.pointer, fault.message))
    })
}

/// Does what takes a processor for long, so that no other task waits for it.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime goes down, and whoever waits goes with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use serde_json::{Value, json};

    fn agent(tools: Value) -> AgentSpec {
        let agent = json!({"name": "a", "model": {"provider": "p", "model": "m"}, "tools": tools});
        serde_json::from_value(agent).expect("an agent")
    }

    /// An agent whose schemas take their time.
    fn slow() -> AgentSpec {
        let tool = |n: u32| {
            let pattern = |i: u32| json!({"pattern": format!("^({n}|{i}|[^\\p{{L}}]{{1,20}})$")});
            let patterns: Value = (0..4).map(|i| (format!("p{i}"), pattern(i))).collect();
            json!({"name": format!("t{n}"), "kind": "client", "input_schema": {"properties": patterns}})
        };
        agent((0..4).map(tool).collect())
    }

    #[tokio::test]
    async fn an_agent_is_compiled_once_and_those_asked_for_last_are_kept() {
        let registries = Registries::of(2);
        let count = std::cell::Cell::new(0);
        let ask = async |hash: &str| {
            let spec = || {
                count.set(count.get() + 1);
                agent(json!([]))
            };
            registries.compiled(hash, spec).await.expect("it compiles")
        };
        let (one, same) = tokio::join!(ask("one"), ask("one"));
        assert!(Arc::ptr_eq(&one, &same) && count.get() == 1);
        ask("two").await;
        ask("one").await;
        ask("three").await;
        assert_eq!(count.get(), 3);
        ask("one").await;
        assert_eq!(count.get(), 3, "it was asked for after the other");
        ask("two").await;
        assert_eq!(count.get(), 4);
    }

    #[tokio::test]
    async fn one_that_takes_long_keeps_no_other_waiting() {
        let registries = Arc::new(Registries::of(9));
        let ours = Arc::clone(&registries);
        let first = tokio::spawn(async move { ours.compiled("slow", slow).await });
        let began = Instant::now();
        tokio::task::yield_now().await;
        registries.compiled("quick", || agent(json!([]))).await.expect("it compiles");
        let quick = began.elapsed();
        assert!(first.await.expect("no panic").is_ok());
        assert!(quick * 2 < began.elapsed(), "{quick:?} of {:?}", began.elapsed());
    }

    #[tokio::test]
    async fn what_does_not_compile_is_said_and_not_kept() {
        let registries = Registries::of(2);
        let odd = || {
            let mut agent = agent(json!([{"name": "t", "kind": "client"}]));
            agent.tools[0].input_schema = json!({"type": 5});
            agent
        };
        let fault = registries.compiled("h", odd).await.expect_err("it doesn't compile");
        assert!(fault.starts_with("/tools/0/input_schema/type"), "{fault}");
        assert!(registries.compiled("h", || agent(json!([]))).await.is_ok());
    }
}

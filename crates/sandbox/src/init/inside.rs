//! What process 1 is told, as arguments.

use std::os::fd::RawFd;

use crate::limits::Limits;
use crate::sandbox::Order;

use super::ASKED;

/// Address space that a process may have beside its memory: mapped files, and what is set aside and never used.
const SPARE_ADDRESSES: u64 = 1 << 30;

/// What process 1 of a sandbox is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) network: bool,
    pub(crate) address_space: u64,
    pub(crate) memory: u64,
    pub(crate) cpu_seconds: u64,
    pub(crate) file: u64,
    pub(crate) open_files: u64,
    pub(crate) processes: u64,
    pub(crate) command: String,
}

impl Inside {
    pub(crate) fn of(order: &Order) -> Self {
        let Limits { time, memory, processes, file, open_files, .. } = order.limits;
        Self {
            network: order.network,
            address_space: memory.saturating_add(SPARE_ADDRESSES),
            memory,
            cpu_seconds: time.as_secs() + 1,
            file,
            open_files: open_files.into(),
            processes: processes.into(),
            command: order.command.clone(),
        }
    }

    /// The arguments that [`Inside::read`] reads, the first one included.
    pub(crate) fn arguments(&self, report: &str, go: &str) -> Vec<String> {
        let numbers = [
            u64::from(self.network),
            self.address_space,
            self.memory,
            self.cpu_seconds,
            self.file,
            self.open_files,
            self.processes,
        ];
        let mut arguments = vec![ASKED.to_owned(), report.to_owned(), go.to_owned()];
        arguments.extend(numbers.map(|number| number.to_string()));
        arguments.push(self.command.clone());
        arguments
    }

    /// The numbers of the descriptors to report to and to wait on, and the rest.
    pub(super) fn read(arguments: &[String]) -> Option<(RawFd, RawFd, Self)> {
        let [report, go, numbers @ .., command] = arguments else { return None };
        let numbers: Option<Vec<u64>> = numbers.iter().map(|number| number.parse().ok()).collect();
        let [network, address_space, memory, cpu_seconds, file, open_files, processes] =
            numbers?.try_into().ok()?;
        let command = command.clone();
        let network = network == 1;
        let inside =
            Self { network, address_space, memory, cpu_seconds, file, open_files, processes, command };
        let passed = |number: &String| number.parse().ok().filter(|number| *number > 2);
        let (report, go): (RawFd, RawFd) = (passed(report)?, passed(go)?);
        (report != go).then_some((report, go, inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let order = Order { command: "echo 'a b'; --".into(), network: true, limits: Limits::default() };
        let inside = Inside::of(&order);
        let told = inside.arguments("7", "8");
        assert_eq!(told[0], ASKED);
        assert_eq!(Inside::read(&told[1..]), Some((7, 8, inside)));
        assert_eq!(Inside::read(&told[2..]), None);
        assert_eq!(Inside::read(&[]), None);
    }
}

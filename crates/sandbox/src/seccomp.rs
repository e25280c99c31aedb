//! What the kernel refuses to a command, whatever it may ask for: system calls that reach out of a sandbox, or that are
//! known for holes through which one reached out.
//!
//! bubblewrap loads these filters right before it starts the first process within, so that none is without them.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Flags of `clone` that make a namespace.
const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Sockets that may be made: what is not of these families reaches the host past the network namespace (vsock), or
/// parts of the kernel that a command has no business with.
const FAMILIES: [libc::c_int; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
/// Bits of a socket's type that are its type; the others are flags.
const TYPE_BITS: u64 = 0xf;
/// Requests of `ioctl` that put keys into a terminal's input.
const TYPES_KEYS: [u64; 2] = [0x5412, 0x541c];
/// Arguments of `personality` that change nothing: the plain one, and the question.
const PLAIN_PERSONALITIES: [u64; 2] = [0, 0xffff_ffff];

/// System calls that are refused with EPERM.
const REFUSED: &[c_long] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Other processes' memory and files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Files past their paths.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Parts of the kernel with a history.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_vmsplice,
    // Memory that is counted to no process.
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    // Where memory lies.
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
];

/// Those that only this kind of machine has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] =
    &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// Fails only where the filters can't be made for this kind of machine.
#[derive(Debug, thiserror::Error)]
#[error("system calls can't be filtered on this kind of machine: {0}")]
pub(crate) struct NoFilter(#[from] seccompiler::BackendError);

/// The filters, as the kernel takes them.
pub(crate) fn programs() -> Result<Vec<Vec<u8>>, NoFilter> {
    let mut programs = vec![bytes(&refusing()?), bytes(&unknown()?)];
    if cfg!(target_arch = "x86_64") {
        programs.push(bytes(&without_x32()));
    }
    Ok(programs)
}

/// Refuses what is on the list, and other calls by their arguments.
fn refusing() -> Result<BpfProgram, NoFilter> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    let namespaces = NEW_NAMESPACES.map(|flag| u64::from(flag.cast_unsigned()));
    rules.insert(libc::SYS_clone, any_of(namespaces.map(|flag| argument(0, Op::MaskedEq(flag), flag)))?);
    rules.insert(libc::SYS_ioctl, any_of(TYPES_KEYS.map(|request| argument(1, Op::Eq, request)))?);
    rules.insert(libc::SYS_personality, vec![all_of(PLAIN_PERSONALITIES.map(|p| argument(0, Op::Ne, p)))?]);
    let families = FAMILIES.map(|family| argument(0, Op::Ne, u64::from(family.cast_unsigned())));
    let raw = u64::from(libc::SOCK_RAW.cast_unsigned());
    let mut sockets = any_of([argument(1, Op::MaskedEq(TYPE_BITS), raw)])?;
    sockets.push(all_of(families)?);
    rules.insert(libc::SYS_socketpair, sockets.clone());
    rules.insert(libc::SYS_socket, sockets);
    filter(rules, libc::EPERM)
}

/// `clone3` hides its flags from a filter. Where it is not there, everybody takes `clone`.
fn unknown() -> Result<BpfProgram, NoFilter> {
    filter(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram, NoFilter> {
    let arch = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()?)
}

/// The calls of the x32 interface have numbers of their own, beside those that the filters know.
fn without_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt: u8, jf: u8, k: u32| seccompiler::sock_filter { code: code as u16, jt, jf, k };
    vec![
        // The call's number stands first in what a filter is shown.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

use SeccompCmpOp as Op;

type Argument = Result<SeccompCondition, seccompiler::BackendError>;

fn argument(index: u8, op: Op, value: u64) -> Argument {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value)
}

fn all_of<const N: usize>(conditions: [Argument; N]) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

fn any_of<const N: usize>(conditions: [Argument; N]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    conditions.into_iter().map(|condition| all_of([condition])).collect()
}

fn bytes(program: &BpfProgram) -> Vec<u8> {
    let step = |step: &seccompiler::sock_filter| {
        let [c0, c1] = step.code.to_ne_bytes();
        let [k0, k1, k2, k3] = step.k.to_ne_bytes();
        [c0, c1, step.jt, step.jf, k0, k1, k2, k3]
    };
    program.iter().flat_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_are_made_and_fit_into_a_pipe() {
        let programs = programs().expect("filters for this machine");
        assert!(programs.len() >= 2);
        for program in programs {
            assert!(!program.is_empty() && program.len() % 8 == 0 && program.len() < 60_000);
        }
    }
}

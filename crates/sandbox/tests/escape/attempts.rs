//! The attempts. A script says `TRIED` in any case, and `OUT` if it got what it must not get.

use libc as c;

/// An attempt to get out.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) script: String,
    /// Outside it works, which shows that it is one; some would do harm there, or need more than every machine has.
    pub(crate) works_outside: bool,
}

const YES: bool = true;
const NO: bool = false;

/// What attempts are made with, beside what a shell has itself.
pub(crate) const PROGRAMS: [&str; 22] = [
    "cat", "chmod", "chown", "cp", "dmesg", "env", "grep", "head", "hostname", "id", "ln", "ls", "mkdir",
    "mknod", "mount", "nice", "nsenter", "perl", "sleep", "touch", "umount", "unshare",
];

/// Files that are not the command's.
const FILES: &[(&str, &str, bool)] = &[
    ("read a file of the host", "cat {dir}/canary && echo OUT", YES),
    ("read it by a path that climbs", "cat ../../../../../../../..{dir}/canary && echo OUT", YES),
    ("read it by way of /proc/self/root", "cat /proc/self/root{dir}/canary && echo OUT", YES),
    ("read it by way of process 1", "cat /proc/1/root{dir}/canary && echo OUT", NO),
    ("read it by way of process 1's folder", "cat /proc/1/cwd/../..{dir}/canary && echo OUT", NO),
    ("read it through a link", "ln -s {dir}/canary /tmp/l$$; cat /tmp/l$$ && echo OUT; rm -f /tmp/l$$", YES),
    (
        "read it through a link to a folder",
        "ln -s / /tmp/r$$; cat /tmp/r$${dir}/canary && echo OUT; rm -f /tmp/r$$",
        YES,
    ),
    ("hard-link a file of the host", "ln /usr/bin/env own && echo OUT", NO),
    ("write where the programs are", "touch /usr/bin/x || touch /bin/x || touch /lib/x && echo OUT", NO),
    ("write into the root", "touch /x || mkdir /var && echo OUT", NO),
    ("write into /etc", "touch /etc/x || echo root::0:0::/:/bin/sh >>/etc/passwd && echo OUT", NO),
    ("write into /dev", "touch /dev/x && echo OUT", NO),
    ("read the host's settings", "test -e /etc/hosts -o -e /etc/shadow -o -e /etc/fstab && echo OUT", YES),
    (
        "look into the host's homes and data",
        "ls -d /root /home /var /srv /opt /run 2>&1 | grep -v 'No such' && echo OUT",
        YES,
    ),
    ("look into /sys", "ls /sys/kernel && echo OUT", YES),
    ("look into /boot and /mnt", "ls -d /boot /mnt && echo OUT", YES),
    (
        "use a device of the host",
        "for d in mem kmsg kvm sda vda fuse loop0 net/tun; do test -e /dev/$d && echo OUT; done",
        YES,
    ),
    ("make a device", "mknod disk b 8 0 && echo OUT; mknod mem c 1 1 && echo OUT", NO),
    ("give a file away", "touch own; chown 0:0 own && echo OUT", NO),
    (
        "write to programs through a descriptor",
        "exec 9</usr/bin/env; echo x >/proc/self/fd/9 && echo OUT",
        NO,
    ),
];

/// Processes that are not the command's, and what they hold.
const PROCESSES: &[(&str, &str, bool)] = &[
    ("see processes of the host", "grep -l '8639[9].5' /proc/[0-9]*/cmdline && echo OUT", YES),
    ("signal a process of the host", "kill -0 {victim} && echo OUT", NO),
    ("kill everything", "(trap '' HUP TERM; kill -9 -1); kill -KILL {victim} 2>/dev/null", NO),
    ("kill process 1", "kill -9 1; kill -STOP 1; sleep 0.1; kill -TERM 1; sleep 0.1", NO),
    ("read the memory of process 1", "head -c 1 /proc/1/mem && echo OUT; cat /proc/1/maps && echo OUT", NO),
    ("write into process 1", "echo x >/proc/1/mem && echo OUT", NO),
    ("read the environment of process 1", "cat /proc/1/environ && echo OUT", NO),
    ("open the program of process 1", "cat /proc/1/exe >/dev/null && echo OUT", NO),
    ("look at the descriptors of process 1", "ls -l /proc/1/fd && echo OUT", NO),
    ("read the server's environment", "env | grep -q CARGO && echo OUT", YES),
    ("use a descriptor of the server", "ls -l /proc/self/fd/ | grep canary && echo OUT", YES),
    ("read from that descriptor", "grep yellow /proc/self/fd/{fd} && echo OUT", YES),
    ("see more descriptors than the three", "ls /proc/self/fd | grep -vx '[0123]' && echo OUT", YES),
    (
        "raise a limit",
        "ulimit -H -n 100000 && echo OUT; ulimit -u unlimited && echo OUT; ulimit -v unlimited && echo OUT",
        NO,
    ),
    (
        "be more important",
        "nice -n -20 true 2>&1 | grep -q annot || echo OUT; echo -1000 >/proc/self/oom_score_adj && echo OUT",
        NO,
    ),
    ("become root", "perl -e '$< = $> = 0; print \"OUT\" if $< == 0 || $> == 0'", NO),
    (
        "become root by a setuid program",
        "for p in su sudo newgrp pkexec; do echo | $p -c 'id -u' 2>/dev/null | grep -qx 0 && echo OUT; done",
        NO,
    ),
    ("make a setuid program", "cp /usr/bin/id own; chmod 4755 own; ./own -u | grep -qx 0 && echo OUT", NO),
    (
        "have capabilities",
        "grep -E 'Cap(Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000 && echo OUT",
        NO,
    ),
];

/// The kernel.
const KERNEL: &[(&str, &str, bool)] = &[
    (
        "set the kernel",
        "echo x >/proc/sys/kernel/hostname && echo OUT; echo 0 >/proc/sys/vm/overcommit_memory && echo OUT",
        NO,
    ),
    ("press the kernel's keys", "echo h >/proc/sysrq-trigger && echo OUT", NO),
    ("read the kernel's log", "dmesg && echo OUT; cat /proc/kmsg && echo OUT", NO),
    ("read the kernel's memory", "head -c 1 /proc/kcore && echo OUT", NO),
    ("mount", "mount -t tmpfs none /tmp && echo OUT; mount --bind / /tmp && echo OUT", NO),
    (
        "make the root writable",
        "mount -o remount,rw / && echo OUT; mount -o remount,rw,bind /usr && echo OUT",
        NO,
    ),
    ("unmount", "umount /workspace && echo OUT; umount -l / && echo OUT; umount /proc && echo OUT", NO),
    ("make namespaces", "for n in U m p n i u C T; do unshare -$n true && echo OUT; done", NO),
    ("be root in a namespace", "unshare -Ur id -u && echo OUT", NO),
    (
        "enter namespaces of the host",
        "nsenter -t 1 -a true && echo OUT; nsenter -t 1 -U true && echo OUT",
        NO,
    ),
    (
        "type into a terminal",
        "perl -e 'for my $f (\"/dev/tty\", \"/dev/ptmx\", \"/dev/console\") { open(my $t, \"+<\", $f) or next; my $c = \"x\"; print \"OUT\" if ioctl($t, 0x5412, $c) }'",
        NO,
    ),
    ("rename the host", "hostname owned && echo OUT", NO),
];

/// Other machines, and sockets of this one.
const NETWORK: &[(&str, &str, bool)] = &[
    (
        "TCP to the host",
        "perl -MIO::Socket::INET -e 'print \"OUT\" if IO::Socket::INET->new(PeerAddr => \"127.0.0.1:{tcp}\", Timeout => 2)'",
        YES,
    ),
    (
        "TCP to the host over IPv6",
        "perl -MSocket=:all -e 'socket(my $s, AF_INET6, SOCK_STREAM, 0); print \"OUT\" if connect($s, pack_sockaddr_in6({tcp6}, inet_pton(AF_INET6, \"::1\")))'",
        YES,
    ),
    (
        "a machine elsewhere",
        "perl -MIO::Socket::INET -e 'for my $a (\"192.0.2.1:80\", \"169.254.169.254:80\", \"10.0.0.1:53\") { $! = 0; my $s = IO::Socket::INET->new(PeerAddr => $a, Timeout => 1); print \"OUT\" if $s || $! =~ /refused|timed/i }'",
        NO,
    ),
    (
        "UDP elsewhere",
        "perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(Proto => \"udp\", PeerAddr => \"192.0.2.1:53\"); print \"OUT\" if $s && $s->send(\"x\")'",
        NO,
    ),
    ("a name", "perl -e 'print \"OUT\" if gethostbyname(\"example.com\")'", NO),
    (
        "a socket of the host by its path",
        "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); print \"OUT\" if connect($s, sockaddr_un(\"{dir}/socket\"))'",
        YES,
    ),
    (
        "a socket of the host without a path",
        "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); print \"OUT\" if connect($s, pack(\"Sa*\", AF_UNIX, \"\\0{abstract}\"))'",
        YES,
    ),
    ("an interface of the host", "grep -vE 'Inter|face|lo:' /proc/net/dev && echo OUT", YES),
];

/// System calls that answer with something else than a refusal where nobody refuses them; arguments as Perl has them.
const CALLS: &[(&str, c::c_long, &str, bool)] = &[
    ("ptrace", c::SYS_ptrace, "16, 1, 0, 0", NO),
    ("process_vm_readv", c::SYS_process_vm_readv, "$$, 0, 0, 0, 0, 0", YES),
    ("process_vm_writev", c::SYS_process_vm_writev, "1, 0, 0, 0, 0, 0", YES),
    ("pidfd_getfd", c::SYS_pidfd_getfd, "-1, 0, 0", YES),
    ("unshare", c::SYS_unshare, "0", YES),
    ("setns", c::SYS_setns, "-1, 0", YES),
    ("clone with a user namespace", c::SYS_clone, "0x10000000, 0, 0, 0, 0", NO),
    ("clone with a thread's flags and a network namespace", c::SYS_clone, "0x40000000 | 17, 0, 0, 0, 0", NO),
    ("clone3", c::SYS_clone3, "0, 0", YES),
    ("chroot", c::SYS_chroot, "$t", NO),
    ("pivot_root", c::SYS_pivot_root, "$t, $t", NO),
    ("open_tree", c::SYS_open_tree, "-100, $t, 0", YES),
    ("fsopen", c::SYS_fsopen, "0, 0", NO),
    ("mount_setattr", c::SYS_mount_setattr, "-100, $t, 0, 0, 0", NO),
    ("name_to_handle_at", c::SYS_name_to_handle_at, "-100, $t, 0, 0, 0", YES),
    ("open_by_handle_at", c::SYS_open_by_handle_at, "-100, $t, 0", NO),
    ("bpf", c::SYS_bpf, "-1, 0, 0", NO),
    ("perf_event_open", c::SYS_perf_event_open, "0, 0, -1, -1, 0", NO),
    ("userfaultfd", c::SYS_userfaultfd, "1", NO),
    ("io_uring_setup", c::SYS_io_uring_setup, "0, 0", NO),
    ("keyctl", c::SYS_keyctl, "0, -3, 0", NO),
    ("add_key", c::SYS_add_key, "0, 0, 0, 0, 0", NO),
    ("memfd_create", c::SYS_memfd_create, "$t, 0", YES),
    ("shmget", c::SYS_shmget, "0x7ffffff0, 0, 0", YES),
    ("personality", c::SYS_personality, "0x0400000", YES),
    ("init_module", c::SYS_init_module, "0, 0, 0", NO),
    ("kexec_load", c::SYS_kexec_load, "0, 0, 0, 0", NO),
    ("reboot", c::SYS_reboot, "0, 0, 0, 0", NO),
    ("settimeofday", c::SYS_settimeofday, "0, 0", NO),
    ("a raw socket", c::SYS_socket, "2, 3, 1", NO),
    ("a packet socket", c::SYS_socket, "17, 3, 0", NO),
    ("a netlink socket", c::SYS_socket, "16, 2, 0", YES),
    ("a vsock socket", c::SYS_socket, "40, 1, 0", NO),
    ("an alg socket", c::SYS_socket, "38, 5, 0", NO),
];

/// All of them.
pub(crate) fn all() -> Vec<Attempt> {
    let plain = [FILES, PROCESSES, KERNEL, NETWORK].concat().into_iter().map(|(name, script, outside)| {
        Attempt { name, script: format!("echo TRIED; {{ {script}; }} 2>/dev/null"), works_outside: outside }
    });
    let calls = CALLS.iter().map(|(name, number, arguments, outside)| Attempt {
        name,
        script: call(*number, arguments),
        works_outside: *outside,
    });
    let mut all: Vec<Attempt> = plain.chain(calls).collect();
    if cfg!(target_arch = "x86_64") {
        // The same call by its number in the x32 interface.
        let unshare = call(c::SYS_unshare | 0x4000_0000, "0");
        all.push(Attempt { name: "unshare by x32", script: unshare, works_outside: NO });
    }
    all
}

/// A refusal is EPERM, or ENOSYS as if there were no such call. What comes back in a new process is out too.
fn call(number: c::c_long, arguments: &str) -> String {
    let judge = "print \"TRIED \", $!+0; print \" OUT\" if $r >= 0 || ($! != 1 && $! != 38)";
    format!("perl -e '$t = \"/tmp\"; $r = syscall({number}, {arguments}); {judge}'")
}

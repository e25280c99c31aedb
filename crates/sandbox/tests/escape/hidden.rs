//! Attempts to have memory or files without that showing where they are looked for first.

use answerable_sandbox::Stop;
use libc as c;

/// Takes 60 MB as deleted files, and does this with each of them, which is `F`, before it is closed.
fn files(first: &str, with_each: &str) -> String {
    format!(
        "perl -MSocket -e '{first}; for my $i (1..60) {{ open(F, \"+>\", \"x\") or die; unlink \"x\"; \
         syswrite(F, \"x\" x 1_000_000) == 1_000_000 or die; {with_each} close F }} sleep 30'"
    )
}

/// Takes 400 MB as shared memory, of which this leaves no more than a part mapped: it is at `$a`.
fn memory(hide: &str) -> String {
    let (mmap, read) = (c::SYS_mmap, c::SYS_read);
    format!(
        "perl -e 'open(Z, \"<\", \"/dev/zero\"); for (1..8) {{ $a = syscall({mmap}, 0, 50_000_000, 3, 0x21, -1, 0); \
         syscall({read}, fileno(Z), $a, 50_000_000) == 50_000_000 or die; {hide} }} sleep 30'"
    )
}

/// Attempts, and how they must end.
pub(crate) fn attempts() -> Vec<(&'static str, String, Stop)> {
    let (mmap, munmap, madvise) = (c::SYS_mmap, c::SYS_munmap, c::SYS_madvise);
    let message = "$c = pack(\"Q l l l x4\", 20, 1, 1, fileno(F)); $d = \"x\"; $v = pack(\"Q Q\", unpack(\"Q\", pack(\"P\", $d)), 1); \
                   $m = pack(\"Q L x4 Q Q Q Q l x4\", 0, 0, unpack(\"Q\", pack(\"P\", $v)), 1, unpack(\"Q\", pack(\"P\", $c)), 24, 0);";
    let send = format!("{message} syscall({}, fileno(A), $m, 0) == 1 or die;", c::SYS_sendmsg);
    let undumpable = format!("syscall({}, 4, 0) == 0 or die", c::SYS_prctl);
    let map = format!("syscall({mmap}, 0, 4096, 1, 1, fileno(F), 0) > 0 or die;");
    vec![
        (
            "shared memory that is given back",
            memory(&format!("syscall({madvise}, $a, 50_000_000, 4) == 0 or die;")),
            Stop::Memory,
        ),
        (
            "shared memory of which a page is mapped",
            memory(&format!("syscall({munmap}, $a, 49_000_000) == 0 or die;")),
            Stop::Memory,
        ),
        ("files that are deleted and mapped", files("1", &map), Stop::Disk),
        (
            "files that are deleted and on their way",
            files("socketpair(A, B, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die", &send),
            Stop::Disk,
        ),
        (
            "deleted files of a process that can't be looked into",
            files(&undumpable, "open($f[$i], \"<&\", F) or die;"),
            Stop::Disk,
        ),
    ]
}

use super::*;
use std::os::unix::fs::symlink;
use std::time::Duration;

fn folder() -> (tempfile::TempDir, Folder) {
    let temp = tempfile::tempdir().expect("a folder");
    let folder = Folder::new(temp.path(), None).expect("one within");
    (temp, folder)
}

#[test]
fn what_is_put_is_found_and_a_touched_file_is_known() {
    let (_temp, folder) = folder();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let a = folder.put("a.txt", b"one", then).expect("a file");
    let b = folder.put("deep/er/b.txt", b"two", then).expect("a file");
    let found = folder.find(100, 8).expect("them");
    assert_eq!(found.files.keys().collect::<Vec<_>>(), ["a.txt", "deep/er/b.txt"]);
    assert_eq!((found.files["a.txt"].stamp, found.files["deep/er/b.txt"].stamp), (a, b));
    std::fs::write(folder.path().join("a.txt"), "two").expect("another content");
    let found = folder.find(100, 8).expect("them");
    assert_ne!(found.files["a.txt"].stamp, a);
    assert_eq!(folder.read("a.txt", 3).expect("its content"), b"two");
    assert_eq!(folder.read("a.txt", 2).expect_err("too long").kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn nothing_leads_out() {
    let (temp, folder) = folder();
    std::fs::write(temp.path().join("secret"), "s").expect("a file");
    symlink("../secret", folder.path().join("link")).expect("a link");
    symlink("..", folder.path().join("up")).expect("a link");
    nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let found = folder.find(100, 8).expect("what is there");
    assert!(found.files.is_empty());
    assert_eq!(found.skipped.len(), 3);
    for path in ["link", "up/secret", "../secret", "/etc/passwd", "pipe"] {
        folder.read(path, 100).expect_err(path);
        folder.put(path, b"x", SystemTime::now()).expect_err(path);
    }
    assert!(folder.find(2, 8).expect("a part").is_cut);
}

#[test]
fn what_is_closed_is_opened_and_what_is_too_deep_is_not_passed_over() {
    let (_temp, folder) = folder();
    folder.put("closed/file", b"x", SystemTime::now()).expect("a file");
    for path in ["closed/file", "closed"] {
        let path = folder.path().join(path);
        std::fs::set_permissions(path, Mode::from_mode(0o000)).expect("its mode");
    }
    let found = folder.find(100, 1).expect("what is there");
    assert_eq!(found.files.keys().collect::<Vec<_>>(), ["closed/file"]);
    assert_eq!(folder.read("closed/file", 10).expect("its content"), b"x");
    assert!(folder.find(100, 0).expect("a part").is_cut);
}

#[test]
fn paths_that_are_longer_than_the_system_takes_are_too_deep() {
    let (_temp, folder) = folder();
    let mut dir = folder.dir().try_clone().expect("it");
    for _ in 0..20 {
        let name = "n".repeat(255);
        dir.create_dir(&name).expect("a folder");
        dir = dir.open_dir(&name).expect("it");
    }
    dir.write("file", "x").expect("a file");
    assert!(folder.find(100, 32).expect("a part").is_cut);
    let path = folder.path().to_owned();
    drop(folder);
    assert!(!path.exists());
}

#[test]
fn a_folder_goes_with_its_value_and_what_a_dead_server_left_is_swept() {
    let (temp, folder) = folder();
    let path = folder.path().to_owned();
    let [left, closed, link, strange] = ["left", "closed", "link", "strange"]
        .map(|name| temp.path().join(format!("answerable-shell-{name}")));
    let kept = temp.path().join("kept");
    for folder in [&left, &closed, &strange, &kept] {
        std::fs::create_dir_all(folder.join("within")).expect("folders");
    }
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    for old in [&left, &closed, &strange, &kept, &path] {
        std::fs::File::open(old).expect("it").set_modified(hour_ago).expect("its time");
    }
    std::fs::set_permissions(&closed, Mode::from_mode(0o000)).expect("its mode");
    symlink(&kept, &link).expect("a link");
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&strange, Some(4321), Some(4321)).expect("another's");
    }
    let swept = if is_root { 2 } else { 3 };
    assert_eq!(Folder::sweep(temp.path()).expect("a sweep"), swept);
    assert!(path.exists() && !left.exists() && !closed.exists());
    assert_eq!(strange.exists(), is_root, "it is somebody else's");
    assert!(link.is_symlink() && kept.join("within").exists());
    drop(folder);
    assert!(!path.exists());
}

use std::io::Write as _;

use super::*;

const KIB: u64 = 1024;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"))
}

fn create(path: &Path) -> Arc<File> {
    Arc::new(File::create_new(path).unwrap_or_else(|error| panic!("{error}")))
}

fn opened(quota: &DiskQuota, file: &Arc<File>) -> Inode {
    quota.opened(file, None).unwrap_or_else(|error| panic!("{error}"))
}

fn write(mut file: &File, bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    file.write_all(&vec![7; bytes]).unwrap_or_else(|error| panic!("{error}"));
}

// EDGE-09
#[test]
fn a_volume_takes_what_it_may_hold_and_no_more() {
    let quota = DiskQuota::new(16 * KIB, 3);
    assert_eq!(quota.charge(1, 1), Ok(()));
    assert_eq!(quota.charge(8 * KIB, 1), Ok(()));
    assert_eq!((quota.used_bytes(), quota.used_files()), (12 * KIB, 2));
    assert_eq!(quota.charge(4 * KIB + 1, 1), Err(DiskFull));
    assert_eq!(quota.charge(0, 2), Err(DiskFull));
    assert_eq!((quota.used_bytes(), quota.used_files()), (12 * KIB, 2));
    quota.refund(8 * KIB, 1);
    assert_eq!(quota.charge(12 * KIB, 2), Ok(()));
}

// EDGE-09
#[test]
fn what_a_volume_holds_counts_in_the_larger_whole_until_it_goes() {
    let whole = DiskQuota::new(16 * KIB, 0);
    let one = DiskQuota::within(&whole, 0, 0);
    let two = DiskQuota::within(&whole, 0, 0);
    assert_eq!(one.charge(12 * KIB, 1), Ok(()));
    assert_eq!(two.charge(8 * KIB, 1), Err(DiskFull));
    drop(one);
    assert_eq!((whole.used_bytes(), two.charge(8 * KIB, 1)), (0, Ok(())));
}

#[test]
fn a_file_is_charged_for_its_length_however_it_was_written() {
    let (directory, quota) = (directory(), DiskQuota::new(16 * KIB, 0));
    let file = create(&directory.path().join("a"));
    let inode = opened(&quota, &file);
    assert_eq!(quota.growing(inode, None, 5 * KIB), Ok(()));
    assert_eq!(quota.growing(inode, Some(0), 8 * KIB), Ok(()));
    assert_eq!(quota.used_bytes(), 8 * KIB);
    assert_eq!(quota.growing(inode, None, 8 * KIB + 1), Err(DiskFull));
    assert_eq!(quota.resizing(inode, 1 << 40), Err(DiskFull));
    write(&file, 3 * KIB);
    // Most of what was promised never came.
    quota.closed(inode);
    assert_eq!(quota.used_bytes(), 4 * KIB);
}

#[test]
fn a_file_without_a_name_takes_its_space_until_it_is_closed() {
    let (directory, quota) = (directory(), DiskQuota::new(0, 0));
    let path = directory.path().join("a");
    assert_eq!(quota.charge(0, 1), Ok(()));
    let file = create(&path);
    let inode = opened(&quota, &file);
    assert_eq!(quota.growing(inode, None, 8 * KIB), Ok(()));
    write(&file, 8 * KIB);
    fs::remove_file(&path).unwrap_or_else(|error| panic!("{error}"));
    quota.removed(8 * KIB, 1);
    assert_eq!((quota.used_bytes(), quota.used_files()), (8 * KIB, 0));
    quota.closed(inode);
    assert_eq!(quota.used_bytes(), 0);
}

#[test]
fn a_file_that_is_removed_or_cut_gives_its_space_back() {
    let (directory, quota) = (directory(), DiskQuota::new(0, 0));
    let file = create(&directory.path().join("a"));
    let inode = opened(&quota, &file);
    assert_eq!(quota.growing(inode, None, 40 * KIB), Ok(()));
    write(&file, 40 * KIB);
    file.set_len(KIB).unwrap_or_else(|error| panic!("{error}"));
    quota.resized(inode);
    assert_eq!(quota.used_bytes(), 4 * KIB);
    quota.closed(inode);
    // It has two names; the space goes with the second.
    quota.removed(KIB, 2);
    assert_eq!(quota.used_bytes(), 4 * KIB);
    quota.removed(KIB, 1);
    assert_eq!(quota.used_bytes(), 0);
}

#[test]
fn a_recount_finds_what_is_there() {
    let (directory, quota) = (directory(), DiskQuota::new(16 * KIB, 0));
    let root = directory.path();
    fs::create_dir(root.join("inner")).unwrap_or_else(|error| panic!("{error}"));
    write(&create(&root.join("inner/a")), 5 * KIB);
    fs::hard_link(root.join("inner/a"), root.join("b")).unwrap_or_else(|error| panic!("{error}"));
    std::os::unix::fs::symlink("/", root.join("c")).unwrap_or_else(|error| panic!("{error}"));
    quota.recount(root).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((quota.used_bytes(), quota.used_files()), (12 * KIB, 4));
    assert_eq!(quota.charge(8 * KIB, 0), Err(DiskFull));
}

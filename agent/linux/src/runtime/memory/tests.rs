use super::*;

const KIB: usize = 1024;

fn node(kib: u64) -> Arc<Tally> {
    Arc::new(Tally::new(kib * 1024, None))
}

fn holding(account: &Arc<Account>) -> Holding {
    let holding = Holding::new(Arc::clone(account), 0, u64::MAX);
    holding.unwrap_or_else(|error| panic!("{error}"))
}

// LIF-07
#[test]
fn all_memories_tables_and_buffers_of_a_container_count_together() {
    let account = Account::new(100 * KIB as u64, 0, &node(0));
    let mut one = holding(&account);
    let mut two = holding(&account);
    assert!(one.memory_growing(0, 60 * KIB, None).is_ok_and(|grown| grown));
    assert!(two.table_growing(0, 4 * KIB, None).is_ok_and(|grown| grown));
    let buffer = account.hold(4 * KIB as u64);
    assert!(buffer.is_ok());
    assert_eq!(one.settle(4 * KIB as u64), Ok(()));
    assert_eq!((account.exceeded(), account.used_bytes()), (None, 100 * KIB as u64));
    assert_eq!(two.settle(1), Err(OutOfMemory::Limit));
    assert_eq!(account.exceeded(), Some(OutOfMemory::Limit));
}

// LIF-07
#[test]
fn without_a_limit_the_node_bounds_all_and_who_asks_beyond_it_has_exceeded() {
    let node = node(100);
    let modest = Account::new(0, 0, &node);
    let greedy = Account::new(0, 0, &node);
    let mut one = holding(&modest);
    let mut two = holding(&greedy);
    assert!(one.memory_growing(0, 30 * KIB, None).is_ok());
    assert!(two.memory_growing(0, 80 * KIB, None).is_err());
    assert_eq!((modest.exceeded(), greedy.exceeded()), (None, Some(OutOfMemory::Node)));
    drop(two);
    assert!(one.memory_growing(30 * KIB, 100 * KIB, None).is_ok());
    drop(one);
    assert_eq!((node.used(), modest.peak_bytes()), (0, 100 * KIB as u64));
}

// LIF-07
#[test]
fn what_a_container_requests_is_there_however_much_another_takes() {
    let node = node(100);
    let modest = Account::new(0, 40 * KIB as u64, &node);
    let greedy = Account::new(0, 0, &node);
    let (mut one, mut two) = (holding(&modest), holding(&greedy));
    assert!(two.memory_growing(0, 60 * KIB, None).is_ok());
    assert!(one.memory_growing(0, 40 * KIB, None).is_ok());
    assert!(two.memory_growing(60 * KIB, 61 * KIB, None).is_err());
    assert_eq!((modest.exceeded(), greedy.exceeded()), (None, Some(OutOfMemory::Node)));
}

// LIF-07
#[test]
fn a_memory_that_moves_is_there_twice_for_a_moment() {
    let account = Account::new(0, 0, &node(100));
    let Ok(mut one) = Holding::new(Arc::clone(&account), 0, 32 * KIB as u64) else { panic!("there is room") };
    assert!(one.memory_growing(0, 48 * KIB, None).is_ok());
    assert!(one.memory_growing(48 * KIB, 64 * KIB, None).is_err());
    assert_eq!(account.exceeded(), Some(OutOfMemory::Node));
}

#[test]
fn a_store_gives_back_what_it_held() {
    let account = Account::new(64 * KIB as u64, 0, &node(0));
    let mut one = holding(&account);
    assert!(one.memory_growing(0, 64 * KIB, None).is_ok());
    assert!(!account.has_room_for_another());
    drop(one);
    assert!(account.has_room_for_another());
    let mut two = holding(&account);
    assert!(two.memory_growing(0, 64 * KIB, None).is_ok());
    assert!(two.memory_grow_failed(Error::msg("no room")).is_ok());
    assert!(two.memory_growing(0, 60 * KIB, None).is_ok());
    assert_eq!((two.settle(4 * KIB as u64), two.settle(0)), (Ok(()), Ok(())));
    assert_eq!((account.used_bytes(), account.exceeded()), (60 * KIB as u64, None));
}

// LIF-07
#[test]
fn a_store_that_does_not_fit_is_none() {
    let account = Account::new(KIB as u64, 0, &node(0));
    assert!(Holding::new(Arc::clone(&account), 2 * KIB as u64, u64::MAX).is_err());
    assert_eq!((account.exceeded(), account.used_bytes()), (Some(OutOfMemory::Limit), 0));
}

#[test]
fn growth_beyond_a_memorys_own_maximum_is_no_excess() {
    let account = Account::new(1, 0, &node(0));
    let mut one = holding(&account);
    assert!(one.memory_growing(0, 64 * KIB, Some(KIB)).is_ok_and(|grown| !grown));
    assert_eq!(account.exceeded(), None);
}

#[test]
fn without_any_limit_everything_fits() {
    let account = Account::new(0, 0, &node(0));
    let mut one = holding(&account);
    assert!(one.memory_growing(0, usize::MAX / 2, None).is_ok_and(|grown| grown));
}

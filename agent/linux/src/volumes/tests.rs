//! Volumes on real directories.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use coracle_model::{
    Container, InstanceId, Pod, PodUid, PullPolicy, ResourceAmounts, RestartPolicy, Volume, VolumeFile, VolumeMount,
    VolumeSource,
};

use super::{Verdict, Volumes, survey};
use crate::runtime::Preopen;
use crate::space::Space;

const UID: PodUid = PodUid(7);

/// A data directory, and the agent whose it is.
struct Bench {
    directory: tempfile::TempDir,
    instance: InstanceId,
}

impl Bench {
    fn new() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("{error}"));
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        Self { directory, instance: InstanceId(u128::from_le_bytes(bytes)) }
    }

    fn open(&self, ended: &[PodUid]) -> Volumes {
        self.open_with(ended, Space { total_bytes: 1 << 40, free_bytes: 1 << 40 })
    }

    /// As if disk and memory had this much room, whatever the machine of the test has.
    fn open_with(&self, ended: &[PodUid], space: Space) -> Volumes {
        Volumes::open(self.directory.path(), self.instance, &ended.iter().copied().collect(), |_| Some(space))
    }

    /// Where an `emptyDir` of the pod lies.
    fn on_disk(&self, volume: &str) -> PathBuf {
        self.directory.path().join("pods").join(UID.to_string()).join("volumes").join(volume)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(root) = super::memory::find(self.instance) {
            let _ = fs::remove_dir_all(root);
        }
    }
}

fn empty(name: &str, size_limit_bytes: u64) -> Volume {
    let source = VolumeSource::EmptyDir { in_memory: false, size_limit_bytes };
    Volume { name: name.to_owned(), source }
}

fn files(name: &str, list: &[(&str, &str)]) -> Volume {
    let files = list.iter().map(|(path, text)| VolumeFile {
        path: (*path).to_owned(),
        bytes: text.as_bytes().to_vec(),
        mode: 0o644,
    });
    Volume { name: name.to_owned(), source: VolumeSource::Files(files.collect()) }
}

fn mount(volume: &str, path: &str, sub_path: &str) -> VolumeMount {
    let [volume, path, sub_path] = [volume, path, sub_path].map(ToOwned::to_owned);
    VolumeMount { volume, path, sub_path, read_only: false }
}

fn pod(volumes: Vec<Volume>, mounts: Vec<VolumeMount>) -> Pod {
    let container = Container {
        name: "main".to_owned(),
        image: "test/files:1".to_owned(),
        pull_policy: PullPolicy::IfNotPresent,
        argv: Vec::new(),
        env: Vec::new(),
        working_dir: None,
        ports: Vec::new(),
        limits: ResourceAmounts::default(),
        requests: ResourceAmounts::default(),
        config_error: None,
        stdin_eof: false,
        mounts,
    };
    Pod {
        uid: UID,
        namespace: "default".to_owned(),
        name: "p".to_owned(),
        restart_policy: RestartPolicy::Always,
        termination_grace_ms: 30_000,
        priority: 0,
        containers: vec![container],
        stop: None,
        volumes,
    }
}

fn lay_out(volumes: &mut Volumes, pod: &Pod) -> Vec<Preopen> {
    volumes.lay_out(pod, &pod.containers[0]).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(volumes: &mut Volumes, pod: &Pod) -> String {
    volumes.lay_out(pod, &pod.containers[0]).err().map(|error| error.to_string()).unwrap_or_default()
}

fn write(path: &Path, bytes: usize) {
    fs::write(path, vec![7; bytes]).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{error}"))
}

fn guest<'a>(preopens: &'a [Preopen], path: &str) -> &'a Preopen {
    preopens.iter().find(|preopen| preopen.guest_path == path).unwrap_or_else(|| panic!("{path} in {preopens:?}"))
}

// VOL-01
#[test]
fn an_empty_directory_outlives_containers_and_agents_and_goes_with_the_pod() {
    let bench = Bench::new();
    let pod = pod(vec![empty("tmp", 0)], vec![mount("tmp", "/tmp", "")]);
    let mut volumes = bench.open(&[]);
    let preopens = lay_out(&mut volumes, &pod);
    assert_eq!(guest(&preopens, "/tmp").host_path, bench.on_disk("tmp"));
    assert!(!guest(&preopens, "/tmp").read_only);
    write(&bench.on_disk("tmp").join("a"), 5000);
    let again = lay_out(&mut volumes, &pod);
    assert_eq!(again[0].host_path, preopens[0].host_path);
    drop(volumes);
    // Another agent on the same directory counts what it finds.
    let mut volumes = bench.open(&[]);
    let quota = lay_out(&mut volumes, &pod)[0].quota.clone();
    assert_eq!(quota.map(|quota| quota.used_bytes()), Some(8192));
    assert!(bench.on_disk("tmp").join("a").exists());
    let rubbish = volumes.tear_down(UID);
    assert!(!bench.on_disk("tmp").exists());
    assert!(rubbish.is_some());
    rubbish.into_iter().for_each(super::Rubbish::remove);
    let left = fs::read_dir(bench.directory.path().join("pods")).map(Iterator::count);
    assert_eq!(left.ok(), Some(0));
    assert!(volumes.tear_down(UID).is_none());
}

// VOL-01
#[test]
fn what_pods_left_goes_when_they_have_ended_or_the_controller_does_not_know_them() {
    let bench = Bench::new();
    let pod = pod(vec![empty("tmp", 0), files("conf", &[("a", "1")])], Vec::new());
    let _ = lay_out(&mut bench.open(&[]), &pod);
    // Started just before the power failed: the agent's memory may not know it, and its data is still wanted.
    let mut volumes = bench.open(&[PodUid(8)]);
    assert!(volumes.tear_down_others(&BTreeSet::from([UID])).is_none());
    assert!(bench.on_disk("tmp").exists());
    let rubbish = volumes.tear_down_others(&BTreeSet::from([PodUid(8)]));
    assert!(!bench.on_disk("tmp").exists());
    rubbish.unwrap_or_else(|| panic!("something goes")).remove();

    let _ = lay_out(&mut bench.open(&[]), &pod);
    let _ = bench.open(&[UID]);
    assert!(!bench.on_disk("tmp").exists());
}

// VOL-01
#[test]
fn files_change_in_one_step_and_are_not_written_when_nothing_changes() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    let mounts = vec![mount("conf", "/etc/conf", "")];
    let first = pod(vec![files("conf", &[("a", "1"), ("x/y", "deep")])], mounts.clone());
    let preopens = lay_out(&mut volumes, &first);
    let root = &guest(&preopens, "/etc/conf").host_path;
    assert!(guest(&preopens, "/etc/conf").read_only);
    assert_eq!((read(&root.join("a")), read(&root.join("x/y"))), ("1".to_owned(), "deep".to_owned()));
    let version = |root: &Path| fs::read_link(root.join("..data")).unwrap_or_default();
    let before = version(root);
    volumes.refresh(&first);
    let _ = lay_out(&mut volumes, &first);
    assert_eq!(version(root), before);
    // A reader that holds the former version open goes on reading it.
    let held = fs::File::open(root.join("a"));
    volumes.refresh(&pod(vec![files("conf", &[("a", "2"), ("b", "new")])], mounts.clone()));
    assert_ne!(version(root), before);
    assert_eq!(held.and_then(std::io::read_to_string).ok().as_deref(), Some("1"));
    assert_eq!((read(&root.join("a")), read(&root.join("b"))), ("2".to_owned(), "new".to_owned()));
    let names: BTreeSet<String> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let current = version(root).display().to_string();
    assert_eq!(names, ["..data", &current, "a", "b"].map(ToOwned::to_owned).into());
    // Cut off between any two steps, the next try puts it right.
    fs::create_dir_all(root.join("..3/half")).unwrap_or_else(|error| panic!("{error}"));
    fs::remove_file(root.join("b")).unwrap_or_else(|error| panic!("{error}"));
    volumes.refresh(&pod(vec![files("conf", &[("a", "3"), ("b", "4")])], mounts));
    assert_eq!((read(&root.join("a")), read(&root.join("b"))), ("3".to_owned(), "4".to_owned()));
}

#[test]
fn a_file_has_the_mode_that_was_asked_for_and_can_be_read_by_the_agent() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    let mut volume = files("key", &[("a", "1"), ("b", "2")]);
    if let VolumeSource::Files(files) = &mut volume.source {
        files[0].mode = 0o400;
        files[1].mode = 0o044;
    }
    let preopens = lay_out(&mut volumes, &pod(vec![volume], vec![mount("key", "/key", "")]));
    let mode = |name: &str| {
        fs::metadata(preopens[0].host_path.join(name))
            .map(|found| found.permissions().mode() & 0o777)
            .unwrap_or_default()
    };
    assert_eq!((mode("a"), mode("b")), (0o400, 0o444));
}

// VOL-01: what was laid out stays when its config map is deleted; what never was keeps the container from starting.
#[test]
fn a_volume_that_is_not_available_keeps_what_it_had() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    let mounts = vec![mount("conf", "/conf", "")];
    let why = "configmap \"c\" not found";
    let gone = Volume { name: "conf".to_owned(), source: VolumeSource::Unavailable(why.to_owned()) };
    let missing = pod(vec![gone], mounts.clone());
    assert_eq!(refusal(&mut volumes, &missing), format!("volume conf: {why}"));
    let _ = lay_out(&mut volumes, &pod(vec![files("conf", &[("a", "1")])], mounts));
    volumes.refresh(&missing);
    let preopens = lay_out(&mut volumes, &missing);
    assert_eq!(read(&preopens[0].host_path.join("a")), "1");
}

// VOL-01: subPath
#[test]
fn a_sub_path_is_made_where_it_is_missing_and_never_leads_out() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    let with = |sub_path: &str| pod(vec![empty("data", 0)], vec![mount("data", "/data", sub_path)]);
    let preopens = lay_out(&mut volumes, &with("a/b"));
    write(&preopens[0].host_path.join("file"), 1);
    assert!(bench.on_disk("data").join("a/b/file").exists());
    assert!(preopens[0].quota.is_some());
    // Guests may put links into a volume, and files where directories are wanted.
    let outside = bench.directory.path();
    symlink(outside, bench.on_disk("data").join("out")).unwrap_or_else(|error| panic!("{error}"));
    symlink("a", bench.on_disk("data").join("inside")).unwrap_or_else(|error| panic!("{error}"));
    for (sub_path, part) in [("out", "out"), ("out/pods", "out"), ("inside/b", "inside"), ("a/b/file", "file")] {
        let words = refusal(&mut volumes, &with(sub_path));
        assert!(words.contains(&format!("\"{part}\" of the sub path \"{sub_path}\" is no directory")), "{words}");
    }
    // One that is swapped after it was opened is not followed either.
    let preopens = lay_out(&mut volumes, &with("a/b"));
    let moved = bench.on_disk("data").join("moved");
    fs::rename(bench.on_disk("data").join("a/b"), &moved).unwrap_or_else(|error| panic!("{error}"));
    symlink(outside, bench.on_disk("data").join("a/b")).unwrap_or_else(|error| panic!("{error}"));
    write(&preopens[0].host_path.join("late"), 1);
    assert!(moved.join("late").exists());
}

// VOL-01: subPath
#[test]
fn single_files_lie_in_their_parents_and_do_not_change_while_the_container_runs() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    let mounts = vec![
        mount("conf", "/etc/app/one.conf", "one"),
        mount("conf", "/etc/app/two.conf", "dir/two"),
        mount("conf", "/etc/dir", "dir"),
        mount("tmp", "/etc/app/tmp", ""),
    ];
    let with =
        |text: &str| pod(vec![files("conf", &[("one", text), ("dir/two", text)]), empty("tmp", 0)], mounts.clone());
    let preopens = lay_out(&mut volumes, &with("1"));
    let paths: BTreeSet<&str> = preopens.iter().map(|preopen| preopen.guest_path.as_str()).collect();
    assert_eq!(paths, ["/etc/app", "/etc/app/tmp", "/etc/dir"].into());
    let parent = guest(&preopens, "/etc/app");
    assert!(parent.read_only);
    let all = |preopens: &[Preopen]| {
        let (parent, directory) = (guest(preopens, "/etc/app"), guest(preopens, "/etc/dir"));
        ["one.conf", "two.conf"]
            .map(|name| read(&parent.host_path.join(name)))
            .into_iter()
            .chain([read(&directory.host_path.join("two"))])
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&preopens), ["1", "1", "1"]);
    volumes.refresh(&with("2"));
    assert_eq!(all(&preopens), ["1", "1", "1"]);
    assert_eq!(all(&lay_out(&mut volumes, &with("2"))), ["2", "2", "2"]);
    let none = pod(vec![files("conf", &[("one", "1")])], vec![mount("conf", "/a", "none")]);
    assert!(refusal(&mut volumes, &none).contains("there is no \"none\" in it"));
    let covered = vec![mount("conf", "/etc/one", "one"), mount("tmp", "/etc", "")];
    let covered = pod(vec![files("conf", &[("one", "1")]), empty("tmp", 0)], covered);
    assert!(refusal(&mut volumes, &covered).contains("another volume is mounted there"));
}

// EDGE-09: a guest is stopped at the limit of the volume, of the pod, or of the node, whichever comes first.
#[test]
fn what_a_pod_may_write_is_bounded_in_every_case() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    let mut limited = pod(vec![empty("a", 16_384), empty("b", 0)], vec![mount("a", "/a", ""), mount("b", "/b", "")]);
    limited.containers[0].limits.storage_bytes = 32_768;
    let preopens = lay_out(&mut volumes, &limited);
    let quota = |path: &str| guest(&preopens, path).quota.clone().unwrap_or_else(|| panic!("{path} has no quota"));
    assert!(quota("/a").charge(16_385, 1).is_err());
    assert!(quota("/b").charge(20_480, 1).is_ok());
    assert!(quota("/a").charge(16_384, 1).is_err());
    assert!(quota("/a").charge(12_288, 1).is_ok());
    let mut unlimited = pod(vec![empty("a", 0)], vec![mount("a", "/a", "")]);
    unlimited.uid = PodUid(8);
    let preopens = lay_out(&mut volumes, &unlimited);
    let quota = guest(&preopens, "/a").quota.clone().unwrap_or_else(|| panic!("no quota"));
    assert!(quota.charge(1 << 50, 1).is_err());
    assert!(quota.charge(0, super::MAX_FILES + 1).is_err());
}

// EDGE-09
#[test]
fn the_last_twentieth_of_a_disk_is_not_for_pods() {
    let free_for_pods = |free_bytes| {
        let bench = Bench::new();
        let mut volumes = bench.open_with(&[], Space { total_bytes: 20 << 20, free_bytes });
        let preopens = lay_out(&mut volumes, &pod(vec![empty("a", 0)], vec![mount("a", "/a", "")]));
        let quota = guest(&preopens, "/a").quota.clone().unwrap_or_else(|| panic!("no quota"));
        (0_u32..).take_while(|_| quota.charge(4096, 1).is_ok()).count() * 4096
    };
    assert_eq!(free_for_pods(0), 0);
    assert_eq!(free_for_pods(1 << 20), 0);
    assert_eq!(free_for_pods(3 << 19), 1 << 19);
    // And a tenth of the whole is the most that one pod gets.
    assert_eq!(free_for_pods(10 << 20), 2 << 20);
}

// PRI-09
#[test]
fn a_pod_that_uses_more_than_it_may_all_the_same_is_found() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    let found = |volumes: &Volumes| -> Vec<String> {
        survey(&volumes.subjects()).into_iter().map(|Verdict { message, .. }| message).collect()
    };
    let both = |limit: u64| vec![empty("a", limit), empty("b", 0)];
    let _ = lay_out(&mut volumes, &pod(both(0), Vec::new()));
    assert!(!volumes.wants_survey(), "a pod without limits is never looked at");
    let _ = volumes.tear_down(UID);
    let mut limited = pod(both(1 << 20), Vec::new());
    let _ = lay_out(&mut volumes, &limited);
    assert!(volumes.wants_survey());
    write(&bench.on_disk("a").join("file"), 1 << 20);
    write(&bench.on_disk("b").join("file"), 1 << 21);
    assert_eq!(found(&volumes), Vec::<String>::new());
    write(&bench.on_disk("a").join("more"), 1);
    assert_eq!(found(&volumes), ["Usage of EmptyDir volume \"a\" exceeds the limit \"1Mi\"."]);
    fs::remove_file(bench.on_disk("a").join("more")).unwrap_or_else(|error| panic!("{error}"));
    limited.containers[0].limits.storage_bytes = 2_000_000;
    let _ = lay_out(&mut volumes, &limited);
    let want = "Pod ephemeral local storage usage exceeds the total limit of containers 2M.";
    assert_eq!(found(&volumes), [want]);
}

#[test]
fn a_disk_that_takes_nothing_is_an_error_and_no_panic() {
    let bench = Bench::new();
    let mut volumes = bench.open(&[]);
    fs::write(bench.directory.path().join("pods"), b"in the way").unwrap_or_else(|error| panic!("{error}"));
    let pod = pod(vec![empty("tmp", 0)], vec![mount("tmp", "/tmp", "")]);
    assert!(refusal(&mut volumes, &pod).starts_with("volume tmp: "));
    fs::remove_file(bench.directory.path().join("pods")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lay_out(&mut volumes, &pod).len(), 1);
}

// VOL-01: medium: Memory
#[test]
fn what_is_to_lie_in_memory_does_where_there_is_some() {
    let bench = Bench::new();
    let memory = super::memory::find(bench.instance);
    let mut volumes = bench.open(&[]);
    let source = VolumeSource::EmptyDir { in_memory: true, size_limit_bytes: 0 };
    let fast = Volume { name: "fast".to_owned(), source };
    let both = pod(vec![fast, files("key", &[("a", "1")])], vec![mount("fast", "/fast", ""), mount("key", "/key", "")]);
    let preopens = lay_out(&mut volumes, &both);
    for path in ["/fast", "/key"] {
        let lies = &guest(&preopens, path).host_path;
        assert_eq!(memory.as_ref().is_some_and(|root| lies.starts_with(root)), memory.is_some(), "{}", lies.display());
    }
    write(&guest(&preopens, "/fast").host_path.join("kept"), 1);
    // The agent goes: what pods wrote stays, what it can write again does not.
    volumes.close();
    assert!(guest(&preopens, "/fast").host_path.join("kept").exists());
    assert_eq!(guest(&preopens, "/key").host_path.exists(), memory.is_none());
    let mut volumes = bench.open(&[]);
    assert!(guest(&lay_out(&mut volumes, &both), "/fast").host_path.join("kept").exists());
}

// PRI-09
#[test]
fn what_guests_have_written_counts_for_their_pod_where_it_lies() {
    let bench = Bench::new();
    let mut memory = empty("fast", 0);
    memory.source = VolumeSource::EmptyDir { in_memory: true, size_limit_bytes: 0 };
    let pod = pod(vec![empty("tmp", 0), memory], vec![mount("tmp", "/tmp", ""), mount("fast", "/fast", "")]);
    let mut volumes = bench.open(&[]);
    let preopens = lay_out(&mut volumes, &pod);
    for (path, bytes) in [("/tmp", 8192), ("/fast", 4096)] {
        let quota = guest(&preopens, path).quota.clone().unwrap_or_else(|| panic!("{path} is written"));
        assert!(quota.charge(bytes, 1).is_ok());
    }
    let uses: Vec<_> = volumes.uses().collect();
    let in_memory = volumes.memory.is_some();
    let want = if in_memory { (4096, 8192) } else { (0, 12_288) };
    assert_eq!(uses, [(UID, super::Use { memory_bytes: want.0, disk_bytes: want.1 })]);
    assert!(volumes.tear_down(UID).is_some());
    assert_eq!(volumes.uses().count(), 0);
}

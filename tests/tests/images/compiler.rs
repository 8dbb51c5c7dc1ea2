//! The compiler's process at its limits, and everybody else beside it.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::succeed;
use coracle_tests::wait;

use crate::registry::{coracle, guest};
use crate::{has_succeeded, pod, wasm};

/// Signals, as Linux numbers them on every board that we know.
const SIGABRT: i32 = 6;
const SIGXCPU: i32 = 24;
/// "The image is at fault."
const REFUSED: i32 = 3;

/// The digest that the system's own tool finds.
fn digest(file: &Path) -> String {
    let line = succeed(Command::new("sha256sum").arg(file));
    format!("sha256:{}", line.split_whitespace().next().unwrap_or_default())
}

fn written(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let file = dir.join(name);
    fs::write(&file, bytes).expect("writable");
    file
}

/// Compiles within limits narrower than the compiler's own, which would take a minute.
fn compile(file: &Path, limits: &str) -> Output {
    let script = format!("{limits}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(coracle()).args(["__compile", "pulley64", &digest(file)]);
    let input = File::open(file).expect("it was written");
    command.stdin(input).output().expect("it starts")
}

#[test]
fn the_compiler_limits_itself_before_it_reads_a_byte() {
    // EDGE-02
    let mut command = Command::new(coracle());
    command.args(["__compile", "pulley64", &format!("sha256:{}", "00".repeat(32))]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let read = |file: &str| fs::read_to_string(proc.join(file)).unwrap_or_default();
    let niceness =
        |stat: &str| stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(16).map(ToOwned::to_owned));
    wait::until("it has set its limits", || match niceness(&read("stat")).as_deref() {
        Some("10") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let limits: Vec<Vec<String>> = read("limits")
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(ToOwned::to_owned).collect())
        .collect();
    for (name, soft) in [
        ("Max address space", "2147483648"),
        ("Max cpu time", "60"),
        ("Max file size", "67108864"),
        ("Max core file size", "0"),
    ] {
        let row = limits.iter().find(|row| row.first().is_some_and(|first| first == name));
        assert_eq!(row.and_then(|row| row.get(1)).map(String::as_str), Some(soft), "{name} in {limits:?}");
    }
    assert_eq!(read("oom_score_adj").trim(), "1000");
    drop(child.stdin.take());
    let ended = child.wait().expect("it ends");
    assert!(!ended.success());
}

#[test]
fn files_that_are_made_to_break_a_compiler_end_with_it_and_leave_nothing() {
    // EDGE-02
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let bombs = [
        ("blocks", wasm::nested_blocks(200_000), "ulimit -S -t 2"),
        ("tables", wasm::jump_tables(500, 300, 1000, 300), "ulimit -S -t 2"),
        ("giant", wasm::giant_function(900_000), "ulimit -S -v 150000"),
    ];
    for (name, bytes, limits) in bombs {
        let file = written(dir.path(), name, &bytes);
        let output = compile(&file, limits);
        let words = String::from_utf8_lossy(&output.stderr);
        let ended = match (output.status.code(), output.status.signal()) {
            (None, Some(SIGXCPU)) => limits.contains("-t"),
            (None, Some(SIGABRT)) => limits.contains("-v"),
            (Some(REFUSED), None) => !words.is_empty(),
            _ => false,
        };
        assert!(ended, "{name}: {} {words}", output.status);
        assert!(output.stdout.is_empty(), "{name}");
    }
}

#[test]
fn large_files_that_a_compiler_can_cope_with_are_compiled() {
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    for (name, bytes) in [
        ("functions", wasm::many_functions(20_000)),
        ("giant", wasm::giant_function(20_000)),
        ("blocks", wasm::nested_blocks(2_000)),
        ("tables", wasm::jump_tables(50, 10, 100, 10)),
    ] {
        let output = compile(&written(dir.path(), name, &bytes), "true");
        assert!(output.status.success(), "{name}: {} {}", output.status, String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.starts_with(b"\x7fELF"), "{name}");
    }
}

#[test]
fn others_are_compiled_while_one_file_keeps_the_compiler_busy() {
    // EDGE-02
    let mut cluster = Cluster::start(BrokerKind::Embedded, 1);
    let bomb = written(cluster.dir(), "bomb.wasm", &wasm::nested_blocks(200_000));
    let push = |file: &Path, name: &str| {
        let _pushed = succeed(&mut cluster.coracle(&["image", "push", &file.display().to_string(), name]));
    };
    push(&bomb, "bad/bomb:1");
    push(&guest("job-1.wasm"), "good/job:1");
    push(&guest("files.wasm"), "good/other:1");
    cluster.apply("bomb", &pod("bomb", "bad/bomb:1", "IfNotPresent", ""));
    let children = |cluster: &Cluster| {
        let file = format!("/proc/{0}/task/{0}/children", cluster.controller.pid());
        let threads = fs::read_dir(format!("/proc/{}/task", cluster.controller.pid())).into_iter().flatten().flatten();
        let each = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
        (file, each.flat_map(|text| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>()).collect())
    };
    let busy: Vec<String> = wait::until("the bomb is compiled", || {
        let (file, found): (String, Vec<String>) = children(&cluster);
        if found.is_empty() { Err(file) } else { Ok(found) }
    });
    cluster.apply("job", &pod("job", "good/job:1", "IfNotPresent", ""));
    let _job = cluster.wait_for_pod("job", "has succeeded", has_succeeded);
    cluster.apply("sample", &pod("sample", "samples/job:1", "IfNotPresent", ""));
    let _sample = cluster.wait_for_pod("sample", "has succeeded", has_succeeded);
    // A controller that is killed takes its compilers along.
    cluster.controller.kill();
    wait::until("no compiler is left", || {
        let left: Vec<&String> = busy.iter().filter(|pid| is_compiler(pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

fn is_compiler(pid: &str) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).contains("__compile")
}

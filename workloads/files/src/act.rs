//! Doing it.

use crate::Verb;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The most that is written at once.
const CHUNK_BYTES: usize = 4096;

/// What is held until the program ends.
#[derive(Debug, Default)]
pub struct Desk {
    open: Vec<File>,
    memory: Vec<Vec<u8>>,
}

impl Desk {
    /// Does one verb and gives the lines to print. [`Verb::Watch`] and [`Verb::Wait`] need the termination signal and
    /// do nothing here.
    ///
    /// # Errors
    /// What went wrong, without the verb's own name.
    pub fn act(&mut self, verb: &Verb) -> Result<Vec<u8>, String> {
        let line = match verb {
            Verb::Cat(path) => return lines_of(path),
            Verb::Write(path, bytes) => write(path, *bytes)?,
            Verb::Append(path, text) => append(path, text).map_err(|error| error.to_string())?,
            Verb::Many(directory, count) => many(directory, *count)?,
            Verb::Open(path, count) => self.open(path, *count)?,
            Verb::Ls(directory) => list(directory).map_err(|error| error.to_string())?,
            Verb::Mkdir(directory) => {
                fs::create_dir(directory).map_err(|error| error.to_string())?;
                format!("made {directory}")
            }
            Verb::Rm(path) => {
                fs::remove_file(path).map_err(|error| error.to_string())?;
                format!("removed {path}")
            }
            Verb::Env(None) => environment(),
            Verb::Env(Some(name)) => match std::env::var_os(name) {
                Some(value) => format!("{name}={}", value.display()),
                None => return Err("not set".to_string()),
            },
            Verb::Mem(bytes) => self.take(*bytes)?,
            Verb::Watch(_) | Verb::Wait => return Ok(Vec::new()),
        };
        Ok(format!("{line}\n").into_bytes())
    }

    fn open(&mut self, path: &str, count: u64) -> Result<String, String> {
        for opened in 0..count {
            let file = File::open(path).map_err(|error| format!("{error} after {opened} of {count}"))?;
            self.open.push(file);
        }
        Ok(format!("opened {count}"))
    }

    fn take(&mut self, bytes: u64) -> Result<String, String> {
        let size = usize::try_from(bytes).map_err(|error| error.to_string())?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(size).map_err(|error| error.to_string())?;
        // Filled with something other than zero: a host may give zero pages without any memory behind them.
        memory.resize(size, 0xA5);
        self.memory.push(std::hint::black_box(memory));
        Ok(format!("touched {bytes}"))
    }
}

/// A file's content, which is never left without the end of a line.
///
/// # Errors
/// Why it cannot be read.
pub fn lines_of(path: &str) -> Result<Vec<u8>, String> {
    let mut content = fs::read(path).map_err(|error| error.to_string())?;
    if content.last() != Some(&b'\n') {
        content.push(b'\n');
    }
    Ok(content)
}

fn write(path: &str, bytes: u64) -> Result<String, String> {
    let mut file = File::create(path).map_err(|error| error.to_string())?;
    let chunk = [b'.'; CHUNK_BYTES];
    let mut written = 0;
    while written < bytes {
        let next = usize::try_from(bytes - written).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        match file.write(&chunk[..next]) {
            Ok(0) => return Err(format!("nothing more is taken after {written} of {bytes}")),
            Ok(taken) => written += taken as u64,
            Err(error) => return Err(format!("{error} after {written} of {bytes}")),
        }
    }
    Ok(format!("wrote {bytes}"))
}

fn append(path: &str, text: &str) -> io::Result<String> {
    let line = format!("{text}\n");
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())?;
    Ok(format!("appended {}", line.len()))
}

fn many(directory: &str, count: u64) -> Result<String, String> {
    for made in 0..count {
        let path = Path::new(directory).join(format!("file-{made}"));
        File::create(path).map_err(|error| format!("{error} after {made} of {count}"))?;
    }
    Ok(format!("created {count}"))
}

/// The names in order; directories end with a slash.
fn list(directory: &str) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!(" {}{slash}", entry.file_name().display()));
    }
    names.sort();
    Ok(format!("{directory}:{}", names.concat()))
}

fn environment() -> String {
    let mut lines: Vec<_> =
        std::env::vars_os().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
    lines.sort();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of one test's own.
    struct Directory(std::path::PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("files-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn path(&self, name: &str) -> String {
            self.0.join(name).display().to_string()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn said(verb: Verb) -> Result<String, String> {
        Desk::default().act(&verb).map(|lines| String::from_utf8(lines).unwrap())
    }

    #[test]
    fn what_is_written_and_appended_is_read_and_removed() {
        let directory = Directory::new("write");
        let path = directory.path("a");
        assert_eq!(said(Verb::Write(path.clone(), 5000)), Ok("wrote 5000\n".to_string()));
        assert_eq!(fs::metadata(&path).unwrap().len(), 5000);
        assert_eq!(said(Verb::Write(path.clone(), 2)), Ok("wrote 2\n".to_string()));
        assert_eq!(said(Verb::Append(path.clone(), "x".into())), Ok("appended 2\n".to_string()));
        assert_eq!(said(Verb::Cat(path.clone())), Ok("..x\n".to_string()));
        assert!(said(Verb::Rm(path.clone())).is_ok());
        assert!(said(Verb::Cat(path)).is_err());
    }

    #[test]
    fn many_files_are_made_and_listed_in_order() {
        let directory = Directory::new("many");
        let path = directory.path("sub");
        assert!(said(Verb::Mkdir(path.clone())).is_ok());
        assert_eq!(said(Verb::Many(path.clone(), 3)), Ok("created 3\n".to_string()));
        assert_eq!(said(Verb::Ls(path.clone())), Ok(format!("{path}: file-0 file-1 file-2\n")));
        let above = directory.0.display().to_string();
        assert_eq!(said(Verb::Ls(above.clone())), Ok(format!("{above}: sub/\n")));
    }

    #[test]
    fn what_cannot_be_done_says_how_far_it_came() {
        let directory = Directory::new("far");
        let error = said(Verb::Many(directory.path("absent"), 3)).unwrap_err();
        assert!(error.ends_with("after 0 of 3"), "{error}");
        let error = said(Verb::Open(directory.path("absent"), 2)).unwrap_err();
        assert!(error.ends_with("after 0 of 2"), "{error}");
    }

    #[test]
    fn memory_is_touched_and_too_much_is_refused() {
        assert_eq!(said(Verb::Mem(100_000)), Ok("touched 100000\n".to_string()));
        assert!(said(Verb::Mem(u64::MAX)).is_err());
    }

    #[test]
    fn a_variable_that_is_not_set_is_an_error() {
        assert_eq!(said(Verb::Env(Some("FILES_NOT_SET".into()))), Err("not set".to_string()));
        assert!(said(Verb::Env(None)).unwrap().contains("PATH="));
    }
}

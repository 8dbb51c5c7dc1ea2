//! What the arguments mean.

/// How to use it; part of every complaint.
pub const USAGE: &str = "usage: files VERB..., with the verbs cat PATH, write PATH BYTES, append PATH TEXT, \
                         many DIR COUNT, open PATH COUNT, ls DIR, mkdir DIR, rm PATH, env [NAME], mem BYTES, \
                         watch PATH, wait";

const NAMES: [&str; 12] =
    ["cat", "write", "append", "many", "open", "ls", "mkdir", "rm", "env", "mem", "watch", "wait"];

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// Prints a file.
    Cat(String),
    /// Makes or replaces a file of so many bytes.
    Write(String, u64),
    /// Adds a text and the end of a line to a file, which is made if need be.
    Append(String, String),
    /// Makes so many empty files in a directory.
    Many(String, u64),
    /// Opens a file so many times and keeps it open.
    Open(String, u64),
    /// Prints the names in a directory.
    Ls(String),
    /// Makes a directory.
    Mkdir(String),
    /// Removes a file.
    Rm(String),
    /// Prints one variable of the environment, or all.
    Env(Option<String>),
    /// Takes so many bytes of memory, writes to all of them, and keeps them.
    Mem(u64),
    /// Prints a file at once and whenever it changed, until the pod is asked to stop.
    Watch(String),
    /// Waits until the pod is asked to stop.
    Wait,
}

impl Verb {
    /// The verb and its first argument, as a complaint names them.
    pub fn title(&self) -> String {
        match self {
            Self::Cat(path) => format!("cat {path}"),
            Self::Write(path, _) => format!("write {path}"),
            Self::Append(path, _) => format!("append {path}"),
            Self::Many(path, _) => format!("many {path}"),
            Self::Open(path, _) => format!("open {path}"),
            Self::Ls(path) => format!("ls {path}"),
            Self::Mkdir(path) => format!("mkdir {path}"),
            Self::Rm(path) => format!("rm {path}"),
            Self::Env(None) => "env".to_string(),
            Self::Env(Some(name)) => format!("env {name}"),
            Self::Mem(bytes) => format!("mem {bytes}"),
            Self::Watch(path) => format!("watch {path}"),
            Self::Wait => "wait".to_string(),
        }
    }
}

/// Reads the arguments after the program's own name. The word after `env` is a variable's name unless it is a verb.
///
/// # Errors
/// A sentence for the user that says what is wrong, and the usage.
pub fn parse(arguments: &[String]) -> Result<Vec<Verb>, String> {
    let mut words = arguments.iter().map(String::as_str).peekable();
    let mut verbs = Vec::new();
    while let Some(word) = words.next() {
        if word == "env" {
            let name = words.next_if(|next| !NAMES.contains(next));
            verbs.push(Verb::Env(name.map(str::to_string)));
            continue;
        }
        let mut text = |what: &str| {
            words.next().map(str::to_string).ok_or_else(|| format!("files: {word} without its {what}; {USAGE}"))
        };
        verbs.push(match word {
            "cat" => Verb::Cat(text("path")?),
            "write" => Verb::Write(text("path")?, count(word, &text("bytes")?)?),
            "append" => Verb::Append(text("path")?, text("text")?),
            "many" => Verb::Many(text("directory")?, count(word, &text("count")?)?),
            "open" => Verb::Open(text("path")?, count(word, &text("count")?)?),
            "ls" => Verb::Ls(text("directory")?),
            "mkdir" => Verb::Mkdir(text("directory")?),
            "rm" => Verb::Rm(text("path")?),
            "mem" => Verb::Mem(count(word, &text("bytes")?)?),
            "watch" => Verb::Watch(text("path")?),
            "wait" => Verb::Wait,
            other => return Err(format!("files: {other:?} is no verb; {USAGE}")),
        });
    }
    if verbs.is_empty() { Err(format!("files: no verb; {USAGE}")) } else { Ok(verbs) }
}

fn count(verb: &str, word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("files: {word:?} after {verb} is no whole number; {USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<Verb>, String> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn verbs_follow_each_other() {
        let expected = vec![Verb::Write("/data/a".into(), 10), Verb::Cat("/data/a".into()), Verb::Wait];
        assert_eq!(parsed("write /data/a 10 cat /data/a wait"), Ok(expected));
    }

    #[test]
    fn the_word_after_env_is_a_name_unless_it_is_a_verb() {
        assert_eq!(parsed("env A env"), Ok(vec![Verb::Env(Some("A".into())), Verb::Env(None)]));
        assert_eq!(parsed("env ls /"), Ok(vec![Verb::Env(None), Verb::Ls("/".into())]));
    }

    #[test]
    fn every_name_is_a_verb() {
        for name in NAMES {
            let verbs =
                parsed(&format!("{name} 1 1")).or_else(|_| parsed(&format!("{name} 1"))).or_else(|_| parsed(name));
            assert!(verbs.is_ok_and(|verbs| verbs[0].title().starts_with(name)), "{name}");
        }
    }

    #[test]
    fn bad_arguments_are_named_with_the_usage() {
        for (line, found) in [
            ("", "no verb"),
            ("dog /a", "\"dog\""),
            ("cat", "cat without its path"),
            ("write /a", "write without its bytes"),
            ("write /a ten", "\"ten\" after write"),
            ("mem -1", "\"-1\" after mem"),
        ] {
            let message = parsed(line).unwrap_err();
            assert!(message.contains(found) && message.ends_with(USAGE), "{message}");
        }
    }
}

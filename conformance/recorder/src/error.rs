//! Everything that can stop a recording, each with what to do about it.

use std::path::PathBuf;

/// A program that the recorder calls and did not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    /// The program, as looked for in `PATH`.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

/// Why a recording was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Programs are missing on the host.
    #[error("recording needs {}; install: apt-get install {}", list(.0), packages(.0))]
    Tools(Vec<MissingTool>),

    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A program could not be started or ended badly.
    #[error("{program}: {message}")]
    Program {
        /// The program that was started.
        program: String,
        /// Its exit code or the last lines it wrote.
        message: String,
    },

    /// The kernel tree lacks something.
    #[error("kernel {release}: {message}")]
    Kernel {
        /// The release string, or the folder where none is known yet.
        release: String,
        /// What is missing.
        message: String,
    },

    /// A scenario file is wrong.
    #[error("{file}:{line}:{column}: {message}")]
    Scenario {
        /// File name, or the built-in scenario's name.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// What was expected.
        message: String,
    },

    /// No built-in scenario and no file has this name.
    #[error("no scenario file and no built-in scenario is called {name:?}; built in: {known}")]
    UnknownScenario {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },

    /// The guest did not boot, did not finish, or a step in it failed.
    #[error("guest {release}: {message}\n{tail}")]
    Guest {
        /// Kernel release.
        release: String,
        /// Which step failed.
        message: String,
        /// The last lines of its console or log.
        tail: String,
    },

    /// Events were lost: such a recording proves nothing.
    #[error("the recording lost events and is refused: {0}; record again with a larger ring or a lower rate")]
    Lost(String),

    /// The raw record stream is damaged.
    #[error("raw records: at byte {offset}: {message}")]
    Raw {
        /// Byte offset in the stream.
        offset: usize,
        /// What was expected there.
        message: String,
    },

    /// This machine cannot record its own kernel.
    #[error("recording on this machine: {0}")]
    Live(String),
}

impl Error {
    /// An [`Error::Io`] for `path`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }
}

fn list(tools: &[MissingTool]) -> String {
    tools.iter().map(|t| t.program).collect::<Vec<_>>().join(", ")
}

fn packages(tools: &[MissingTool]) -> String {
    let mut names: Vec<_> = tools.iter().map(|t| t.package).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" ")
}

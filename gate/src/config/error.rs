//! What is wrong with a configuration: every fault of a file at once, each with the place, the key, the value and what is
//! allowed. Says nothing about what to do next; that is the caller's.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// One thing that is wrong with a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line in the file, from 1; `None` where the value came from no file.
    pub line: Option<usize>,
    /// The full key, such as `rooms[2].new_users_per_minute` (rooms count from 0); empty for the file as a whole.
    pub key: String,
    /// The value as given, shortened; `None` where a key is missing.
    pub value: Option<String>,
    /// What is wrong and what is allowed.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key.is_empty(), &self.value) {
            (true, _) => {}
            (false, Some(value)) => write!(f, "{} = {value}: ", self.key)?,
            (false, None) => write!(f, "{}: ", self.key)?,
        }
        f.write_str(&self.problem)
    }
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file could not be read at all.
    Read { file: PathBuf, source: io::Error },
    /// The file is longer than [`super::FILE_BYTES_MAX`] or no UTF-8 text.
    NotText { file: PathBuf, problem: String },
    /// Everything that is wrong with it, in the order of the file; never empty.
    Invalid { file: PathBuf, faults: Vec<Fault> },
    /// Everything that is wrong with the command line's quick form; never empty.
    Arguments { faults: Vec<Fault> },
}

impl ConfigError {
    /// The single faults; empty where the file could not be read.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::Read { .. } | Self::NotText { .. } => &[],
            Self::Invalid { faults, .. } | Self::Arguments { faults } => faults,
        }
    }
}

impl fmt::Display for ConfigError {
    /// One line per fault, as `file:line: key = value: problem`, without a line break at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, .. } => write!(f, "{}: cannot be read", file.display()),
            Self::NotText { file, problem } => write!(f, "{}: {problem}", file.display()),
            Self::Invalid { file, faults } => {
                for (index, fault) in faults.iter().enumerate() {
                    if index > 0 {
                        f.write_str("\n")?;
                    }
                    write!(f, "{}:", file.display())?;
                    if let Some(line) = fault.line {
                        write!(f, "{line}:")?;
                    }
                    write!(f, " {fault}")?;
                }
                Ok(())
            }
            Self::Arguments { faults } => {
                for (index, fault) in faults.iter().enumerate() {
                    if index > 0 {
                        f.write_str("\n")?;
                    }
                    write!(f, "command line: {fault}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::NotText { .. } | Self::Invalid { .. } | Self::Arguments { .. } => None,
        }
    }
}
